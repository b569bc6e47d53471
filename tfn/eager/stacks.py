"""The buffer of a divided array: the stack of its parts.

x:f32[8,4] over P('x') on Mesh('x': 2)  =  one buffer, f32[2,4,4]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tfn.array import Array
from tfn.eager.arrays import concrete
from tfn.hw.device import Memory
from tfn.trace.named_sharding import Sharding
from tfn.trace.sharding import Partition, stacked_shape, stacking


def is_divided(sharding: Sharding | None, ndim: int) -> Partition | None:
    """The partition of an array whose buffer is a stack of parts; None for all others."""
    if sharding is None:
        return None
    partition = sharding.partition(ndim)
    return partition if partition is not None and partition.names else None


def platform_of(x: Array) -> str | None:
    """The platform that has the memory of an array; None for the default one."""
    assert x.kind is not None
    return x.kind.sharding.devices[0].platform if x.kind.sharding else None


def stack_of(x: Array, memory: Memory) -> np.ndarray[Any, Any]:
    """The data of a concrete array as they are in its buffer: the stack of its parts."""
    assert x.buffer is not None and x.kind is not None
    partition = is_divided(x.kind.sharding, x.ndim)
    shape = x.shape if partition is None else stacked_shape(partition, x.shape)
    return memory.read(x.buffer, shape, x.dtype)


def read(x: Array, memory: Memory) -> np.ndarray[Any, Any]:
    """The data of a concrete array, read-only; parts are put together in new memory."""
    assert x.kind is not None
    stack, partition = stack_of(x, memory), is_divided(x.kind.sharding, x.ndim)
    if partition is None:
        return stack
    _, order = stacking(partition, x.shape)
    back = sorted(range(len(order)), key=order.__getitem__)
    data = np.ascontiguousarray(stack.transpose(back)).reshape(x.shape)
    data.flags.writeable = False
    return data


def duplicate(x: Array, memory: Memory) -> Array:
    """The same values in memory of their own, on the same devices."""
    assert x.kind is not None
    buffer = memory.copy(stack_of(x, memory))
    return concrete(buffer, x.shape, x.dtype, x.weak_type, x.kind.sharding)
