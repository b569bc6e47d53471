"""How an Array comes to be: on a buffer, as a value of a running trace, with another weakness.

Nothing of an Array can be set.  It is filled as an object of a class of the same layout that allows
it, and then becomes an Array; native code fills its own, see `tfn/hw/cpu/pytrees.ll`.
"""

from __future__ import annotations

from typing import Any

from tfn.array import Array
from tfn.dtypes import DType
from tfn.hw.buffer import Buffer
from tfn.trace.aval import kind_of
from tfn.trace.bind import Trace
from tfn.trace.op import Shape
from tfn.trace.uop import UOp

# Both methods: an attribute is stored quickly only if neither is Python's.
_OPEN = {"__setattr__": object.__setattr__, "__delattr__": object.__delattr__, "__slots__": ()}
_Draft: Any = type("_Draft", (Array,), _OPEN)


def concrete(buffer: Buffer, shape: Shape, dtype: DType, weak: bool = False) -> Array:
    """The array whose elements lie in a buffer, row after row."""
    x: Any = object.__new__(_Draft)
    x.shape, x.dtype, x.weak_type = shape, dtype, weak
    x.kind, x.buffer, x.known = kind_of(shape, dtype), buffer, True
    x.uop = x.trace = None
    x.__class__ = Array
    made: Array = x
    return made


def traced(uop: UOp, trace: Trace, known: bool, weak: bool = False) -> Array:
    """The array that is a value of a running trace; `known` says whether it can be computed."""
    x: Any = object.__new__(_Draft)
    x.shape, x.dtype, x.weak_type, x.kind, x.buffer = uop.shape, uop.dtype, weak, None, None
    x.uop, x.trace, x.known = uop, trace, known
    x.__class__ = Array
    made: Array = x
    return made


def weaken(x: Array, weak: bool) -> Array:
    """The same value with a dtype that is weak, or is not: itself, if it is so already."""
    if x.weak_type is weak:
        return x
    if x.trace is not None:
        assert x.uop is not None
        return traced(x.uop, x.trace, x.known, weak)
    buffer = x.concrete().buffer
    assert buffer is not None
    return concrete(buffer, x.shape, x.dtype, weak)
