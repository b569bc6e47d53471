"""Host library calls: LAPACK routines by address, and fast Fourier transforms.

The only file of the compiler that imports SciPy.  Importing one of its packages takes 120 ms, so
that happens at first use.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache as once
from functools import partial
from typing import Any

import numpy as np

from tfn.trace import oracle
from tfn.trace.argument import Fft, FftType

Data = np.ndarray[Any, Any]

SCIPY_MIN_ELEMENTS = 1 << 14
"""Elements from which a transform is worth the import: SciPy's is 2 to 7 times as fast there."""


@once
def lapack(name: str) -> int:
    """Returns the address of a routine of LAPACK or BLAS: a C function of pointers, without result.

    Raises:
        KeyError: neither has a routine of this name.

    Example:
        >>> lapack("dgetrf") != lapack("sgetrf")
        True
    """
    from scipy.linalg import cython_blas, cython_lapack

    blas = cython_blas.__pyx_capi__
    capsule = blas[name] if name in blas else cython_lapack.__pyx_capi__[name]
    get_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)
    get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    # A capsule gives its pointer only to a caller that knows its name, the C signature.
    signature = get_name(("PyCapsule_GetName", ctypes.pythonapi))(capsule)
    return int(get_pointer(("PyCapsule_GetPointer", ctypes.pythonapi))(capsule, signature))


def fft(arg: Fft, x: Data, out: Data) -> Callable[[], object]:
    """A Fourier transform over the last axes of `x` into `out`, as a function that computes it.

    By SciPy's pocketfft, which transforms several lines at once; by NumPy's if the array is small.

    Example:
        >>> from tfn.trace.argument import FftType
        >>> out = np.empty(4, complex)
        >>> _ = fft(Fft(FftType.FFT, (4,)), np.ones(4, complex), out)()
        >>> out.real.tolist()
        [4.0, 0.0, 0.0, 0.0]
    """
    if max(x.size, out.size) < SCIPY_MIN_ELEMENTS:
        return _by_numpy(arg, x, out)

    def by_scipy() -> None:
        import scipy.fft

        transform = getattr(scipy.fft, f"{arg.kind.value}n")
        out[...] = transform(x, arg.lengths, range(x.ndim - len(arg.lengths), x.ndim))

    return by_scipy


def _by_numpy(arg: Fft, x: Data, out: Data) -> Callable[[], object]:
    """The same by NumPy: by its loops, where they are found, without the functions around them.

    Those take 8 of the 10 us of a transform of 5 by 12 numbers.
    """
    kind, inverse = arg.kind, arg.kind in (FftType.IFFT, FftType.IRFFT)
    loops = numpy_fft_loops()
    if loops is None or (kind is FftType.IRFFT and len(arg.lengths) > 1):
        return partial(oracle.fft, arg, x, out)
    real = np.dtype(f"float{4 * np.result_type(x, np.complex64).itemsize}")
    steps: list[Callable[[], object]] = []
    for axis, n in zip(range(-1, -len(arg.lengths) - 1, -1), reversed(arg.lengths), strict=True):
        # Only the last axis of a real transform is real; the others are transformed in place.
        of_axis = kind.value if axis == -1 else "ifft" if inverse else "fft"
        if of_axis == "rfft":
            of_axis = "rfft_n_odd" if n % 2 else "rfft_n_even"
        # By an integer 1, NumPy's functions transform float32 in float64, in twice the time.
        scale = real.type(1) / real.type(n) if inverse else real.type(1)
        axes = [(axis,), (), (axis,)]
        loop = getattr(loops, of_axis)
        steps.append(partial(loop, out if steps else x, scale, axes=axes, out=out))
    return steps[0] if len(steps) == 1 else partial(_in_order, steps)


def _in_order(steps: Sequence[Callable[[], object]]) -> None:
    for step in steps:
        step()


@once
def numpy_fft_loops() -> Any:
    """The generalised ufuncs behind `numpy.fft`; None if this NumPy keeps them elsewhere."""
    loops = getattr(np.fft, "_pocketfft_umath", None)
    names = ("fft", "ifft", "irfft", "rfft_n_even", "rfft_n_odd")
    return loops if all(hasattr(loops, name) for name in names) else None


def sparse_solve(data: Data, indices: Data, indptr: Data, b: Data, transposed: bool) -> Data:
    """The solution of a system with a matrix of compressed rows, or with its transpose.

    Example:
        >>> parts = np.array([2.0, 1.0, 4.0]), np.array([0, 0, 1]), np.array([0, 1, 3])
        >>> sparse_solve(*parts, np.array([2.0, 9.0]), False).tolist()
        [1.0, 2.0]
    """
    import scipy.sparse.linalg

    form = scipy.sparse.csc_matrix if transposed else scipy.sparse.csr_matrix
    matrix = form((data, indices, indptr), shape=(b.shape[0], b.shape[0]))
    solution: Data = scipy.sparse.linalg.spsolve(matrix.tocsc(), b)
    return solution
