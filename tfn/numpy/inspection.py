"""Inspection: capabilities, dtypes and devices of the namespace; predicates of values.

Source: the Python array API standard 2024.12, "Inspection" and "Data type functions".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tfn import dtypes
from tfn._support.frozen import frozen
from tfn._support.validate import one_of
from tfn.array import Array, ArrayLike
from tfn.dtypes import BOOL, COMPLEXES, FLOATS, INTEGERS, SCALAR_TYPES, SIGNED, UNSIGNED, DType
from tfn.eager import devices as eager_devices
from tfn.eager.operands import scalar_kind
from tfn.errors import ArgumentError, DTypeError
from tfn.trace.mesh import Device

KINDS = {
    "bool": frozenset({BOOL}),
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": INTEGERS,
    "real floating": FLOATS,
    "complex floating": COMPLEXES,
    "numeric": INTEGERS | FLOATS | COMPLEXES,
}
"""The kinds of dtypes that the standard names."""


def _names(kind: Any) -> frozenset[DType]:
    if isinstance(kind, str) and kind in KINDS:
        return KINDS[kind]
    if isinstance(kind, tuple):
        return frozenset().union(*map(_names, kind))
    return frozenset({dtypes.canonical(kind)})


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind.

    Args:
        dtype: a dtype, or its name.
        kind: "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex
            floating", "numeric", a dtype, or a tuple of these.

    Raises:
        DTypeError: if there is no such dtype or kind.

    Example:
        >>> isdtype("int8", "integral"), isdtype("int8", ("bool", "real floating"))
        (True, False)
    """
    return dtypes.canonical(dtype) in _names(kind)


_ORDER_OF_KINDS: tuple[frozenset[dtypes.DType], ...] = (
    frozenset({BOOL}),
    dtypes.INTEGERS,
    dtypes.FLOATS,
    dtypes.COMPLEXES,
)


def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    """Whether values of one dtype, or of an array, become another one by promotion alone.

    Args:
        from_: dtype, or array.
        to: dtype.
        casting: "safe" by default; "no" and "equiv" for equal dtypes only, "same_kind" for integers
            to shorter ones too, and floats to shorter ones, "unsafe" for all.

    Raises:
        ArgumentError: for another `casting`.

    Example:
        >>> can_cast("int32", "float32"), can_cast("float32", "int32")
        (True, False)
    """
    one_of("can_cast", "casting", casting, ("safe", "no", "equiv", "same_kind", "unsafe"))
    source, target = dtypes.canonical(getattr(from_, "dtype", from_)), dtypes.canonical(to)
    if casting in ("no", "equiv"):
        return source == target
    if casting == "same_kind":
        first, last = (
            next(i for i, kinds in enumerate(_ORDER_OF_KINDS) if dtype in kinds)
            for dtype in (source, target)
        )
        return first <= last
    return casting == "unsafe" or _above(source, target)


def _above(source: dtypes.DType, target: dtypes.DType) -> bool:
    try:
        return dtypes.promote_types(source, target) == target
    except DTypeError:  # narrow types have none in common
        return False


@frozen
class FloatInfo:
    """Limits of a floating dtype, or of the parts of a complex one, as Python floats.

    Attributes:
        bits: number of bits of sign, exponent and mantissa together.
        eps: distance from 1 to the next larger number.
        max: the largest number.
        min: the smallest number, ``-max``.
        smallest_normal: the smallest positive number of full precision; also `tiny`.
        dtype: the dtype; of the parts, if a complex one was asked for.
        smallest_subnormal: the smallest positive number.
        resolution: 10 to the negative number of decimal digits.
        nmant: number of bits of the mantissa.
        nexp: number of bits of the exponent; also `iexp`.
        precision: number of decimal digits that every number of this type keeps.
        epsneg: distance from 1 to the next smaller number.
        machep, negep: the exponents of 2 of `eps` and of `epsneg`.
        minexp: the exponent of 2 of `smallest_normal`.
        maxexp: the exponent of the smallest power of 2 that is too large.
    """

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType
    smallest_subnormal: float
    resolution: float
    nmant: int
    nexp: int
    precision: int
    epsneg: float
    machep: int
    negep: int
    minexp: int
    maxexp: int

    @property
    def iexp(self) -> int:
        """Another name of `nexp`."""
        return self.nexp

    @property
    def tiny(self) -> float:
        """Another name of `smallest_normal`."""
        return self.smallest_normal


