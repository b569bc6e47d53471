"""Element types: names, defaults, and JAX's promotion lattice with weak types of Python scalars.

A dtype is a ``numpy.dtype`` everywhere inside tfn (ml_dtypes has those that NumPy lacks).  What
users write, ``tfn.numpy.float32``, is a `ScalarType`: it equals its dtype and, called, makes an
array.  The types of `NARROW` are storage: arithmetic on them is computed in a wider one.

Source: the lattice is the one of the JAX documentation, "Type promotion semantics".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

from tfn.config import config, watch
from tfn.errors import DTypeError, NumberError

DType = np.dtype[Any]


class ScalarType:
    """A public name of a dtype: ``float32 == x.dtype``, ``np.dtype(float32)``, ``float32(1)``."""

    __slots__ = ("dtype", "make")
    dtype: DType
    make: Callable[[Any, DType], Any] | None

    def __init__(self, dtype: DTypeLike) -> None:
        self.dtype = np.dtype(dtype)
        self.make = None

    @property
    def __name__(self) -> str:
        """The name of the dtype, which classes of NumPy have too."""
        return self.dtype.name

    def __call__(self, value: object) -> Any:
        """The value as an array of this dtype."""
        assert self.make is not None, "tfn/__init__.py installs the array constructor"
        return self.make(value, self.dtype)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ScalarType):
            return bool(self.dtype == other.dtype)
        try:
            return bool(self.dtype == np.dtype(other))  # type: ignore[call-overload]
        except (TypeError, ValueError, SyntaxError):  # a string that names no dtype
            return NotImplemented

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"tfn.{self.dtype.name}"


DTypeLike = str | type[Any] | DType | ScalarType
"""The objects that users may pass for a dtype."""

bool_ = ScalarType(np.bool_)
int8, int16, int32, int64 = (ScalarType(f"int{n}") for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (ScalarType(f"uint{n}") for n in (8, 16, 32, 64))
bfloat16 = ScalarType(ml_dtypes.bfloat16)
float16, float32, float64 = (ScalarType(f"float{n}") for n in (16, 32, 64))
complex64, complex128 = ScalarType("complex64"), ScalarType("complex128")
int2, int4, uint2, uint4 = map(
    ScalarType, (ml_dtypes.int2, ml_dtypes.int4, ml_dtypes.uint2, ml_dtypes.uint4)
)
float4_e2m1fn = ScalarType(ml_dtypes.float4_e2m1fn)
float8_e3m4, float8_e4m3 = ScalarType(ml_dtypes.float8_e3m4), ScalarType(ml_dtypes.float8_e4m3)
float8_e4m3fn = ScalarType(ml_dtypes.float8_e4m3fn)
float8_e4m3fnuz = ScalarType(ml_dtypes.float8_e4m3fnuz)
float8_e4m3b11fnuz = ScalarType(ml_dtypes.float8_e4m3b11fnuz)
float8_e5m2 = ScalarType(ml_dtypes.float8_e5m2)
float8_e5m2fnuz = ScalarType(ml_dtypes.float8_e5m2fnuz)
float8_e8m0fnu = ScalarType(ml_dtypes.float8_e8m0fnu)

SCALAR_TYPES = tuple(x for x in [*globals().values()] if isinstance(x, ScalarType))
"""All of them, in the order of their definition."""

BOOL = bool_.dtype
INT32, INT64, UINT32, UINT64 = int32.dtype, int64.dtype, uint32.dtype, uint64.dtype
FLOAT16, BFLOAT16, FLOAT32, FLOAT64 = float16.dtype, bfloat16.dtype, float32.dtype, float64.dtype
COMPLEX64, COMPLEX128 = complex64.dtype, complex128.dtype

int_, uint, float_, complex_ = map(ScalarType, (INT32, UINT32, FLOAT32, COMPLEX64))
"""The defaults under names: `config.x64` changes what they mean."""

DEFAULTS: dict[type, DType] = {bool: BOOL, int: INT32, float: FLOAT32, complex: COMPLEX64}
"""The dtypes of Python scalars on their own: 32 bits, or 64 with `config.x64`."""


def number(value: bool | int | float | complex) -> DType:
    """The default dtype of a Python number, or of one of a subclass.

    Example:
        >>> number(2), number(1j)
        (dtype('int32'), dtype('complex64'))
    """
    default = DEFAULTS.get(type(value))
    return default or next(dtype for kind, dtype in DEFAULTS.items() if isinstance(value, kind))


# fmt: off
SHORT: dict[DType, str] = {
    BOOL: "bool", int8.dtype: "i8", int16.dtype: "i16", INT32: "i32", INT64: "i64",
    uint8.dtype: "u8", uint16.dtype: "u16", UINT32: "u32", UINT64: "u64",
    BFLOAT16: "bf16", FLOAT16: "f16", FLOAT32: "f32", FLOAT64: "f64",
    COMPLEX64: "c64", COMPLEX128: "c128",
    int2.dtype: "i2", int4.dtype: "i4", uint2.dtype: "u2", uint4.dtype: "u4",
    float4_e2m1fn.dtype: "f4_e2m1fn", float8_e3m4.dtype: "f8_e3m4", float8_e4m3.dtype: "f8_e4m3",
    float8_e4m3fn.dtype: "f8_e4m3fn", float8_e4m3fnuz.dtype: "f8_e4m3fnuz",
    float8_e4m3b11fnuz.dtype: "f8_e4m3b11fnuz", float8_e5m2.dtype: "f8_e5m2",
    float8_e5m2fnuz.dtype: "f8_e5m2fnuz", float8_e8m0fnu.dtype: "f8_e8m0fnu",
}
"""Short names, as jaxprs print them."""
# fmt: on


_MOST: dict[DType, DType] = {}
"""The types in place of those that are too wide: none, unless `narrow_types` narrows them."""

_NARROWER = {INT64: INT32, UINT64: UINT32, FLOAT64: FLOAT32, COMPLEX128: COMPLEX64}


RULES: list[tuple[object, ...]] = [()]
"""Departures from the usual rules of dtypes, as part of the keys of caches of programs."""

RULES_WATCHERS: list[Callable[[], None]] = []
"""Called when the rules change, to drop what follows from them and has no key."""

_NARROWS = [False]


def narrow_types(narrows: bool) -> None:
    """Let arrays have 32 bits at most, as in JAX, while `config.x64` is off.

    A type of 64 bits that is asked for, and an array of NumPy that has them, become one of 32.
    """
    _NARROWS[0] = narrows
    _changed()


def install(make: Callable[[Any, DType], Any]) -> None:
    """Install the array constructor behind ``float32(1)``; done once, by ``tfn/__init__.py``."""
    for name in (*SCALAR_TYPES, int_, uint, float_, complex_):
        name.make = make


NARROW_FLOATS: frozenset[DType] = frozenset(
    s.dtype for s in SCALAR_TYPES if s.dtype.name.startswith(("float8", "float4"))
)
NARROW_SIGNED, NARROW_UNSIGNED = (
    frozenset({int2.dtype, int4.dtype}),
    frozenset({uint2.dtype, uint4.dtype}),
)
NARROW = NARROW_FLOATS | NARROW_SIGNED | NARROW_UNSIGNED
"""Types of 8 bits at most that no processor computes with: a byte in memory, whatever they have."""

WITHOUT_INFINITY = NARROW_FLOATS - {float8_e3m4.dtype, float8_e4m3.dtype, float8_e5m2.dtype}
"""Floating types in which numbers that are too large are NaN, or the largest one."""

WITHOUT_NAN = frozenset({float4_e2m1fn.dtype})
"""Floating types in which NaN is -0.0."""

FLOATS = frozenset({BFLOAT16, FLOAT16, FLOAT32, FLOAT64}) | NARROW_FLOATS
COMPLEXES = frozenset({COMPLEX64, COMPLEX128})
INEXACT = FLOATS | COMPLEXES
"""The dtypes whose values have derivatives."""

REALS = tuple(s.dtype for s in SCALAR_TYPES if s.dtype not in COMPLEXES | NARROW)
"""The dtypes that kernels know: there a complex value is two real ones, a narrow one is a byte."""

SIGNED = frozenset({int8.dtype, int16.dtype, INT32, INT64}) | NARROW_SIGNED
UNSIGNED = frozenset({uint8.dtype, uint16.dtype, UINT32, UINT64}) | NARROW_UNSIGNED
INTEGERS = SIGNED | UNSIGNED
ALL = tuple(s.dtype for s in SCALAR_TYPES)


def canonical(dtype: DTypeLike) -> DType:
    """The numpy dtype that a user's dtype means.

    Python's ``float``, ``int`` and ``bool`` mean the 32-bit defaults; an explicit 64-bit type is
    honoured.

    Raises:
        DTypeError: if tfn has no such element type.

    Example:
        >>> canonical(float), canonical("int64")
        (dtype('float32'), dtype('int64'))
    """
    if isinstance(dtype, np.dtype):
        parsed = dtype
    elif isinstance(dtype, ScalarType):
        parsed = dtype.dtype
    elif isinstance(dtype, type) and dtype in DEFAULTS:
        return DEFAULTS[dtype]
    else:
        try:
            parsed = np.dtype(dtype)
        # NumPy parses texts as Python, knows records, and warns of names that it will forget.
        except (TypeError, ValueError, SyntaxError, DeprecationWarning):
            raise DTypeError(
                f"{dtype!r} is not a dtype", got=f"dtype={dtype!r}", hint=_all_names()
            ) from None
    if parsed not in SHORT:
        parsed = parsed.newbyteorder("=")  # foreign byte order, which conversion swaps
        if parsed not in SHORT:
            raise DTypeError(
                f"tfn has no arrays of {parsed.name}", got=f"dtype={dtype!r}", hint=_all_names()
            )
    return _MOST.get(parsed, parsed) if _MOST else parsed


def _all_names() -> str:
    return "the element types are " + ", ".join(d.name for d in ALL)


# The lattice: each type points at the types just above it.  i*, f*, c* are weak Python scalars.
# fmt: off
_ABOVE: dict[str, tuple[str, ...]] = {
    "bool": ("i*",),
    "i*": ("u8", "i8"),
    "u8": ("i16", "u16"), "u16": ("i32", "u32"), "u32": ("i64", "u64"), "u64": ("f*",),
    "i8": ("i16",), "i16": ("i32",), "i32": ("i64",), "i64": ("f*",),
    "f*": ("c*", "bf16", "f16"), "bf16": ("f32",), "f16": ("f32",), "f32": ("c64", "f64"),
    "f64": ("c128",), "c*": ("c64",), "c64": ("c128",), "c128": (),
    **{SHORT[dtype]: () for dtype in NARROW},
}
_ABOVE["i*"] += tuple(SHORT[dtype] for dtype in NARROW - NARROW_FLOATS)
_ABOVE["f*"] += tuple(SHORT[dtype] for dtype in NARROW_FLOATS)
# fmt: on
_LONG = {short: dtype for dtype, short in SHORT.items()}
_WEAK = {"b": "bool", "i": "i*", "u": "i*", "f": "f*", "V": "f*", "c": "c*"}
_DEFAULT_OF = {"i*": INT32, "f*": FLOAT32, "c*": COMPLEX64}


def _up(node: str) -> frozenset[str]:
    return frozenset({node}).union(*map(_up, _ABOVE[node]))


_UPPER = {node: _up(node) for node in _ABOVE}


def _join(nodes: frozenset[str]) -> str:
    common = frozenset.intersection(*(_UPPER[node] for node in nodes))
    for node in common:
        if common <= _UPPER[node]:
            return node
    names = {"i*": "int", "f*": "float", "c*": "complex"}
    shown = sorted(_LONG[node].name if node in _LONG else names[node] for node in nodes)
    raise DTypeError(
        "a narrow type has no type in common with others",
        got=" and ".join(shown),
        hint="say in which type to compute: x.astype(tfn.numpy.float32)",
    )


def _node(dtype: DType, weak: bool) -> str:
    return _WEAK[dtype.kind] if weak else SHORT[dtype]


@lru_cache(maxsize=1 << 12)
def promote(operands: tuple[tuple[DType, bool], ...]) -> tuple[DType, bool]:
    """The least upper bound of (dtype, weak) pairs: JAX's lattice, associative and commutative.

    Example:
        >>> promote(((BFLOAT16, False), (FLOAT16, False)))
        (dtype('float32'), False)
    """
    if len(set(operands)) == 1:
        return operands[0]
    found = _joined(operands)
    strong = {dtype for dtype, weak in operands if not weak}
    if _STRICT[0] and strong and strong != {found[0]}:
        raise DTypeError(
            "operands of different dtypes are not promoted while promotion is strict",
            got=", ".join(f"{dtype.name}{' (a number)' * weak}" for dtype, weak in operands),
            hint="cast them with astype, or allow it by "
            'jax.config.update("jax_numpy_dtype_promotion", "standard")',
        )
    return found


_STRICT = [False]


def set_strict_promotion(strict: bool) -> None:
    """Whether operands of different dtypes are an error, as JAX has it on request.

    Numbers of Python still take the dtype of an array, if that has them.
    """
    _STRICT[0] = strict
    _changed()


def _changed() -> None:
    """Follow the settings: programs that were made by other rules are not used."""
    rules = tuple(
        name
        for name, holds in (
            ("64 bits", config.x64),
            ("32 bits at most", _NARROWS[0] and not config.x64),
            ("strict", _STRICT[0]),
        )
        if holds
    )
    if rules == RULES[0]:
        return
    RULES[0] = rules
    DEFAULTS[int], DEFAULTS[float] = (INT64, FLOAT64) if config.x64 else (INT32, FLOAT32)
    DEFAULTS[complex] = COMPLEX128 if config.x64 else COMPLEX64
    int_.dtype, uint.dtype = DEFAULTS[int], unsigned_type(DEFAULTS[int])
    float_.dtype, complex_.dtype = DEFAULTS[float], DEFAULTS[complex]
    _DEFAULT_OF.update({"i*": DEFAULTS[int], "f*": DEFAULTS[float], "c*": DEFAULTS[complex]})
    _MOST.clear()
    _MOST.update(_NARROWER if "32 bits at most" in rules else {})
    promote.cache_clear()
    for watcher in RULES_WATCHERS:
        watcher()


def _joined(operands: tuple[tuple[DType, bool], ...]) -> tuple[DType, bool]:
    if all(weak for _, weak in operands):
        strong = _join(frozenset(SHORT[dtype] for dtype, _ in operands))
        dtype = _LONG.get(strong) or _DEFAULT_OF[strong]
        return dtype, dtype != BOOL
    node = _join(frozenset(_node(dtype, weak) for dtype, weak in operands))
    if node in _DEFAULT_OF:  # an integer met a Python float, say
        return _DEFAULT_OF[node], all(weak or dtype.kind in "bui" for dtype, weak in operands)
    return _LONG[node], False


def promote_types(a: DTypeLike, b: DTypeLike) -> DType:
    """The dtype of an operation between `a` and `b`; Python's types give way to others.

    Example:
        >>> promote_types("uint8", "int8"), promote_types(int, "int8")
        (dtype('int16'), dtype('int8'))
    """
    return promote((with_weakness(a), with_weakness(b)))[0]


def with_weakness(dtype: DTypeLike) -> tuple[DType, bool]:
    """A dtype, and whether it gives way to others: that of a Python type.

    Example:
        >>> with_weakness(float), with_weakness("int8")
        ((dtype('float32'), True), (dtype('int8'), False))
    """
    return canonical(dtype), isinstance(dtype, type) and dtype in (int, float, complex)


def part(dtype: DType) -> DType:
    """The dtype of the real and the imaginary part; of a real dtype, that dtype.

    Example:
        >>> part(COMPLEX64)
        dtype('float32')
    """
    return _PARTS.get(dtype, dtype)


def complex_of(dtype: DType) -> DType:
    """The complex dtype that holds such parts; what is smaller than 32 bits becomes complex64.

    Example:
        >>> complex_of(FLOAT64)
        dtype('complex128')
    """
    return COMPLEX128 if dtype in (FLOAT64, COMPLEX128) else COMPLEX64


_PARTS = {COMPLEX64: FLOAT32, COMPLEX128: FLOAT64}
_ABSTRACT = {
    np.generic: frozenset(ALL),
    np.number: INTEGERS | INEXACT,
    np.integer: INTEGERS,
    np.signedinteger: SIGNED,
    np.unsignedinteger: UNSIGNED,
    np.inexact: INEXACT,
    np.floating: FLOATS,
    np.complexfloating: COMPLEXES,
    np.bool_: frozenset({BOOL}),
}


def _ends(dtype: DType) -> tuple[int, int]:
    limits = ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]
    return int(limits.min), int(limits.max)


_ENDS = {dtype: _ends(dtype) for dtype in INTEGERS}
"""The smallest and the largest integer of each dtype that has integers."""


def as_number_of(dtype: DType, value: Any) -> Any:
    """A Python number as one of a dtype: an integer where it is one, the fraction cut off.

    Arrays are converted as C does it, which is `astype`; numbers are what a user has written.

    Raises:
        NumberError: for an integer beyond the ends of the dtype, for NaN and infinities among
            integers, and for a complex number among real ones.

    Example:
        >>> as_number_of(INT32, 2.7)
        2
        >>> as_number_of(uint8.dtype, -1)
        Traceback (most recent call last):
            ...
        tfn.errors.NumberError: -1 does not fit into uint8
          got: value=-1 (int); uint8 holds whole numbers from 0 to 255
          at: <doctest tfn.dtypes.as_number_of[1]>:1  as_number_of(uint8.dtype, -1)
          hint: give a dtype that holds it, or convert an array with .astype, which wraps around
    """
    ends = _ENDS.get(dtype)
    try:
        if ends is not None:
            whole = int(value)
            if ends[0] <= whole <= ends[1]:
                return whole
        elif type(value) is float or dtype == BOOL:
            return value
        else:
            (float if dtype in FLOATS else complex)(
                value
            )  # raises the errors that are caught below
            return value
    except (TypeError, ValueError, OverflowError):
        pass
    kind = "real" if dtype in FLOATS else "complex"
    holds = f"whole numbers from {ends[0]} to {ends[1]}" if ends else f"{kind} numbers"
    raise NumberError(
        f"{str(value)[:40]} does not fit into {dtype.name}",
        got=f"value={str(value)[:40]} ({type(value).__name__}); {dtype.name} holds {holds}",
        hint="give a dtype that holds it, or convert an array with .astype, which wraps around",
    )


class extended:
    """The abstract type of element types that are no numbers."""


class prng_key:
    """The abstract type of the element types of random keys."""


class KeyType:
    """The element type of random keys of a generator; prints as ``key<fry>`` or ``key<rbg>``.

    Attributes:
        tag: the short name of the generator.
        type: the abstract type, where a ``numpy.dtype`` has that of its scalars.
    """

    __slots__ = ("tag",)
    tag: str
    type = prng_key  # by whose name jaxtyping knows keys

    def __init__(self, tag: str = "fry") -> None:
        self.tag = tag

    @property
    def name(self) -> str:
        """As the type prints."""
        return f"key<{self.tag}>"

    @property
    def itemsize(self) -> int:
        """The bytes of a key: those of two words of 32 bits, or of four."""
        return 8 if self.tag == "fry" else 16

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyType) and other.tag == self.tag

    def __hash__(self) -> int:
        return hash((KeyType, self.tag))

    def __repr__(self) -> str:
        return self.name


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether `arg1` belongs to `arg2`, an abstract NumPy type or a dtype; knows bfloat16.

    Example:
        >>> issubdtype(bfloat16, np.floating), issubdtype(KeyType(), np.number)
        (True, False)
    """
    if isinstance(arg1, KeyType) or arg2 in (extended, prng_key):
        return isinstance(arg1, KeyType) and arg2 in (extended, prng_key)
    if isinstance(arg1, type) and arg1 in _ABSTRACT and arg1 is not np.bool_:
        return isinstance(arg2, type) and issubclass(arg1, arg2)
    if isinstance(arg2, type) and arg2 in _ABSTRACT:
        return canonical(arg1) in _ABSTRACT[arg2]
    return canonical(arg1) == canonical(arg2)


