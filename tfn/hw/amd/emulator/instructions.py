"""Instructions as they are read: by their meanings, or by what they do with several lanes."""

from __future__ import annotations

from collections.abc import Callable
from operator import and_, invert, or_, xor

from tfn.dtypes import BOOL
from tfn.extend import Op, UOp, const
from tfn.hw.amd.emulator import accesses, floats, table
from tfn.hw.amd.emulator import meaning as m
from tfn.hw.amd.emulator.blocks import EXEC_REGISTER, Block, with_full_masks
from tfn.hw.amd.emulator.encodings import NULL, Instruction, Operand, refused
from tfn.hw.amd.emulator.meaning import LANES, U32, U64
from tfn.hw.amd.emulator.values import LANE, SCC, WAVE, Text, Values


def read_block(v: Values, begin: int, block: Block) -> None:
    """Read the instructions of a block."""
    text = Text(block, f"b{begin}", {}, {}, set(), set(), set(), [], [], {}, {})
    v.texts[begin] = text
    v.open(text)
    v.full = v.known[begin]
    for i in block.instructions:
        run(v, i)
    last = block.instructions[-1]
    taken = BRANCHES.get(last.row.name)
    if taken is not None:
        o = last.of[0]
        x = v.register(SCC if o.kind == "scc" else (o.kind, o.at))
        yes = x if o.kind == "scc" else m.ne(v.bits_of(x), const(0, U32))
        text.condition = yes if taken else ~yes


def run(v: Values, i: Instruction) -> None:
    """Note what an instruction does."""
    special = SPECIAL.get(i.row.name) or FORMS.get(i.form)
    if special is not None:
        special(v, i)
    elif i.row.meaning is not None:
        compute(v, i)
    elif i.row.to or i.row.of:
        raise refused(i.at, f"{i.name} has no meaning", i.form)
    v.full = with_full_masks(i, v.full)


def compute(v: Values, i: Instruction) -> None:
    """An instruction, or two at once, by its meaning."""
    found = [result for part in i.parts for result in results(v, part)]
    # A mask of lanes is written last: results before are of the lanes that ran.
    for o, value in sorted(found, key=lambda r: (r[0].kind, r[0].at) == EXEC_REGISTER):
        if (o.kind, o.at) == EXEC_REGISTER and value.dtype == BOOL:
            mask = v.exec_mask
            v.text.state[EXEC_REGISTER] = value if mask is None else value & mask
        else:
            v.write(o, value)


def results(v: Values, i: Instruction) -> list[tuple[Operand, UOp]]:
    """The values that an instruction gives to its destinations."""
    shape = (LANES,) if i.form.startswith("VOP") else ()
    if not shape and (fast := of_masks(v, i)):
        return fast
    values = [v.read(o, shape) for o in i.of]
    if i.swizzle is not None:
        values[0] = swizzled(v, i, values[0])
    meaning = i.row.meaning
    assert meaning is not None
    found = meaning(*values)
    several = (found,) if isinstance(found, UOp) else found
    if i.clamp:
        x = several[0]
        limited = floats.largest(floats.smallest(x, m.number(x, 1.0)), m.number(x, 0.0))
        several = (limited, *several[1:])
    return list(zip(i.to, several, strict=True))


def of_masks(v: Values, i: Instruction) -> list[tuple[Operand, UOp]]:
    """An instruction of two masks of lanes as one of vectors of bools, if it can be."""
    name = i.row.name
    if name not in MASKS or any(o.kind not in "sk" for o in i.of if o.type != "scc"):
        return []
    if any(o.kind == "k" and o.at != 0xFFFFFFFF for o in i.of):
        return []
    sources = [o for o in i.of if o.kind == "s"]
    if not any(v.register((o.kind, o.at)).shape for o in sources):
        return []
    values = [
        const(True, BOOL, (LANES,)) if o.kind == "k" else v.lanes_of(v.register((o.kind, o.at)))
        for o in i.of
    ]
    value = MASKS[name](*values)
    v.text.state[i.to[0].kind, i.to[0].at] = value
    if len(i.to) == 1:
        return [(Operand("null", NULL, "u32"), value)]
    return [(i.to[1], m.ne(v.bits_of(value), const(0, U32)))]


