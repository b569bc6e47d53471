"""CUDA compiler: LLVM IR to PTX, which needs no device; and PTX to machine code, by the driver.

Both are kept on disk: PTX under its text and architecture, machine code (a cubin) under the PTX,
the GPU and the version of the driver too.  A cubin loads in 0.3 ms; PTX of 3,000 instructions takes
the driver 0.2 s.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Sequence
from typing import Any

from tfn.config import config
from tfn.errors import CompileError
from tfn.extend import LlvmCompiler, Target, object_cache
from tfn.hw.compile.llvm import Translate
from tfn.hw.cuda.driver import Driver
from tfn.hw.cuda.library import CudaError

PART = "cubins"  # of the cache on disk
MIN_LEVEL = 1
"""LLVM's level for all kernels: below, it does not tell shared memory from global memory."""
DIRECT = b"wgmma.", b"cudaGraphSetConditional"
"""Words of texts that are loaded as they are.  The linker compiles products of warp groups 12 %
slower than the loader does, and does not know the function that the loader resolves.  The driver
keeps what it has compiled by itself: such a text loads in 0.4 ms the second time."""

LOG_BYTES = 8192
MAX_MESSAGE_LINES = 12
_ERROR_LOG, _ERROR_LOG_BYTES = 5, 6  # CUjit_option
_PTX = 1  # CUjitInputType


class CudaCompiler:
    """Compiles kernels once.

    Attributes:
        counts: of texts compiled, and of PTX from either cache.
    """

    def __init__(self, translate: Translate | None = None) -> None:
        self._llvm = LlvmCompiler(translate=translate)
        self.counts: object_cache.Counts = self._llvm.counts

    def compile(self, text: str, target: Target, level: int = 2) -> bytes:
        """PTX from LLVM IR; no device is needed.

        Raises:
            CompileError: with LLVM's message.
        """
        return self.compile_all([text], target, level)[0]

    def compile_all(self, texts: Sequence[str], target: Target, level: int = 2) -> list[bytes]:
        """For each text PTX that holds its kernel, and others perhaps.

        Raises:
            CompileError: with LLVM's message.
        """
        return self._llvm.compile_all(texts, target, max(level, MIN_LEVEL))


def image(driver: Driver, ptx: bytes) -> bytes:
    """The data that the driver loads for PTX: machine code, from the disk or by its linker.

    Raises:
        CompileError: with the driver's message.
    """
    if not config.disk_cache or any(word in ptx for word in DIRECT):
        return ptx
    parts = (driver.name, driver.target.cpu, str(driver.version))
    key = hashlib.sha256("\0".join(parts).encode() + b"\0" + ptx).hexdigest()
    cubin = object_cache.fetch(PART, key)
    if cubin is None:
        cubin = _linked(driver, ptx)
        object_cache.store(PART, key, cubin)
    return cubin


def _log() -> tuple[Any, Any, Any]:
    """A buffer for the driver's message, and the options that name it."""
    log = ctypes.create_string_buffer(LOG_BYTES)
    options = (ctypes.c_int * 2)(_ERROR_LOG, _ERROR_LOG_BYTES)
    values = (ctypes.c_void_p * 2)(ctypes.addressof(log), LOG_BYTES)
    return log, options, values


def _linked(driver: Driver, ptx: bytes) -> bytes:
    library, (log, options, values) = driver.library, _log()
    state, cubin, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
    library("cuLinkCreate", 2, options, values, ctypes.byref(state))
    try:
        text = ctypes.create_string_buffer(ptx)  # it ends with a zero, which the driver wants
        library(
            "cuLinkAddData",
            *(state, _PTX, text, ctypes.c_size_t(len(text)), b"kernels.ptx", 0, None, None),
        )
        library("cuLinkComplete", state, ctypes.byref(cubin), ctypes.byref(size))
        return ctypes.string_at(cubin.value or 0, size.value)
    except CudaError as error:
        raise _refused(driver, error, log) from None
    finally:
        library("cuLinkDestroy", state)


def load_module(driver: Driver, data: bytes) -> Any:
    """The module of PTX or machine code.

    Raises:
        CompileError: with the driver's message.
    """
    log, options, values = _log()
    module, text = ctypes.c_void_p(), ctypes.create_string_buffer(data)
    try:
        driver.library("cuModuleLoadDataEx", ctypes.byref(module), text, 2, options, values)
    except CudaError as error:
        raise _refused(driver, error, log) from None
    return module


def _refused(driver: Driver, error: CudaError, log: Any) -> CompileError:
    lines = [line for line in log.value.decode(errors="replace").splitlines() if line.strip()]
    return CompileError(
        f"the CUDA driver does not accept a kernel for {driver.name}",
        got="\n       ".join([str(error), *lines[:MAX_MESSAGE_LINES]]),
        hint="this is a fault of tfn, or of the driver",
    )
