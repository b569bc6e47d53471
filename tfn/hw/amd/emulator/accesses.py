"""Accesses to memory: what instructions load and store, lane by lane or for scalars."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tfn.extend import UOp
from tfn.hw.amd.emulator import meaning as m
from tfn.hw.amd.emulator.encodings import Instruction
from tfn.hw.amd.emulator.meaning import LANES, U32, U64
from tfn.hw.amd.emulator.values import LANE, VECTOR_BYTES, WAVE, Event, Values

DEVICE, GROUP, THREAD = 0, 1, 2
"""Spaces of memory, as numbers of the windows of `memory.ll`."""


def addresses(v: Values, i: Instruction) -> tuple[UOp, int]:
    """The addresses of lanes, and the space of memory."""
    operands = [o for o in i.of if o.type in ("u64", "u32", "a32")]
    offset = i.offset & (1 << 64) - 1
    if i.form == "DS":
        lanes = m.cast(v.read(operands[0], (LANES,)), U64)
        return v.splat("%group_base") + lanes, GROUP
    if i.form == "SCRATCH":
        lane = m.cast(LANE, U64) * v.private_bytes
        total = v.splat("%thread_base") + lane + offset
        for o in operands:
            total = total + m.cast(v.read(o, (LANES,)), U64)
        return total, THREAD
    total = m.cast(v.read(operands[0], (LANES,)), U64)
    for o in operands[1:]:
        total = total + v.read(o, (LANES,))
    return total + offset if offset else total, DEVICE


def access(
    v: Values, what: str, i: Instruction, at: tuple[UOp, int], size: int, data: Sequence[UOp]
) -> list[UOp]:
    """Call a function of `memory.ll`; returns the words of a load.

    Args:
        what: load or store.
        i: the instruction.
        at: the addresses, and the space of memory.
        size: the bytes of each lane.
        data: the words to be stored.
    """
    addresses, space = at
    count = max(size // 4, 1)
    alone = len(data) == 1
    memory = "" if alone else v.temporary(VECTOR_BYTES * count)
    words = [] if alone else [v.part(memory, n) for n in range(count)]

    def write(places: list[str], names: list[str]) -> None:
        kind = f"<{WAVE} x i32>"
        for place, word in zip(places[1:], words, strict=False):
            whole = v.w.let(f"load {kind}, ptr {place}, align 64")
            v.w.lines.append(f"  store {kind} {whole}, ptr {word}, align 64")
        v.w.lines.append(
            f"  call void @wave_{what}(ptr %context, i32 {space}, ptr {places[0]}, "
            f"i32 {names[0]}, i32 {size}, ptr {places[1] if alone else memory}, i32 {i.at})"
        )

    results = [] if data else [v.placed(U32, word) for word in words]
    event = Event((addresses, *data), (v.mask_word(),), write, tuple(results))
    v.text.events.append(event)
    return results


def load(v: Values, i: Instruction) -> None:
    """A load of lanes."""
    kind = i.row.name.partition("_load_")[2]
    lanes, space = addresses(v, i)
    to, size_convert = i.to[0].registers, _size(kind)
    found: list[UOp] = []
    for offset in _offsets(i):
        part = lanes + offset if offset else lanes
        size, convert = size_convert
        if "2addr" in kind:
            size = 4 * len(to) // 2
        words = access(v, "load", i, (part, space), size, ())
        found += words if convert is None else [convert(words[0], v.register(to[0]))]
    for register, word in zip(to, found, strict=True):
        v.write_vector(register, word)


def store(v: Values, i: Instruction) -> None:
    """A store of lanes."""
    kind = i.row.name.partition("_store_")[2]
    lanes, space = addresses(v, i)
    data = [o for o in i.of if o.type.startswith("b")]
    for o, offset in zip(data, _offsets(i), strict=True):
        words = [v.register(r) for r in o.registers]
        if "hi" in kind:
            words = [words[0] >> 16]
        size = 4 * len(words)
        if "b8" in kind or "b16" in kind:
            size = 1 if "b8" in kind else 2
        part = lanes + offset if offset else lanes
        access(v, "store", i, (part, space), size, words)


def scalar_load(v: Values, i: Instruction) -> None:
    """A load of scalars."""
    if not i.to:
        return
    base = v.read(i.of[0], ())
    if len(i.of) > 1:
        base = base + m.cast(v.read(i.of[1], ()), U64)
    if i.offset:
        base = base + (i.offset & (1 << 64) - 1)
    registers = i.to[0].registers
    results = [v.leaf((), U32) for _ in registers]

    def write(places: list[str], names: list[str]) -> None:
        size = 4 * len(registers)
        arguments = f"ptr %context, i64 {names[0]}, i32 {size}, i32 {i.at}"
        at = v.w.let(f"call ptr @scalar_place({arguments})")
        for n, u in enumerate(results):
            one = v.w.let(f"getelementptr i32, ptr {at}, i64 {n}")
            v.w.names[u] = v.w.let(f"load i32, ptr {one}, align 4")

    v.text.events.append(Event((), (base,), write, tuple(results)))
    v.text.state.update(zip(registers, results, strict=True))


def _offsets(i: Instruction) -> tuple[int, ...]:
    """The offsets of the accesses of an instruction, beside its address."""
    name = i.row.name
    if "2addr" in name:
        step = (8 if name.endswith("b64") else 4) * (64 if "stride64" in name else 1)
        return tuple(step * n for n in i.offsets)
    return (i.offset if i.form == "DS" else 0,)


def _size(kind: str) -> tuple[int, Callable[[UOp, UOp], UOp] | None]:
    """The bytes of a load, and the word from what is loaded and the register before."""
    half = "d16" in kind
    high = "hi" in kind
    bare = kind.replace("d16_", "").replace("_d16", "").replace("hi_", "").replace("_hi", "")
    sizes = {"u8": 1, "i8": 1, "u16": 2, "i16": 2, "b16": 2}
    size = sizes.get(bare)
    if size is None:
        return int(bare.rpartition("b")[2]) // 8, None

    def convert(x: UOp, before: UOp) -> UOp:
        if bare[0] == "i":
            x = m.bitcast(m.cast(m.cast(x, np.dtype(f"int{8 * size}")), m.I32), U32)
        if not half:
            return x
        x = x & 0xFFFF
        return (before & 0xFFFF) | (x << 16) if high else (before & 0xFFFF0000) | x

    return size, convert
