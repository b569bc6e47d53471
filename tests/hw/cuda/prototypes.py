"""The prototypes of the driver's functions, as cuda.h has them; `test_header` compares the two.

A letter for each argument, by how it is passed: p a pointer or handle, q 64 bits, i 32, c a byte.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

# fmt: off
PROTOTYPES: dict[str, str] = {
    "cuInit": "i", "cuDriverGetVersion": "p", "cuGetErrorName": "ip", "cuGetErrorString": "ip",
    "cuDeviceGetCount": "p", "cuDeviceGet": "pi", "cuDeviceGetName": "pii",
    "cuDeviceGetAttribute": "pii", "cuDeviceTotalMem_v2": "pi", "cuDeviceGetUuid_v2": "pi",
    "cuDevicePrimaryCtxRetain": "pi",
    "cuCtxSetCurrent": "p", "cuModuleLoadDataEx": "ppipp", "cuModuleUnload": "p",
    "cuModuleGetFunction": "ppp", "cuFuncGetAttribute": "pip", "cuFuncSetAttribute": "pii",
    "cuLinkCreate_v2": "ippp", "cuLinkAddData_v2": "pipqpipp", "cuLinkComplete": "ppp",
    "cuLinkDestroy": "p", "cuMemAlloc_v2": "pq", "cuMemFree_v2": "q", "cuMemGetInfo_v2": "pp",
    "cuMemHostAlloc": "pqi", "cuMemFreeHost": "p", "cuMemcpyHtoDAsync_v2": "qpqp",
    "cuMemcpyDtoHAsync_v2": "pqqp", "cuMemcpyDtoDAsync_v2": "qqqp",
    "cuMemcpyPeerAsync": "qpqpqp", "cuMemsetD8Async": "qcqp", "cuDeviceCanAccessPeer": "pii",
    "cuCtxEnablePeerAccess": "pi", "cuStreamCreate": "pi", "cuStreamSynchronize": "p",
    "cuStreamWaitEvent": "ppi", "cuEventCreate": "pi", "cuEventRecord": "pp", "cuEventQuery": "p",
    "cuEventSynchronize": "p", "cuEventElapsedTime": "ppp", "cuEventDestroy_v2": "p",
    "cuLaunchKernel": "piiiiiiippp", "cuGraphCreate": "pi", "cuGraphDestroy": "p",
    "cuGraphAddKernelNode_v2": "pppqp", "cuGraphAddNode": "pppqp",
    "cuGraphConditionalHandleCreate": "pppii", "cuGraphInstantiateWithFlags": "ppq",
    "cuGraphLaunch": "pp", "cuGraphExecDestroy": "p",
}
# fmt: on

SIZES = {"q": (8,), "i": (4,), "c": (1,), "p": (8,)}
_REFERENCE = type(ctypes.byref(ctypes.c_int()))


def mistake(symbol: str, arguments: Sequence[Any]) -> str:
    """What is wrong with the arguments of a call by ctypes without argument types; empty if none.

    A plain int is passed as a C int: the upper half of 64 bits would be anything.
    """
    letters = PROTOTYPES[symbol]
    if len(letters) != len(arguments):
        return f"{symbol} takes {len(letters)} arguments, not {len(arguments)}"
    for i, (letter, x) in enumerate(zip(letters, arguments, strict=True)):
        is_pointer = x is None or isinstance(
            x, (_REFERENCE, ctypes.Array, bytes, ctypes._Pointer, ctypes.c_void_p)
        )
        if isinstance(x, int):
            fits = letter in "ic"
        elif is_pointer:
            fits = letter == "p"
        else:
            fits = letter != "p" and ctypes.sizeof(x) in SIZES[letter]
        if not fits:
            return f"{symbol}: argument {i} is {x!r}, which is not passed as {letter}"
    return ""
