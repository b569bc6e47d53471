"""Construction of Arrays: on a buffer, as a value of a running trace, or with other weakness.

An Array is immutable.  It is filled as an instance of a mutable class of the same layout, whose
class is then changed to Array; native code fills its own, see `tfn/hw/cpu/pytrees.ll`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfn.array import Array
from tfn.dtypes import DType
from tfn.hw.buffer import Buffer
from tfn.trace.aval import kind_of
from tfn.trace.op import Shape
from tfn.trace.traces import Trace
from tfn.trace.uop import UOp

if TYPE_CHECKING:
    from tfn.trace.named_sharding import Sharding

# Both methods: CPython stores an attribute fast only if neither is a Python function.
_MUTABLE = {"__setattr__": object.__setattr__, "__delattr__": object.__delattr__, "__slots__": ()}
_Draft: Any = type("_Draft", (Array,), _MUTABLE)


def concrete(
    buffer: Buffer,
    shape: Shape,
    dtype: DType,
    weak: bool = False,
    sharding: Sharding | None = None,
    number: UOp | None = None,
) -> Array:
    """The array whose elements are in a buffer, in row-major order; `number` is it as a constant.

    That of an array which is divided among devices holds the stack of its parts; see
    `tfn.trace.sharding.stacking`.
    """
    x: Any = object.__new__(_Draft)
    x.shape, x.dtype, x.weak_type = shape, dtype, weak
    x.kind, x.buffer, x.known = kind_of(shape, dtype, sharding), buffer, True
    x.uop, x.owner = number, None
    x.__class__ = Array
    array: Array = x
    return array


def traced(uop: UOp, trace: Trace, known: bool, weak: bool = False) -> Array:
    """The array of a value of a running trace; `known` says whether it can be computed now."""
    x: Any = object.__new__(_Draft)
    x.shape, x.dtype, x.weak_type, x.kind, x.buffer = uop.shape, uop.dtype, weak, None, None
    x.uop, x.owner, x.known = uop, trace, known
    x.__class__ = Array
    array: Array = x
    return array


def weaken(x: Array, weak: bool) -> Array:
    """The same value with a weak dtype, or with one that is not weak; itself if nothing changes."""
    if x.weak_type is weak:
        return x
    if x.owner is not None:
        assert x.uop is not None
        return traced(x.uop, x.owner, x.known, weak)
    buffer = x.concrete().buffer
    assert buffer is not None and x.kind is not None
    return concrete(buffer, x.shape, x.dtype, weak, x.kind.sharding)
