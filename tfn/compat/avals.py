"""Types of values, as JAX names them: `ShapedArray`, `typeof`, and classes for ``isinstance``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

from tfn import Ref
from tfn.array import Array
from tfn.dtypes import INEXACT, NARROW, DType, KeyType, ScalarType, canonical
from tfn.errors import ArgumentError
from tfn.extend import Op, Shape, ShapeDtypeStruct, run, walk
from tfn.random import Key
from tfn.sharding import AbstractMesh, NamedSharding, PartitionSpec
from tfn.trace.named_sharding import names_of

float0: DType = np.dtype([("float0", np.void, 0)])
"""The dtype of the tangents of integers: no bits.  Only NumPy arrays have it."""


class ExtendedDType:
    """The base of dtypes that a library defines, of which tfn has no arrays."""


@dataclass(frozen=True, repr=False)
class ShapedArray:
    """The type of an array.

    Example:
        >>> str(ShapedArray((2, 3), "float32"))
        'float32[2,3]'
    """

    shape: Shape
    dtype: Any
    weak_type: bool = False
    sharding: Any = field(
        default=NamedSharding(AbstractMesh((), ()), PartitionSpec()), repr=False, compare=False
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))
        known = self.dtype is float0 or isinstance(self.dtype, KeyType)
        object.__setattr__(self, "dtype", self.dtype if known else canonical(self.dtype))
        sharding = self.sharding  # whose spec has an entry for each axis
        undivided = self.ndim - len(sharding.spec)
        if undivided > 0:
            spec = sharding.spec.update((*sharding.spec, *[None] * undivided))
            object.__setattr__(self, "sharding", NamedSharding(sharding.mesh, spec))

    def __str__(self) -> str:
        sizes = list(map(str, self.shape))
        for axis, part in enumerate(self.sharding.spec):
            names = [str(n) for n in names_of(part) if n in self.sharding.mesh.explicit_axes]
            several = f"({','.join(names)})" if len(names) > 1 else "".join(names)
            sizes[axis] += f"@{several}" if names else ""
        spec = self.sharding.spec
        sums = [("U", spec.unreduced), ("R", spec.reduced)]
        listed = [
            f"{letter}:{','.join(sorted(map(str, names)))}" for letter, names in sums if names
        ]
        more = f"{{{', '.join(listed)}}}" if listed else ""
        return f"{self.dtype.name}[{','.join(sizes)}]{more}"

    def __repr__(self) -> str:
        return f"ShapedArray({self}{', weak_type=True' if self.weak_type else ''})"

    def str_short(self, short_dtypes: bool = False, **options: object) -> str:
        """The type as ``float32[2,3]``."""
        return str(self)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    def update(self, **fields: Any) -> ShapedArray:
        """The type with other fields."""
        return replace(self, **fields)

    def strip_weak_type(self) -> ShapedArray:
        """The type that is not weak."""
        return ShapedArray(self.shape, self.dtype)

    def to_tangent_aval(self) -> ShapedArray:
        """The type of tangents: of the same dtype, or of `float0` for integers.

        Example:
            >>> ShapedArray((3,), "int32").to_tangent_aval().dtype is float0
            True
        """
        return self if self.dtype in INEXACT else ShapedArray(self.shape, float0)

    to_cotangent_aval = at_least_vspace = to_ct_aval = to_tangent_aval


AbstractValue = ShapedArray


class AbstractRef:
    """The type of a reference: that of the array that it holds."""

    def __init__(self, inner_aval: Any, memory_space: Any = None, kind: Any = None) -> None:
        self.inner_aval, self.memory_space, self.kind = inner_aval, memory_space, kind

    shape = property(lambda self: self.inner_aval.shape)
    dtype = property(lambda self: self.inner_aval.dtype)
    ndim = property(lambda self: self.inner_aval.ndim)
    size = property(lambda self: self.inner_aval.size)
    weak_type = property(lambda self: False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbstractRef) and self.inner_aval == other.inner_aval

    def __hash__(self) -> int:
        return hash(self.inner_aval)

    def __repr__(self) -> str:
        return f"Ref{{{self.inner_aval}}}"


def typeof(x: Any) -> Any:
    """The type of an array, a number or a reference.

    Example:
        >>> typeof(1.0).weak_type
        True
        >>> import tfn
        >>> typeof(tfn.new_ref(1.0))
        Ref{float32[]}
    """
    if isinstance(x, Ref):
        return AbstractRef(ShapedArray(x.shape, x.dtype))
    if isinstance(x, Key):
        return ShapedArray(x.shape, x.dtype)
    if isinstance(x, (Array, ShapeDtypeStruct)):
        sharding = ShapeDtypeStruct.of(x).sharding if isinstance(x, Array) else x.sharding
        if isinstance(sharding, NamedSharding):
            return ShapedArray(x.shape, x.dtype, x.weak_type, sharding)
        return ShapedArray(x.shape, x.dtype, x.weak_type)
    own = getattr(x, "aval", None)  # of a variable, a zero, an unknown operand of a transpose
    if own is not None or isinstance(x, ShapedArray):
        return own or x
    if getattr(x, "dtype", None) == float0:
        return ShapedArray(x.shape, float0)
    value = run.asarray(x)
    return ShapedArray(value.shape, value.dtype, value.weak_type)


def dtype_of(x: Any) -> DType:
    """The dtype of an array, of a number on its own, or of a dtype.

    Example:
        >>> dtype_of(1.0), dtype_of("int8")
        (dtype('float32'), dtype('int8'))
    """
    if isinstance(x, (np.dtype, type, str, ScalarType)):
        return canonical(x)
    return typeof(x).dtype  # type: ignore[no-any-return]


def mapped_aval(size: int, axis: int | None, aval: ShapedArray) -> ShapedArray:
    """The type of one lane.

    Example:
        >>> str(mapped_aval(3, 1, ShapedArray((2, 3), "float32")))
        'float32[2]'
    """
    if axis is None:
        return aval
    if aval.shape[axis] != size:
        raise ArgumentError(
            f"the mapped axis of {aval} is not of the size of the others",
            got=f"axis {axis}, and a size of {size}",
            hint="map axes of one size",
        )
    mesh, spec = aval.sharding.mesh, list(aval.sharding.spec)
    del spec[axis]
    sharding = NamedSharding(mesh, PartitionSpec(*spec))
    return aval.update(shape=(*aval.shape[:axis], *aval.shape[axis + 1 :]), sharding=sharding)


def unmapped_aval(size: int, axis: int | None, aval: ShapedArray, *more: object) -> ShapedArray:
    """The type of all lanes.

    Example:
        >>> str(unmapped_aval(3, 0, ShapedArray((2,), "float32")))
        'float32[3,2]'
    """
    if axis is None:
        return aval
    mesh, spec = aval.sharding.mesh, list(aval.sharding.spec)
    spec.insert(axis, None)
    sharding = NamedSharding(mesh, PartitionSpec(*spec))
    return aval.update(shape=(*aval.shape[:axis], size, *aval.shape[axis:]), sharding=sharding)


def predicate_type(name: str, holds: Callable[[Any], bool]) -> Any:
    """A class whose instances are the values for which a predicate holds.

    Example:
        >>> even = predicate_type("even", lambda x: x % 2 == 0)
        >>> isinstance(4, even), isinstance(5, even), issubclass(int, even)
        (True, False, False)
    """
    check = {"__instancecheck__": lambda kind, x: holds(x)}
    return type("PredicateType", (type,), check)(name, (), {})


def is_traced(x: object) -> bool:
    """Whether a value belongs to a running trace."""
    return isinstance(x, Array) and x.owner is not None


Tracer: Any = predicate_type("Tracer", is_traced)


def depends_on_inputs(x: object) -> bool:
    """Whether a value belongs to a running trace and depends on an argument of its function."""
    if not isinstance(x, Array) or x.owner is None or x.uop is None:
        return False
    return any(node.op is Op.LEAF and node.arg.is_input for node in walk([x.uop]))


JVPTracer: Any = predicate_type("JVPTracer", depends_on_inputs)


def is_array_type(x: object) -> bool:
    """Whether a value can be an argument of a transformed function.

    Example:
        >>> is_array_type(1.0), is_array_type("text")
        (True, False)
    """
    if isinstance(x, np.ndarray):
        return x.dtype.kind in "biufc" or x.dtype == bfloat16 or x.dtype in NARROW
    return isinstance(x, (Array, ShapeDtypeStruct, bool, int, float, complex, np.generic))
