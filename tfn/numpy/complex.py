"""Complex numbers and their parts, one element at a time.

A real number is a complex one whose imaginary part is zero.
"""

from __future__ import annotations

import math

from tfn.array import Array, ArrayLike
from tfn.dtypes import BOOL, COMPLEXES, INEXACT, DType, canonical
from tfn.eager.operands import apply, array_of, inexact, scalar_kind
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const


def real(val: ArrayLike, /) -> Array:
    """The real part; a real array itself.

    Example:
        >>> real(3 + 4j)
        Array(3., dtype=float32, weak_type=True)
    """
    val = array_of("real", val)
    return apply(build.real, (val,), weak=val.weak_type) if val.dtype in COMPLEXES else val


def imag(val: ArrayLike, /) -> Array:
    """The imaginary part, zeros of a real array.

    Example:
        >>> imag(3 + 4j)
        Array(4., dtype=float32, weak_type=True)
    """
    val = array_of("imag", val)
    return apply(build.imag, (val,), weak=val.weak_type)


def conj(x: ArrayLike, /) -> Array:
    """The complex conjugate: the imaginary part with the other sign.

    Example:
        >>> conj(3 + 4j)
        Array(3.-4.j, dtype=complex64, weak_type=True)
    """
    x = array_of("conj", x)
    return apply(build.conj, (x,), weak=x.weak_type) if x.dtype in COMPLEXES else x


def angle(z: ArrayLike, deg: bool = False) -> Array:
    """The angle between a number and the positive real axis, in radians or degrees.

    Example:
        >>> angle(-1.0)
        Array(3.1415927, dtype=float32, weak_type=True)
    """
    z = array_of("angle", z)
    weak = z.weak_type and z.dtype in INEXACT
    return apply(_angle, (z,), inexact((z.dtype, False))[0], bool(deg), weak=weak)


def _angle(x: UOp, kind: DType, deg: bool) -> UOp:
    x = build.cast(x, kind)
    angle = UOp(Op.ATAN2, (build.imag(x), build.real(x)))
    return angle * (180 / math.pi) if deg else angle


def iscomplex(x: ArrayLike) -> Array:
    """Whether the imaginary part is not zero.

    Example:
        >>> import tfn.numpy as tnp
        >>> iscomplex(tnp.array([1 + 0j, 2j]))
        Array([False,  True], dtype=bool)
    """
    return apply(_iscomplex, (array_of("iscomplex", x),))


def _iscomplex(x: UOp) -> UOp:
    if x.dtype not in COMPLEXES:
        return const(False, BOOL, x.shape)
    return build.ne(build.imag(x), const(0, build.imag(x).dtype, x.shape))


def isreal(x: ArrayLike) -> Array:
    """Whether the imaginary part is zero.

    Example:
        >>> import tfn.numpy as tnp
        >>> isreal(tnp.array([1 + 0j, 2j]))
        Array([ True, False], dtype=bool)
    """
    return apply(_isreal, (array_of("isreal", x),))


def _isreal(x: UOp) -> UOp:
    return ~_iscomplex(x)


def iscomplexobj(x: object) -> bool:
    """Whether the dtype is complex, that of one element of a list.

    Example:
        >>> iscomplexobj(1j), iscomplexobj([1, 2])
        (True, False)
    """
    if isinstance(x, (list, tuple)):
        return any(iscomplexobj(v) for v in x)
    dtype = scalar_kind(x) if scalar_kind(x) is not None else getattr(x, "dtype", None)
    return dtype is not None and canonical(dtype) in COMPLEXES


def isrealobj(x: object) -> bool:
    """Whether the dtype is not complex.

    Example:
        >>> import tfn.numpy as tnp
        >>> isrealobj(tnp.array([1 + 0j])), isrealobj(1.0)
        (False, True)
    """
    return not iscomplexobj(x)


conjugate = conj