def swizzled(v: Values, i: Instruction, x: UOp) -> UOp:
    """The first source from other lanes; zero from lanes that do not run, or are none."""
    control = i.swizzle or 0
    kind, fetch, bound = control & 0x1FF, control >> 10 & 1, control >> 11 & 1
    order = _swizzle(kind)
    if order is None or control >> 16 & 0xFF != 0xFF or x.dtype.itemsize != 4:
        raise refused(i.at, f"{i.name} with a swizzle", f"{control:#x}")
    valid = sum(1 << n for n, lane in enumerate(order) if lane is not None)
    mask = None if fetch else v.exec_mask
    if not bound and (mask is not None or valid != 0xFFFFFFFF):
        raise refused(i.at, f"{i.name} with a swizzle that keeps results", f"{control:#x}")
    word = v.bitcast(x, U32)
    if mask is not None:
        word = m.where(mask, word, m.number(word, 0))
    moved = v.shuffled(word, [lane or 0 for lane in order])
    if valid != 0xFFFFFFFF:
        moved = m.where(v.lanes_of(const(valid, U32)), moved, m.number(moved, 0))
    return v.bitcast(moved, x.dtype)


def _swizzle(kind: int) -> tuple[int | None, ...] | None:
    """The lane that each takes its value from, by the kind of a swizzle in rows of 16."""

    def lanes(f: Callable[[int], int | None]) -> tuple[int | None, ...]:
        return tuple(None if (to := f(n & 15)) is None else (n & ~15) + to for n in range(WAVE))

    def inside(n: int) -> int | None:
        return n if 0 <= n < 16 else None

    step = kind & 15
    if kind < 0x100:
        return lanes(lambda n: (n & ~3) + (kind >> 2 * (n & 3) & 3))
    groups: dict[int, Callable[[int], int | None]] = {
        0x10: lambda n: inside(n + step),
        0x11: lambda n: inside(n - step),
        0x12: lambda n: (n - step) & 15,
        0x15: lambda n: step,
        0x16: lambda n: n ^ step,
    }
    if kind in (0x140, 0x141):
        return lanes(lambda n: 15 - n if kind == 0x140 else (n & 8) + 7 - (n & 7))
    f = groups.get(kind >> 4)
    return lanes(f) if f else None


# Instructions of several lanes at once.


def _first_lane(v: Values, i: Instruction) -> None:
    x, mask = v.raw(i.of[0], (LANES,), U32), v.exec_mask
    index = const(0, U32)
    if mask is not None:
        v.w.declared["cttz.i32"] = "declare i32 @llvm.cttz.i32(i32, i1)"
        text = "call i32 @llvm.cttz.i32(i32 {0}, i1 false)"
        index = v.native((), U32, text, v.bits_of(mask)) & 31
    v.write(i.to[0], v.lane_value(x, index))


def _read_lane(v: Values, i: Instruction) -> None:
    index = v.read(i.of[1], ()) & 31
    v.write(i.to[0], v.lane_value(v.raw(i.of[0], (LANES,), U32), index))


def _write_lane(v: Values, i: Instruction) -> None:
    value, index = v.read(i.of[0], ()), v.read(i.of[1], ()) & 31
    register = i.to[0].registers[0]
    value, index = (UOp(Op.SPLAT, (x,), LANES) for x in (value, index))
    here = m.eq(m.cast(LANE, U32), index)
    v.text.state[register] = m.where(here, value, v.register(register))


def _backward_permute(v: Values, i: Instruction) -> None:
    address = v.read(i.of[0], (LANES,)) + i.offset
    x, mask = v.raw(i.of[1], (LANES,), U32), v.exec_mask
    if mask is not None:  # lanes that do not run give zero
        x = m.where(mask, x, m.number(x, 0))
    v.write_vector(i.to[0].registers[0], v.permuted(x, (address >> 2) & 31))