def finfo(dtype: DTypeLike) -> Any:
    """Machine limits of a floating type (``ml_dtypes.finfo``, which knows bfloat16).

    Those of a complex type are those of its parts.
    """
    return ml_dtypes.finfo(part(canonical(dtype)))  # type: ignore[no-untyped-call]


def iinfo(dtype: DTypeLike) -> Any:
    """Machine limits of an integer type (``numpy.iinfo``, or that of ml_dtypes if it is narrow).

    Raises:
        DTypeError: for another type.
    """
    kind = canonical(dtype)
    if kind not in INTEGERS:
        raise DTypeError("iinfo needs an integer dtype", got=kind.name, hint="use finfo")
    return ml_dtypes.iinfo(kind) if kind in NARROW else np.iinfo(kind)  # type: ignore[no-untyped-call]


def lowest(dtype: DType) -> float:
    """The identity of `max`: -inf or the smallest number, the smallest integer, or False."""
    if dtype in FLOATS:
        return float(finfo(dtype).min) if dtype in WITHOUT_INFINITY else -np.inf
    return False if dtype == BOOL else _ENDS[dtype][0]


def highest(dtype: DType) -> float:
    """The identity of `min`: inf or the largest number, the largest integer, or True."""
    if dtype in FLOATS:
        return float(finfo(dtype).max) if dtype in WITHOUT_INFINITY else np.inf
    return True if dtype == BOOL else _ENDS[dtype][1]


