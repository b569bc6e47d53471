"""Numbers below the smallest normal one: kept, or taken for zero, by all threads of programs."""

from __future__ import annotations

import ctypes
import platform

from tfn.errors import ArgumentError
from tfn.hw.cpu.loader import Code

_KEEP, _FLUSH = 0, 1
_MODES = {"x86_64": (0x1F80, 0x9FC0), "aarch64": (0, 1 << 24), "arm64": (0, 1 << 24)}
_FOLLOWING: list[tuple[ctypes.c_uint32, Code]] = []
_now = [_KEEP]


def mode() -> int:
    """The control word of the threads of programs at present, on this machine.

    Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, MXCSR; Arm
    Architecture Reference Manual for A-profile, FPCR.
    """
    return _MODES.get(platform.machine(), (0, 0))[_now[0]]


def follow(code: Code) -> None:
    """Keep the word `float_mode` of a native part as `mode` says, from now on and for ever."""
    word = ctypes.c_uint32.from_address(code.addresses["float_mode"])
    word.value = mode()
    _FOLLOWING.append((word, code))  # which must stay loaded, or the word would be gone


def flush_denormals(on: bool = True) -> None:
    """Take denormal numbers for zero in all programs that run from now on, or keep them again.

    They are kept unless this is asked for, as by NumPy; JAX takes them for zero on CPUs.  Where
    they abound, as in the moments that an optimizer keeps of units that have died, processors
    become slow: a vector that holds one takes some ten cycles more to divide on some, and two
    hundred to do anything with on others.  Python and other libraries go on as before, and so does
    the device ``python``.

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
    _now[0] = _FLUSH if on else _KEEP
    for word, _ in _FOLLOWING:
        word.value = mode()
