"""Denormal numbers: kept, or flushed to zero, by all threads of programs."""

from __future__ import annotations

import ctypes
import platform

from tfn.errors import ArgumentError
from tfn.hw.cpu.loader import Code

_KEEP, _FLUSH = 0, 1
_MODES = {"x86_64": (0x1F80, 0x9FC0), "aarch64": (0, 1 << 24), "arm64": (0, 1 << 24)}
_FOLLOWERS: list[tuple[ctypes.c_uint32, Code]] = []
_current = [_KEEP]


def mode() -> int:
    """The floating-point control word that threads of programs have now, on this machine.

    Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, MXCSR; Arm
    Architecture Reference Manual for A-profile, FPCR.
    """
    return _MODES.get(platform.machine(), (0, 0))[_current[0]]


def follow(code: Code) -> None:
    """Set the word `float_mode` of loaded code to `mode()`, now and at every change."""
    word = ctypes.c_uint32.from_address(code.addresses["float_mode"])
    word.value = mode()
    _FOLLOWERS.append((word, code))  # the code stays loaded, and with it the word


def flush_denormals(on: bool = True) -> None:
    """Treat denormal numbers as zero in all programs that run from now on, or keep them again.

    The default is to keep them, as NumPy does; JAX flushes them on CPUs.  Where they abound, as in
    an optimizer's moments of units that have died, processors become slow: an operation on a
    vector that holds one takes from ten cycles more (a division, on some processors) to two
    hundred (any operation, on others).  Python, other libraries and the device ``python`` are not
    affected.

    Raises:
        ArgumentError: if `on` is no bool.

    Example:
        >>> import tfn, tfn.numpy as tnp
        >>> f, tiny = tfn.jit(lambda x: x * 0.5 > 0), tnp.asarray([1e-42, 1e-37])
        >>> f(tiny)
        Array([ True,  True], dtype=bool)
        >>> tfn.flush_denormals()
        >>> f(tiny)
        Array([False,  True], dtype=bool)
        >>> tfn.flush_denormals(False)
    """
    if not isinstance(on, bool):
        raise ArgumentError(
            "flush_denormals takes True or False",
            got=f"on={on!r}",
            hint="True takes denormal numbers for zero",
        )
    _current[0] = _FLUSH if on else _KEEP
    for word, _ in _FOLLOWERS:
        word.value = mode()
