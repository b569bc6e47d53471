"""libcuda: the driver's library by ctypes, its errors by name.

Nothing of a toolkit is used.  The library is opened at the first use of the device: to initialise
it takes 0.1 s, and a context 0.13 s more.  All 64-bit arguments are wrapped: a plain int is an int
of C.  No argument types are declared, with which ctypes takes longer for a call.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from glob import glob
from itertools import chain
from typing import Any

from tfn.errors import DeviceError
from tfn.extend import frozen

NAMES = ("libcuda.so.1", "libcuda.so") if sys.platform != "win32" else ("nvcuda.dll",)
MIN_VERSION = 12040
"""CUDA 12.4: the first whose graphs have loops and branches."""
HINT = "a driver of NVIDIA, version 550 or later, brings it; nothing of the CUDA toolkit is needed"

OUT_OF_MEMORY = 2
NO_DEVICE = 100
NOT_READY = 600
PEER_ENABLED = 704
LOST = frozenset({700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 214, 220, 226, 911})
"""Errors after which the context can do nothing more: illegal addresses and instructions, failed
assertions, launches that were ended, memory and links that have lost bits."""

# fmt: off
SYMBOLS: dict[str, str] = {
    name.removesuffix("_v2"): name for name in (
        "cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString",
        "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetAttribute",
        "cuDeviceTotalMem_v2", "cuDeviceGetUuid_v2", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent",
        "cuModuleLoadDataEx", "cuModuleUnload", "cuModuleGetFunction",
        "cuFuncGetAttribute", "cuFuncSetAttribute",
        "cuLinkCreate_v2", "cuLinkAddData_v2", "cuLinkComplete", "cuLinkDestroy",
        "cuMemAlloc_v2", "cuMemFree_v2", "cuMemGetInfo_v2", "cuMemHostAlloc", "cuMemFreeHost",
        "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2",
        "cuMemcpyPeerAsync", "cuMemsetD8Async", "cuDeviceCanAccessPeer", "cuCtxEnablePeerAccess",
        "cuStreamCreate", "cuStreamSynchronize", "cuStreamWaitEvent",
        "cuEventCreate", "cuEventRecord", "cuEventQuery", "cuEventSynchronize",
        "cuEventElapsedTime", "cuEventDestroy_v2", "cuLaunchKernel",
        "cuGraphCreate", "cuGraphDestroy", "cuGraphAddKernelNode_v2", "cuGraphAddNode",
        "cuGraphConditionalHandleCreate", "cuGraphInstantiateWithFlags", "cuGraphLaunch",
        "cuGraphExecDestroy",
    )
}
"""Functions by the names that this package calls them by, and the symbols of the library."""
# fmt: on


class CudaError(Exception):
    """An error code of the driver; what catches it says what broke.

    Attributes:
        code: the number.
        name: as the driver spells it: ``CUDA_ERROR_ILLEGAL_ADDRESS``.
        text: the driver's description.
    """

    def __init__(self, code: int, name: str, text: str, function: str) -> None:
        super().__init__(f"{name} ({code}): {text}, from {function}")
        self.code, self.name, self.text, self.function = code, name, text, function

    @property
    def is_lost(self) -> bool:
        """Whether the context can do nothing more."""
        return self.code in LOST


@frozen
class Library:
    """The functions of libcuda, or of what stands in for it.

    Attributes:
        functions: by the names of `SYMBOLS`; each returns an error code.
    """

    functions: Mapping[str, Callable[..., int]]

    def __call__(self, name: str, *arguments: Any) -> None:
        """Call a function.

        Raises:
            CudaError: if it does not return 0.
        """
        code = self.functions[name](*arguments)
        if code:
            raise self.error(code, name)

    def address(self, name: str) -> int:
        """The address by which native code calls a function."""
        function: Any = self.functions[name]
        return ctypes.cast(function, ctypes.c_void_p).value or 0

    def error(self, code: int, function: str) -> CudaError:
        """The error of a code that a function has returned."""
        words: list[str] = []
        for getter in ("cuGetErrorName", "cuGetErrorString"):
            text = ctypes.c_char_p()
            self.functions[getter](ctypes.c_int(code), ctypes.byref(text))
            words.append((text.value or b"an unknown error").decode(errors="replace"))
        name, description = words
        return CudaError(code, name, description, function)

    def integer(self, name: str, *arguments: Any) -> int:
        """The int that a function writes to its first argument."""
        value = ctypes.c_int()
        self(name, ctypes.byref(value), *arguments)
        return value.value

    def handle(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        """The handle that a function writes to its first argument."""
        value = ctypes.c_void_p()
        self(name, ctypes.byref(value), *arguments)
        return value


def checked(library: Library) -> Library:
    """The library, initialised, if its version is recent enough.

    Raises:
        DeviceError: if it is not, or if there is no device.
    """
    try:
        library("cuInit", 0)
    except CudaError as error:
        raise DeviceError(
            "the CUDA driver does not start",
            got=str(error),
            hint="nvidia-smi says which GPUs there are"
            if error.code == NO_DEVICE
            else "the driver and its kernel module have to be of one version",
        ) from None
    version = library.integer("cuDriverGetVersion")
    if version < MIN_VERSION:
        raise DeviceError(
            "the CUDA driver is too old",
            got=f"CUDA {_show(version)}; tfn needs {_show(MIN_VERSION)}",
            hint=HINT,
        )
    return library


def _show(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def package_library(names: Sequence[str]) -> ctypes.CDLL | None:
    """A library of NVIDIA's: that of the system, or of a package of PyPI; None if there is none.

    The packages that jax and torch bring keep theirs in folders that no loader searches.

    Args:
        names: files, the preferred one first.
    """
    for name in names:
        packaged = (p for root in sys.path for p in glob(f"{root}/nvidia/*/lib/{name}"))
        for path in chain([name], packaged):
            try:
                return ctypes.CDLL(path)
            except OSError:
                continue
    return None


@cache
def library() -> Library:
    """The library of this machine, opened and initialised.

    Raises:
        DeviceError: if there is none, if it is too old, or if it finds no device.
    """
    errors = []
    for name in NAMES:
        try:
            opened = ctypes.CDLL(name)
        except OSError as error:
            errors.append(str(error))
            continue
        missing = [symbol for symbol in SYMBOLS.values() if not hasattr(opened, symbol)]
        if missing:
            raise DeviceError(
                "the CUDA driver is too old",
                got=f"{name} without {', '.join(missing[:3])}",
                hint=HINT,
            )
        return checked(Library({n: getattr(opened, symbol) for n, symbol in SYMBOLS.items()}))
    raise DeviceError("this machine has no CUDA driver", got=errors[0], hint=HINT)