def width_bits(dtype: DType) -> int:
    """The bits of a value: as many as its bytes in memory have, but for narrow types.

    Example:
        >>> width_bits(int4.dtype), width_bits(FLOAT32)
        (4, 32)
    """
    if dtype in NARROW:
        narrow: Any = finfo(dtype) if dtype in FLOATS else ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]
        return int(narrow.bits)
    return 8 * dtype.itemsize


def wide_type(dtype: DType) -> DType:
    """The dtype in which a narrow one is computed; of another one, that dtype.

    Example:
        >>> wide_type(float8_e5m2.dtype), wide_type(int4.dtype)
        (dtype('float32'), dtype('int8'))
    """
    if dtype not in NARROW:
        return dtype
    if dtype in NARROW_FLOATS:
        return FLOAT32
    return int8.dtype if dtype in NARROW_SIGNED else uint8.dtype


_SIGNED_BY_BITS = {width_bits(dtype): dtype for dtype in SIGNED}
_UNSIGNED_BY_BITS = {width_bits(dtype): dtype for dtype in UNSIGNED}


def signed_type(dtype: DType) -> DType:
    """The signed integer dtype of as many bits.

    Example:
        >>> signed_type(UINT32), signed_type(uint4.dtype)
        (dtype('int32'), dtype(int4))
    """
    return _SIGNED_BY_BITS[width_bits(dtype)]


def unsigned_type(dtype: DType) -> DType:
    """The unsigned integer dtype of as many bits.

    Example:
        >>> unsigned_type(FLOAT32)
        dtype('uint32')
    """
    return _UNSIGNED_BY_BITS[width_bits(dtype)]


watch(_changed)
