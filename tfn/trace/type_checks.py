"""Checks of operand types, with the errors that users see."""

from __future__ import annotations

from tfn.dtypes import BOOL, FLOATS, INEXACT, INTEGERS, SHORT, DType
from tfn.errors import DTypeError, ShapeError
from tfn.trace.regions import Node

BITS = INTEGERS | {BOOL}
REAL = INTEGERS | FLOATS
NUMBERS = INTEGERS | INEXACT
ORDERED = REAL | {BOOL}


def show(node: Node) -> str:
    """A value as an error message names it: ``f32[64,128]``."""
    return f"{SHORT[node.dtype]}[{','.join(map(str, node.shape))}]"


def same_type(name: str, src: tuple[Node, ...]) -> None:
    """Raises an error unless all operands have one shape and one dtype."""
    first = src[0]
    for other in src[1:]:
        if other.shape != first.shape:
            raise ShapeError(
                f"{name} needs operands of one shape",
                got=", ".join(map(show, src)),
                hint="tfn.numpy broadcasts; tfn.lax does not",
            )
        if other.dtype != first.dtype:
            raise DTypeError(
                f"{name} needs operands of one dtype",
                got=", ".join(map(show, src)),
                hint="tfn.numpy promotes; with tfn.lax use .astype",
            )


def need_dtype(name: str, node: Node, allowed: frozenset[DType], words: str) -> None:
    """Raises an error unless the dtype of an operand is among those allowed."""
    if node.dtype not in allowed:
        raise DTypeError(f"{name} needs {words}", got=show(node))
