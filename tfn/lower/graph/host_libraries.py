"""Host library calls: LAPACK routines by address, and fast Fourier transforms.

The only file of the compiler that imports SciPy.  Importing one of its packages takes 120 ms, so
that happens at first use.
"""

from __future__ import annotations

import ctypes
from functools import cache as once
from typing import Any

import numpy as np

from tfn.trace import oracle
from tfn.trace.argument import Fft

Data = np.ndarray[Any, Any]

SCIPY_MIN_ELEMENTS = 1 << 14
"""Elements from which a transform is worth the import: SciPy's is 2 to 7 times as fast there."""


@once
def lapack(name: str) -> int:
    """Returns the address of a routine of LAPACK: a C function of pointers that returns nothing.

    Raises:
        KeyError: LAPACK has no routine of this name.

    Example:
        >>> lapack("dgetrf") != lapack("sgetrf")
        True
    """
    from scipy.linalg import cython_lapack

    capsule = cython_lapack.__pyx_capi__[name]
    get_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)
    get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    # A capsule gives its pointer only to a caller that knows its name, the C signature.
    signature = get_name(("PyCapsule_GetName", ctypes.pythonapi))(capsule)
    return int(get_pointer(("PyCapsule_GetPointer", ctypes.pythonapi))(capsule, signature))


def fft(arg: Fft, x: Data, out: Data) -> None:
    """Computes a Fourier transform over the last axes of `x` into `out`.

    By SciPy's pocketfft, which transforms several lines at once; by NumPy's if the array is small.

    Example:
        >>> from tfn.trace.argument import FftType
        >>> out = np.empty(4, complex)
        >>> fft(Fft(FftType.FFT, (4,)), np.ones(4), out)
        >>> out.real.tolist()
        [4.0, 0.0, 0.0, 0.0]
    """
    if max(x.size, out.size) < SCIPY_MIN_ELEMENTS:
        oracle.fft(arg, x, out)
        return
    import scipy.fft

    transform = getattr(scipy.fft, f"{arg.kind.value}n")
    out[...] = transform(x, arg.lengths, range(x.ndim - len(arg.lengths), x.ndim))
