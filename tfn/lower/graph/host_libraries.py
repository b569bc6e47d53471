"""Compiled libraries that programs call on the host: LAPACK, and Fourier transforms.

This file owns SciPy.  Importing a part of that takes 120 ms, so it happens at first use.
"""

from __future__ import annotations

import ctypes
from functools import cache as once
from typing import Any

import numpy as np

from tfn.trace import oracle
from tfn.trace.argument import Fft

Data = np.ndarray[Any, Any]

LARGE = 1 << 14
"""From so many elements on a transform is worth the import: SciPy's is 2 to 7 times as fast."""


@once
def lapack(name: str) -> int:
    """The address of a routine of LAPACK: a C function of pointers that returns nothing.

    Example:
        >>> lapack("dgetrf") != lapack("sgetrf")
        True
    """
    from scipy.linalg import cython_lapack

    capsule = cython_lapack.__pyx_capi__[name]
    of_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)
    of_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    what = of_name(("PyCapsule_GetName", ctypes.pythonapi))(capsule)
    return int(of_pointer(("PyCapsule_GetPointer", ctypes.pythonapi))(capsule, what))


def fft(arg: Fft, x: Data, out: Data) -> None:
    """A Fourier transform over the last axes, by SciPy's pocketfft, which computes several lines
    at once; by NumPy's if it is small.

    Example:
        >>> from tfn.trace.argument import FftType
        >>> out = np.empty(4, complex)
        >>> fft(Fft(FftType.FFT, (4,)), np.ones(4), out)
        >>> out.real.tolist()
        [4.0, 0.0, 0.0, 0.0]
    """
    if max(x.size, out.size) < LARGE:
        oracle.fft(arg, x, out)
        return
    import scipy.fft

    transform = getattr(scipy.fft, f"{arg.kind.value}n")
    out[...] = transform(x, arg.lengths, range(x.ndim - len(arg.lengths), x.ndim))
