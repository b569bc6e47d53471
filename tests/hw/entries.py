"""A device that serves a class of arrays of the tests' own, and entries of a program."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tests.hw.programs import scale
from tfn.dtypes import FLOAT32
from tfn.hw.cpu.device import cpu
from tfn.hw.device import Device, EntryForm, EntryInput, EntryOutput
from tfn.lower.program import Launch, Program, Slot, Space
from tfn.trace.aval import Kind, kind_of
from tfn.trace.build import zeros
from tfn.trace.jaxpr import function

SIZE = 5
KIND = kind_of((SIZE,), FLOAT32)


class Toy:
    """What native code needs of an array."""

    __slots__ = ("buffer", "dtype", "kind", "known", "owner", "shape", "uop", "weak_type")


def device() -> Device:
    """A CPU of its own, so that its figures are not moved by others."""
    own = cpu()
    own.queue.serve(Toy)
    return own


def toy(on: Device, value: float = 1, weak: bool = False, kind: Kind = KIND) -> Toy:
    """An array filled with a number."""
    x = Toy()
    x.kind, x.weak_type, x.shape, x.dtype = kind, weak, kind.shape, kind.dtype
    x.uop, x.owner, x.known = None, None, True
    x.buffer = on.memory.copy(np.full(kind.shape, value, kind.dtype))
    return x


def numbers(on: Device, x: Toy) -> list[float]:
    """The elements."""
    found: list[float] = on.memory.read(x.buffer, x.shape, x.dtype).tolist()
    return found


def scaled(count: int = 1, kind: Kind = KIND, **changes: Any) -> Program:
    """``[x * 3 for x in xs]`` for as many arrays."""
    kernel = scale(1).kernels[0]
    steps = tuple(
        Launch(kernel, (Slot(Space.INPUT, i), Slot(Space.OUTPUT, i)), False) for i in range(count)
    )
    body = "".join(
        f"""
  %in{i} = getelementptr ptr, ptr %buffers, i64 {i}
  %out{i} = getelementptr ptr, ptr %buffers, i64 {count + i}
  %x{i} = load ptr, ptr %in{i}
  %y{i} = load ptr, ptr %out{i}
  store ptr %x{i}, ptr %operands
  store ptr %y{i}, ptr %second
  call void @scale(i64 0, i64 {kind.shape[0]}, ptr %operands)"""
        for i in range(count)
    )
    text = f"""
declare void @scale(i64, i64, ptr)
define void @main(i64 %thread, i64 %threads, ptr %buffers, ptr %arena, ptr %sync) {{
  %operands = alloca [2 x ptr]
  %second = getelementptr ptr, ptr %operands, i64 1{body}
  ret void
}}
"""
    program = Program(
        "main",
        function([zeros(kind.shape, FLOAT32)] * count, ()),
        steps,
        100,
        ((kind.shape, FLOAT32),) * count,
        ((kind.shape, FLOAT32),) * count,
        (),
        0,
        0,
        text,
        False,
    )
    return replace(program, **changes)


def entry(
    on: Device,
    arguments: Any = (0,),
    result: Any = 0,
    count: int = 1,
    weak: bool | None = False,
    donated: bool = False,
    captured: Any = (),
    kind: Kind = KIND,
    in_place: int = -1,
    **changes: Any,
) -> Any:
    """An entry of `scaled`."""
    inputs = [EntryInput(kind, weak, donated)] * (count - len(captured))
    inputs += [EntryInput(kind)] * len(captured)
    program = scaled(count, kind, **changes)
    aliases = {i: slot.at for i, slot in program.aliases}
    size_bytes = 4 * kind.shape[0]
    outputs = [
        EntryOutput(kind, False, size_bytes, aliases.get(i, -1), in_place if i == 0 else -1)
        for i in range(count)
    ]
    return on.load(program).entry(EntryForm(inputs, outputs, arguments, result, captured))
