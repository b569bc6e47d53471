"""Collectives: exchanges of values along named axes, of `vmap` or of a mesh of devices."""

from __future__ import annotations

from typing import Any

from tfn.array import Array, ArrayLike
from tfn.eager.operands import array_of
from tfn.trace import bind
from tfn.trace.op import Op
from tfn.trace.sharding import Collective, Exchange
from tfn.transforms.shard import axes


def axis_index(axis_name: object) -> Array:
    """The index of this device, or lane, along a named axis: int32[]."""
    index: Array = axes.find("axis_index", axis_name).index
    return index


def psum(x: Any, axis_name: object) -> Any:
    """Sum over a named axis."""
    a = axes.find("psum", axis_name)
    arg = Collective(Exchange.REDUCE, a.axis, invariant=a.checked)
    return bind.bind(Op.COLLECTIVE, array_of("psum", x), a.index, arg=arg)