def finfo(dtype: Any) -> FloatInfo:
    """Limits of a floating or complex dtype, or of that of an array.

    Raises:
        DTypeError: for dtypes without a fraction.

    Example:
        >>> finfo("bfloat16").eps
        0.0078125
    """
    kind = dtypes.part(dtypes.canonical(getattr(dtype, "dtype", dtype)))
    if kind not in FLOATS:
        raise DTypeError("finfo needs a floating dtype", got=kind.name, hint="use iinfo")
    limits = dtypes.finfo(kind)
    return FloatInfo(
        bits=int(limits.bits),
        eps=float(limits.eps),
        max=float(limits.max),
        min=float(limits.min),
        smallest_normal=float(limits.smallest_normal),
        dtype=kind,
        smallest_subnormal=float(limits.smallest_subnormal),
        resolution=float(limits.resolution),
        nmant=int(limits.nmant),
        nexp=int(limits.nexp),
        precision=int(limits.precision),
        epsneg=float(limits.epsneg),
        machep=int(limits.machep),
        negep=int(limits.negep),
        minexp=int(limits.minexp),
        maxexp=int(limits.maxexp),
    )


def iinfo(int_type: Any) -> Any:
    """Limits of an integer dtype, or of that of an array: ``numpy.iinfo``.

    Example:
        >>> iinfo("int8").max
        127
    """
    return dtypes.iinfo(getattr(int_type, "dtype", int_type))


def _check(device: object) -> None:
    if device is not None:
        eager_devices.as_device(device)


class Namespace:
    """The inspection functions of the array API."""

    __slots__ = ()

    def capabilities(self) -> dict[str, bool | int | None]:
        """Support of shapes that depend on values, by masks or `unique`: they work eagerly."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> Device:
        """The device on which arrays are made."""
        return eager_devices.current_device()

    def devices(self) -> list[Device]:
        """All devices of the default platform."""
        return eager_devices.devices()

    def default_dtypes(self, *, device: object = None) -> dict[str, DType]:
        """The dtypes of Python's numbers, 32 bits wide, and of indices."""
        _check(device)
        names = {"real floating": float, "complex floating": complex, "integral": int}
        defaults = {name: dtypes.DEFAULTS[scalar] for name, scalar in names.items()}
        return defaults | {"indexing": dtypes.DEFAULTS[int]}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The dtypes of a kind by name, among those of the standard.

        Args:
            device: a device, for all of which it is the same.
            kind: a kind, or a tuple of them, as for `isdtype`; None takes all.
        """
        _check(device)
        chosen = frozenset(dtypes.ALL) if kind is None else _names(kind)
        scalars = {name.dtype.name: name.dtype for name in SCALAR_TYPES}
        standard = KINDS["numeric"] - dtypes.NARROW - {dtypes.BFLOAT16, dtypes.FLOAT16} | {BOOL}
        return {name: kind for name, kind in scalars.items() if kind in chosen & standard}


def __array_namespace_info__() -> Namespace:
    """The inspection functions of this namespace."""
    return Namespace()


def isscalar(element: object) -> bool:
    """Whether a value is a number, of Python or of NumPy, or an array without axes.

    Example:
        >>> isscalar(1.5), isscalar([1.5])
        (True, False)
    """
    if isinstance(element, (Array, np.ndarray)):
        return element.ndim == 0
    return scalar_kind(element) is not None or bool(np.isscalar(element))


def iterable(y: Any) -> bool:
    """Whether a value can be iterated over, by ``iter(y)``.

    Example:
        >>> import tfn.numpy as tnp
        >>> iterable(tnp.ones(2)), iterable(1.0)
        (True, False)
    """
    try:
        iter(y)
    except (TypeError, ArgumentError):
        return False
    return True


def array_repr(
    arr: ArrayLike,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """The text of an array and its dtype; see `numpy.array_repr`.

    Args:
        arr: array or number, of any shape.
        max_line_width: characters in a line; None takes NumPy's print options.
        precision: digits after the point; None takes NumPy's print options.
        suppress_small: whether to write no exponents; None takes NumPy's print options.

    Example:
        >>> import tfn.numpy as tnp
        >>> array_repr(tnp.arange(3))
        'Array([0, 1, 2], dtype=int32)'
    """
    with np.printoptions(**_options(max_line_width, precision, suppress_small)):
        return repr(arr)


def array_str(
    a: ArrayLike,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """The text of the values of an array; see `numpy.array_str`.

    Args:
        a: array or number, of any shape.
        max_line_width: characters in a line; None takes NumPy's print options.
        precision: digits after the point; None takes NumPy's print options.
        suppress_small: whether to write no exponents; None takes NumPy's print options.

    Example:
        >>> import tfn.numpy as tnp
        >>> array_str(tnp.arange(3))
        '[0 1 2]'
    """
    with np.printoptions(**_options(max_line_width, precision, suppress_small)):
        return str(a)


def _options(width: int | None, precision: int | None, suppress: bool | None) -> Any:
    options = {"linewidth": width, "precision": precision, "suppress": suppress}
    return {name: value for name, value in options.items() if value is not None}
