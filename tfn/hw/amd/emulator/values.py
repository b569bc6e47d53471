"""Values of a kernel while it is read: registers as UOps, and what needs all lanes.

Equal values are computed once, and values that nothing reads are not computed at all.  A mask of
lanes in a scalar register stays a vector of bools for as long as nothing asks for its bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tfn.dtypes import BOOL, FLOAT16, FLOAT32, FLOAT64, DType
from tfn.extend import Op, UOp, argument, const, frozen, mutable, param
from tfn.hw.amd.emulator import meaning as m
from tfn.hw.amd.emulator.blocks import (
    EXEC_REGISTER,
    Block,
    Register,
    check_waits,
    divided,
    full_masks,
)
from tfn.hw.amd.emulator.encodings import Instruction, Operand
from tfn.hw.amd.emulator.meaning import LANES, U16, U32, U64
from tfn.lower.codegen.render.writer import LlvmWriter

# fmt: off
DTYPES: dict[str, DType] = {
    **{f"{s}{n}": np.dtype(f"{k}int{n}")
       for s, k in (("u", "u"), ("b", "u"), ("i", "")) for n in (16, 32, 64)},
    "f16": FLOAT16, "f32": FLOAT32, "f64": FLOAT64, "mask": BOOL, "s32": U32, "a32": U32,
}
# fmt: on
SCC: Register = ("scc", 0)
STATE_BEGIN = 64  # bytes of a wave's state before its registers
WAVE = 32  # lanes
VECTOR_BYTES = 4 * WAVE


@frozen
class Event:
    """An access to memory, or an exchange of lanes: it needs all of them.

    Attributes:
        vectors: values that are needed in memory.
        scalars: others.
        write: writes it, from the places of the vectors and the names of the scalars.
        results: what it makes.
    """

    vectors: tuple[UOp, ...]
    scalars: tuple[UOp, ...]
    write: Callable[[list[str], list[str]], None]
    results: tuple[UOp, ...] = ()


@mutable
class Text:
    """A block as it is read and written.

    Attributes:
        block: its instructions.
        state: the values of registers at its end, where it has written them.
        live: the value of a register at its beginning, where that is read.
        needed: the registers whose values at the beginning are used.
        written: the registers that later blocks read, of those that it writes.
        seen: values whose registers are among those needed.
        events: in order.
        lines, names: of the writer; the names are those of scalars.
        places: of vectors in memory.
        frame: the bytes of temporary memory in use.
        exit: the label from which it is left.
        condition: of its branch; None if it has none.
    """

    block: Block
    exit: str
    state: dict[Register, UOp]
    live: dict[Register, UOp]
    needed: set[Register]
    written: set[Register]
    seen: set[UOp]
    events: list[Event]
    lines: list[str]
    names: dict[UOp, str]
    places: dict[UOp, str]
    frame: int = 0
    condition: UOp | None = None


LANE = UOp(Op.LANES, (), LANES)


class Values:
    """The values of a kernel as it is read.

    Attributes:
        text: the block that is written.
        full: the masks of all lanes that are known.
        natives: of values that no UOp computes the text, and the values in it.
        words: of words of masks the masks.
        registers: of values at the beginnings of blocks the registers.
        frame: the bytes of temporary memory.
    """

    def __init__(
        self,
        name: str,
        instructions: Sequence[Instruction],
        start: Mapping[Register, str],
        full: bool,
        private_bytes: int,
    ) -> None:
        self.name, self.start, self.private_bytes = name, start, private_bytes
        self.blocks = divided(instructions)
        check_waits(self.blocks)
        self.known = full_masks(self.blocks, full)
        self.w = LlvmWriter(hides_addresses=False)
        self.texts: dict[int, Text] = {}
        self.natives: dict[UOp, tuple[str, tuple[UOp, ...]]] = {}
        self.native_keys: dict[object, UOp] = {}
        self.words: dict[UOp, UOp] = {}
        self.registers: dict[UOp, tuple[int, Register]] = {}
        self.joined: dict[tuple[UOp, UOp], UOp] = {}
        self.halves: dict[UOp, tuple[UOp, UOp]] = {}
        self.leaves = self.frame = 0
        self.full = frozenset[Register]()
        self.homes: dict[Register, int] = {}

    def open(self, text: Text) -> None:
        """Go on with a block."""
        self.text = text
        self.w.lines, self.w.names = text.lines, text.names

    def leaf(self, shape: tuple[int, ...], dtype: DType) -> UOp:
        """A value that has a name or a place, or will have one."""
        self.leaves += 1
        return param(argument.Param(self.leaves, shape, dtype))

    def native(self, shape: tuple[int, ...], dtype: DType, text: str, *sources: UOp) -> UOp:
        """A value that an instruction of LLVM IR computes from others, with no effect."""
        key = text, sources
        u = self.native_keys.get(key)
        if u is None:
            u = self.native_keys[key] = self.leaf(shape, dtype)
            self.natives[u] = key
        return u

    def sources(self, u: UOp) -> tuple[UOp, ...]:
        """The values that a value is computed from."""
        if u in self.natives:
            return self.natives[u][1]
        return (self.words[u],) if u in self.words else u.src

    def register(self, register: Register) -> UOp:
        """The value of a register; a mask of lanes may be a vector of bools."""
        text = self.text
        value = text.state.get(register) or text.live.get(register)
        if value is None:
            kind = register[0]
            value = self.leaf((LANES,) if kind == "v" else (), BOOL if kind == "scc" else U32)
            text.live[register] = value
            self.registers[value] = text.block.begin, register
            if kind == "v":
                text.places[value] = self.home(register)
            else:
                text.names[value] = name_at(text.block.begin, register)
        return value

    def home(self, register: Register) -> str:
        """The place of a vector register."""
        self.homes.setdefault(register, STATE_BEGIN + VECTOR_BYTES * len(self.homes))
        return f"%home{register[1]}"

    def bits_of(self, x: UOp) -> UOp:
        """A mask as a word."""
        if x.dtype != BOOL or not x.shape:
            return x
        key = "word", x
        u = self.native_keys.get(key)
        if u is None:
            u = self.native_keys[key] = self.leaf((), U32)
            self.words[u] = x
        return u

    def lanes_of(self, x: UOp) -> UOp:
        """A word as a mask."""
        if x.dtype == BOOL:
            return x
        if x in self.words:
            return self.words[x]
        lane = m.cast(LANE, U32)
        word = (
            UOp(Op.SPLAT, (x,), LANES)
            if x.op is not Op.CONST
            else const(x.arg.value, U32, (LANES,))
        )
        if x.op is Op.CONST and int(x.arg.value) in (0, 0xFFFFFFFF):
            return const(bool(x.arg.value), BOOL, (LANES,))
        return m.ne((word >> lane) & 1, m.number(word, 0))

    def join(self, low: UOp, high: UOp) -> UOp:
        """Two words as one."""
        known = self.joined.get((low, high))
        return m.join(low, high) if known is None else known

    def split(self, x: UOp) -> tuple[UOp, UOp]:
        """The words of a value of 64 bits."""
        x = self.bitcast(x, U64)
        found = self.halves.get(x)
        if found is None:
            found = m.cast(x, U32), m.cast(x >> 32, U32)
            self.halves[x] = found
            self.joined[found] = x
        return found

    def bitcast(self, x: UOp, dtype: DType) -> UOp:
        """A value as another type of the same size."""
        if x.op is Op.BITCAST and x.src[0].dtype == dtype:
            return x.src[0]
        return m.bitcast(x, dtype)

    def read(self, o: Operand, shape: tuple[int, ...]) -> UOp:
        """An operand as a scalar, or for all lanes."""
        if o.type == "mask":
            return self.read_mask(o)
        if o.kind == "scc":
            return self.register(SCC)
        dtype = DTYPES[o.type]
        x = self.raw(o, shape, dtype)
        if o.magnitude:
            x = UOp(Op.ABS, (x,))
        return -x if o.negative else x

    def read_mask(self, o: Operand) -> UOp:
        """A mask of lanes."""
        if o.kind == "k":
            return self.lanes_of(const(o.at & 0xFFFFFFFF, U32))
        return self.lanes_of(self.register((o.kind, o.at)))

    def raw(self, o: Operand, shape: tuple[int, ...], dtype: DType) -> UOp:
        """An operand without its modifiers."""
        unsigned = np.dtype(f"uint{8 * dtype.itemsize}")
        if o.kind == "null":
            return const(0, dtype, shape)
        if o.kind == "k":
            value = o.at >> 16 if o.high else o.at
            value &= (1 << 8 * dtype.itemsize) - 1
            exact = np.array(value, unsigned).view(dtype)
            if dtype.kind == "f" and np.isnan(exact):
                return m.bitcast(const(value, unsigned, shape), dtype)
            return const(exact[()], dtype, shape)
        words = [self.register(r) for r in o.registers]
        if o.kind == "s":
            words = [self.bits_of(x) for x in words]
        x = words[0] if len(words) == 1 else self.join(words[0], words[1])
        if shape and not x.shape:
            x = UOp(Op.SPLAT, (x,), LANES)
        if dtype.itemsize == 2:
            x = m.cast(x >> 16 if o.high else x, U16)
        return self.bitcast(x, dtype)

    @property
    def exec_mask(self) -> UOp | None:
        """The lanes that run; None if all do."""
        if EXEC_REGISTER in self.full:
            return None
        return self.lanes_of(self.register(EXEC_REGISTER))

    def write(self, o: Operand, value: UOp) -> None:
        """Write a result to its registers, in the lanes that run."""
        state, mask = self.text.state, self.exec_mask
        if o.kind == "null":
            return
        if o.kind == "scc":
            state[SCC] = value
        elif o.kind == "s":
            if o.type == "mask":
                state[o.kind, o.at] = value if mask is None else value & mask
                return
            words = self.split(value) if value.dtype.itemsize == 8 else (self.bitcast(value, U32),)
            state.update(zip(o.registers, words, strict=True))
        elif value.dtype.itemsize == 8:
            low, high = (self.register(r) for r in o.registers)
            value = self.bitcast(value, U64)
            if mask is not None:
                value = m.where(mask, value, self.join(low, high))
            state.update(zip(o.registers, self.split(value), strict=True))
        else:
            register = o.registers[0]
            if value.dtype.itemsize == 2:
                half, before = m.cast(self.bitcast(value, U16), U32), self.register(register)
                kept = before & (0xFFFF if o.high else 0xFFFF0000)
                value = kept | (half << 16 if o.high else half)
            self.write_vector(register, self.bitcast(value, U32))

    def write_vector(self, register: Register, value: UOp) -> None:
        """Write a vector register in the lanes that run."""
        mask = self.exec_mask
        before = self.register(register) if mask is not None else value
        self.text.state[register] = value if mask is None else m.where(mask, value, before)

    # What needs all lanes.

    def temporary(self, size: int) -> str:
        """The place of new temporary memory of the present block."""
        at = self.text.frame
        self.text.frame += -(-size // VECTOR_BYTES) * VECTOR_BYTES
        self.frame = max(self.frame, self.text.frame)
        return f"%t{at}"

    def placed(self, dtype: DType, place: str) -> UOp:
        """A vector that is in memory."""
        u = self.leaf((LANES,), dtype)
        self.text.places[u] = place
        return u

    def part(self, memory: str, n: int) -> str:
        """The place of a vector of several in temporary memory."""
        return f"%t{int(memory[2:]) + VECTOR_BYTES * n}"

    def shuffled(self, x: UOp, order: Sequence[int]) -> UOp:
        """Each lane the value of another one."""
        to = self.temporary(VECTOR_BYTES)
        picks = ", ".join(f"i32 {n}" for n in order)
        kind = f"<{WAVE} x i32>"

        def write(places: list[str], names: list[str]) -> None:
            before = self.w.let(f"load {kind}, ptr {places[0]}, align 64")
            moved = f"shufflevector {kind} {before}, {kind} poison, {kind} <{picks}>"
            self.w.lines.append(f"  store {kind} {self.w.let(moved)}, ptr {to}, align 64")

        u = self.placed(U32, to)
        self.text.events.append(Event((x,), (), write, (u,)))
        return u

    def permuted(self, x: UOp, lanes: UOp) -> UOp:
        """Each lane the value of the lane that it names."""
        to = self.temporary(VECTOR_BYTES)

        def write(places: list[str], names: list[str]) -> None:
            pointers = ", ".join(f"ptr {place}" for place in (*places, to))
            self.w.lines.append(f"  call void @wave_permute({pointers})")

        u = self.placed(U32, to)
        self.text.events.append(Event((x, lanes), (), write, (u,)))
        return u

    def lane_value(self, x: UOp, index: UOp) -> UOp:
        """The value of one lane, as a scalar."""
        u = self.leaf((), U32)

        def write(places: list[str], names: list[str]) -> None:
            at = self.w.let(f"getelementptr i32, ptr {places[0]}, i32 {names[0]}")
            self.w.names[u] = self.w.let(f"load i32, ptr {at}, align 4")

        self.text.events.append(Event((x,), (index,), write, (u,)))
        return u

    def splat(self, name: str) -> UOp:
        """A scalar of 64 bits of the entry in all lanes."""
        u = self.native((), U64, name)
        self.text.names[u] = name
        return UOp(Op.SPLAT, (u,), LANES)

    def mask_word(self) -> UOp:
        """The lanes that run, as a word."""
        mask = self.exec_mask
        return const(0xFFFFFFFF, U32) if mask is None else self.bits_of(mask)


def is_barrier(text: Text) -> bool:
    """Whether a block ends at a barrier."""
    return text.block.instructions[-1].row.name == "s_barrier"


def goes_back(text: Text) -> bool:
    """Whether a block may be followed by one before it, or itself."""
    return any(after <= text.block.begin for after in text.block.after)


def left_from(text: Text) -> str:
    """The label from which a block is left."""
    return f"e{text.block.begin}" if goes_back(text) else text.exit


def short(register: Register) -> str:
    """The name of a register."""
    return f"{register[0]}{register[1]}"


def name_at(begin: int, register: Register) -> str:
    """The name of a scalar register at the beginning of a block."""
    return f"%b{begin}_{short(register)}"


def type_of(register: Register) -> str:
    """The type of a register."""
    return {"v": f"<{LANES} x i32>", "s": "i32", "scc": "i1"}[register[0]]


def zero_of(register: Register) -> str:
    """The text of zero, as a register that nothing has written has it."""
    return {"v": "zeroinitializer", "s": "0", "scc": "false"}[register[0]]
