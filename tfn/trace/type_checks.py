"""Checks of the operand types of ops, with the errors that users see."""

from __future__ import annotations

from tfn._support.validate import size_limit, unfit, unlike
from tfn.dtypes import BOOL, FLOATS, INEXACT, INTEGERS, DType
from tfn.trace.op import Shape
from tfn.trace.regions import Node, Type

BITS = INTEGERS | {BOOL}
REAL = INTEGERS | FLOATS
NUMBERS = INTEGERS | INEXACT
ORDERED = REAL | {BOOL}


def same_type(name: str, src: tuple[Node, ...]) -> None:
    """Raises an error unless all operands have one shape and one dtype."""
    first = src[0]
    for other in src[1:]:
        if other.shape != first.shape:
            raise unfit(
                f"{name} needs operands of one shape",
                src,
                "tfn.numpy broadcasts; tfn.lax repeats sizes of 1 alone",
            )
        if other.dtype != first.dtype:
            raise unlike(name, src)


def sized(name: str, shape: Shape, dtype: DType) -> Type:
    """The type of a result that is larger than its operands; an error if no machine holds it."""
    size_limit(name, shape, dtype.itemsize)
    return shape, dtype
