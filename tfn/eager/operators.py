"""Operators of concrete arrays: what a device learns from an operation, so as to run others itself.

    x * 2.0   ran one program, on (x, a scalar of float32)   ->   entry, (left, number)

The method of the class runs the operation, and `note` is told of the programs that run meanwhile.
If one alone made the result, of the operands as they are, it serves for all operands of their
kinds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfn.array import Array
from tfn.eager.arrays import concrete
from tfn.hw.device import Entry, Operation
from tfn.trace import runtime

NOTES: list[list[tuple[Entry | None, Sequence[Array], Any]]] = []
"""For each operation from which a device learns, the programs that have run."""


def note(entry: Entry | None, operands: Sequence[Array], result: Any) -> None:
    """Tell the operations that are being learnt of a program that has run."""
    for programs in NOTES:
        programs.append((entry, operands, result))


def learn(method: str, reflected: str, left: Any, right: Any) -> Operation:
    """Run an operator; see `tfn.hw.device.Learn`."""
    left, right = _apart(left), _apart(right)
    programs: list[tuple[Entry | None, Sequence[Array], Any]] = []
    NOTES.append(programs)
    try:
        if right is None:
            result = getattr(Array, method)(left)
        elif isinstance(left, Array):
            result = getattr(Array, method)(left, right)
        else:
            result = getattr(Array, reflected)(right, left)
    finally:
        NOTES[:] = [each for each in NOTES if each is not programs]
    if len(programs) != 1 or programs[0][2] is not result:
        return Operation(result)
    entry, operands, _ = programs[0]
    sources, number = [], None
    for x in operands:
        source = "left" if x is left else "right" if x is right else "number"
        sources.append(source)
        if source == "number":
            value = right if isinstance(left, Array) else left
            if number is not None or not _is_number(x, value):
                return Operation(result)
            data = np.array(runtime.installed().read(x))
            number = runtime.installed().asarray(data)
    return Operation(result, entry, tuple(sources), number)


def _apart(x: Any) -> Any:
    """An array of its own with the buffer of an array, by whose identity it is told apart.

    The two operands of ``x * x`` are one array, and so may be those of ``zero == 0``, since numbers
    are converted once.
    """
    if not isinstance(x, Array) or x.buffer is None or x.kind is None:
        return x
    return concrete(x.buffer, x.shape, x.dtype, x.weak_type, x.kind.sharding)


def _is_number(x: Array, value: Any) -> bool:
    """Whether a scalar is a Python number as `number_as` converts it."""
    if type(value) not in (int, float) or x.shape or x.kind is None or x.kind.sharding:
        return False
    data = runtime.installed().read(x)
    with np.errstate(over="ignore"):
        return bool(np.asarray(value).astype(x.dtype).tobytes() == data.tobytes())