def _permute_rows(v: Values, i: Instruction) -> None:
    """The lanes of a row of 16 from those of the same row, or of the other one."""
    low, high = (v.read(o, ()) for o in i.of[1:3])
    lane = m.cast(LANE, U32)
    selectors = UOp(Op.SPLAT, (v.join(low, high),), LANES)
    picked = m.cast(selectors >> m.cast((lane & 15) * 4, U64), U32) & 15
    row = lane & 16
    row = row ^ 16 if "x16" in i.row.name else row
    v.write(i.to[0], v.permuted(v.raw(i.of[0], (LANES,), U32), picked | row))


def _swap(v: Values, i: Instruction) -> None:
    one, other = i.to[0].registers[0], i.of[0].registers[0]
    a, b = v.register(one), v.register(other)
    v.write_vector(one, b)
    v.write_vector(other, a)


def _save_mask(v: Values, i: Instruction) -> None:
    """Save the mask of lanes, and change it."""
    before = v.register(EXEC_REGISTER)
    word = v.register((i.of[0].kind, i.of[0].at)) if i.of[0].kind == "s" else v.read(i.of[0], ())
    f = MASKS[i.row.name.partition("_saveexec")[0].partition("_wrexec")[0].removeprefix("s_")]
    value = f(v.lanes_of(word), v.lanes_of(before))
    v.text.state[EXEC_REGISTER] = value
    v.text.state[i.to[0].kind, i.to[0].at] = value if "wrexec" in i.row.name else before
    v.text.state[SCC] = m.ne(v.bits_of(value), const(0, U32))


# fmt: off
MASKS: dict[str, Callable[..., UOp]] = {
    "and": and_, "or": or_, "xor": xor,
    "nand": lambda a, b: ~(a & b), "nor": lambda a, b: ~(a | b), "xnor": lambda a, b: ~(a ^ b),
    "and_not0": lambda a, b: b & ~a, "or_not0": lambda a, b: b | ~a,
    "and_not1": m.without, "or_not1": m.or_not,
    "s_mov_b32": m.same, "s_and_b32": and_, "s_or_b32": or_, "s_xor_b32": xor,
    "s_and_not1_b32": m.without, "s_or_not1_b32": m.or_not, "s_not_b32": invert,
    "s_nand_b32": lambda a, b: ~(a & b), "s_nor_b32": lambda a, b: ~(a | b),
    "s_xnor_b32": lambda a, b: ~(a ^ b),
}
"""Functions of masks: those that save one by their first words, others by their names."""

BRANCHES = {
    "s_cbranch_scc0": False, "s_cbranch_scc1": True, "s_cbranch_vccz": False,
    "s_cbranch_vccnz": True, "s_cbranch_execz": False, "s_cbranch_execnz": True,
}
"""Whether a branch is taken where its operand has a bit."""


def _nothing(v: Values, i: Instruction) -> None:
    """Nothing: time, caches and flow are not of a value."""


Special = Callable[[Values, Instruction], None]
SPECIAL: dict[str, Special] = {
    "v_readfirstlane_b32": _first_lane, "v_readlane_b32": _read_lane,
    "v_writelane_b32": _write_lane, "ds_bpermute_b32": _backward_permute,
    "v_permlane16_b32": _permute_rows, "v_permlanex16_b32": _permute_rows, "v_swap_b32": _swap,
    **dict.fromkeys(BRANCHES, _nothing),
    **{row.name: _save_mask for row in table.SOP1.values() if "exec" in row.to},
}
"""By name: instructions that have no meaning of one lane."""


def _memory(v: Values, i: Instruction) -> None:
    if "_load_" in i.row.name:
        accesses.load(v, i)
    elif "_store_" in i.row.name:
        accesses.store(v, i)
    else:
        raise refused(i.at, f"{i.name} is not emulated", i.form)


FORMS: dict[str, Special] = {
    "SMEM": accesses.scalar_load, "FLAT": _memory, "GLOBAL": _memory, "SCRATCH": _memory,
    "DS": _memory,
}
# fmt: on
