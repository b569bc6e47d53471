"""Writer: the blocks of a kernel, once they are read, as LLVM IR.

Each block is written as loops over the lanes, 8 at a time, between what needs all lanes; scalars
are values of the function, with phis where blocks meet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tfn.dtypes import BOOL
from tfn.extend import Op, UOp, mutable
from tfn.hw.amd.emulator.blocks import Register
from tfn.hw.amd.emulator.meaning import LANES
from tfn.hw.amd.emulator.values import (
    LANE,
    STATE_BEGIN,
    VECTOR_BYTES,
    WAVE,
    Event,
    Text,
    Values,
    goes_back,
    is_barrier,
    left_from,
    name_at,
    short,
    type_of,
    zero_of,
)
from tfn.lower.codegen.render import llvm
from tfn.lower.codegen.render.writer import TYPES, LlvmWriter, typed

ENDED = -1
FAULT_AT = 64  # in the context
DECLARATIONS = """\
declare void @wave_load(ptr, i32, ptr, i32, i32, ptr, i32)
declare void @wave_store(ptr, i32, ptr, i32, i32, ptr, i32)
declare ptr @scalar_place(ptr, i64, i32, i32)
declare void @wave_permute(ptr, ptr, ptr)
"""
IMPORTS = ("wave_load", "wave_store", "scalar_place", "wave_permute")

_MATHEMATICS = {Op.EXP2: "exp2", Op.LOG2: "log2", Op.SIN: "sin", Op.COS: "cos"}
_CHEAP = frozenset({Op.SPLAT, Op.CAST, Op.BITCAST})
"""Ops of which a value is computed again rather than kept in memory."""


def _mathematics(w: LlvmWriter, u: UOp) -> str:
    x = u.src[0]
    bits = 8 * u.dtype.itemsize
    kind = typed(u)
    name = f"{_MATHEMATICS[u.op]}.{f'v{LANES}' if u.shape else ''}f{bits}"
    return w.let(w.intrinsic(name, kind, [(kind, w(x))]))


RENDER = llvm.RENDER | dict.fromkeys(_MATHEMATICS, _mathematics)


@mutable
class Wave:
    """The text of a kernel, and the bytes of the state of one of its waves."""

    text: str
    state_bytes: int


class Writer:
    """Writes one kernel.

    Attributes:
        values: of the kernel.
        loops: their number so far.
        saved: values of the present block that several loops over lanes need.
    """

    def __init__(self, values: Values) -> None:
        self.values, self.loops = values, 0
        self.saved: set[UOp] = set()

    def kernel(self) -> Wave:
        """The text of the kernel."""
        self.find_live()
        for text in self.values.texts.values():
            self.write_block(text)
        return self.whole()

    def find_live(self) -> None:
        """Find the registers that live at the beginning of each block."""
        before: dict[int, list[int]] = {begin: [] for begin in self.values.blocks}
        for begin, block in self.values.blocks.items():
            for after in block.after:
                before[after].append(begin)
        for text in self.values.texts.values():
            self.values.open(text)
            for event in text.events:
                self.need((*event.vectors, *event.scalars))
            self.need([] if text.condition is None else [text.condition])
        waiting, done = list(self.values.blocks), set[tuple[int, Register]]()
        while waiting:
            begin = waiting.pop()
            for register in sorted(self.values.texts[begin].needed):
                for earlier in before[begin]:
                    if (earlier, register) in done:
                        continue
                    done.add((earlier, register))
                    text = self.values.texts[earlier]
                    size = len(text.needed)
                    self.values.open(text)
                    text.written |= {register} & text.state.keys()
                    self.need([self.values.register(register)])
                    if len(text.needed) > size:
                        waiting.append(earlier)

    def need(self, values: Sequence[UOp]) -> None:
        """Note the registers at the beginning of the block that values are computed from."""
        text, stack = self.values.text, list(values)
        while stack:
            u = stack.pop()
            if u in text.seen:
                continue
            text.seen.add(u)
            if u in self.values.registers:
                text.needed.add(self.values.registers[u][1])
            stack += self.values.sources(u)

    def write_block(self, text: Text) -> None:
        """Write a block, up to its branch."""
        self.values.open(text)
        batches = self.batches(text.events)
        vectors = sorted(r for r in text.written if r[0] == "v")
        homes = [(r, text.state[r]) for r in vectors]
        scalars = [text.state[r] for r in sorted(text.written) if r[0] != "v"]
        scalars += [] if text.condition is None else [text.condition]
        self.plan([*batches, [Event(tuple(x for _, x in homes), tuple(scalars), _nothing_written)]])
        for batch in batches:
            self.write_batch(batch)
        scalars = [self.values.bits_of(x) for x in scalars]
        self.loop([], self.masks_in(scalars), homes)
        for x in scalars:
            self.scalar(x)

    def masks_in(self, scalars: Sequence[UOp]) -> list[UOp]:
        """The masks whose words scalars are computed from."""
        found, stack, seen = list[UOp](), list(scalars), set[UOp]()
        while stack:
            u = stack.pop()
            if u in seen or u.shape or u in self.values.text.names:
                continue
            seen.add(u)
            if u in self.values.words:
                found.append(self.values.words[u])
            else:
                stack += self.values.sources(u)
        return found

    def batches(self, events: Sequence[Event]) -> list[list[Event]]:
        """Events that follow each other, of which none needs a result of another one."""
        found: list[list[Event]] = []
        made: set[UOp] = set()
        for event in events:
            if not found or not made or self.reaches((*event.vectors, *event.scalars), made):
                found.append([])
                made = set()
            found[-1].append(event)
            made |= set(event.results)
        return found

    def reaches(self, values: Sequence[UOp], goals: set[UOp]) -> bool:
        """Whether values are computed from some of others."""
        stack, seen = list(values), set[UOp]()
        while stack:
            u = stack.pop()
            if u in goals:
                return True
            if u not in seen:
                seen.add(u)
                stack += self.values.sources(u)
        return False

    def plan(self, batches: Sequence[Sequence[Event]]) -> None:
        """Find the vectors that several loops need, to compute them once."""
        first: dict[UOp, int] = {}
        self.saved = set()
        number = 0
        for batch in batches:
            stack = [u for e in batch for u in e.scalars]
            masks, seen = list[UOp](), set[UOp]()
            stack += [u for e in batch for u in e.vectors]
            roots = [u for e in batch for u in e.vectors]
            while stack:  # each mask that is needed as a word is computed before
                u = stack.pop()
                if u in seen:
                    continue
                seen.add(u)
                if u in self.values.words:
                    masks.append(self.values.words[u])
                stack += self.values.sources(u)
            for goals in (*([x] for x in reversed(masks)), roots):
                number += 1
                stack = list(goals)
                while stack:
                    u = stack.pop()
                    if not u.shape or u in self.values.text.places or u.op in (Op.CONST, Op.LANES):
                        continue
                    if u not in first:
                        first[u] = number
                        stack += self.values.sources(u)
                    elif first[u] != number and u.op not in _CHEAP:
                        self.saved.add(u)

    def write_batch(self, batch: Sequence[Event]) -> None:
        """Write events, after the loop over the lanes of what they need."""
        vectors = [u for event in batch for u in event.vectors]
        for event in batch:
            for u in event.scalars:
                self.scalar(u)
        self.loop(vectors, [], [])
        for event in batch:
            names = [self.scalar(u) for u in event.scalars]
            event.write([self.values.text.places[u] for u in event.vectors], names)

    def scalar(self, u: UOp) -> str:
        """The name of a scalar, which is written if it is not there yet."""
        w, names = self.values.w, self.values.text.names
        stack = [u]
        while stack:
            top = stack[-1]
            if top in names or top.op is Op.CONST:
                stack.pop()
                continue
            if top in self.values.words:
                self.loop([], [self.values.words[top]], [])
                stack.pop()
                continue
            missing = [
                s for s in self.values.sources(top) if s not in names and s.op is not Op.CONST
            ]
            if missing:
                stack += missing
                continue
            stack.pop()
            native = self.values.natives.get(top)
            if native:
                names[top] = w.let(native[0].format(*map(w, native[1])))
            else:
                names[top] = RENDER[top.op](w, top)
        return w(u)

    def loop(
        self, vectors: Sequence[UOp], masks: Sequence[UOp], homes: Sequence[tuple[Register, UOp]]
    ) -> None:
        """Write a loop over the lanes.

        Args:
            vectors: values that are put into memory, unless they are there.
            masks: those whose words are needed.
            homes: vector registers, and their values.
        """
        text, w = self.values.text, self.values.w
        for u in self.order([*vectors, *masks, *(x for _, x in homes)]):
            for s in self.values.sources(u):
                if not s.shape and u not in text.places:
                    self.scalar(s)  # which may need a loop of its own
        vectors = [u for u in dict.fromkeys(vectors) if u not in text.places]
        masks = [u for u in dict.fromkeys(masks) if self.values.bits_of(u) not in text.names]
        if not (vectors or masks or homes):
            return
        order = self.order([*vectors, *masks, *(x for _, x in homes)])
        self.loops += 1
        n, names = self.loops, text.names
        head = f"l{n}"
        w.lines += [f"  br label %{head}", f"{head}:"]
        phi_at = len(w.lines)
        w.lines.append(f"  %c{n} = phi i32 [ 0, %{text.exit} ], [ %c{n}_next, %{head} ]")
        w.names = dict(names)
        number = w.let(f"shl i32 %c{n}, {LANES.bit_length() - 1}")
        wide = w.let(f"zext i32 {number} to i64")
        one = w.let(f"insertelement <{LANES} x i64> poison, i64 {wide}, i32 0")
        kind = f"<{LANES} x i64>"
        zero = f"<{LANES} x i32> zeroinitializer"
        base = w.let(f"shufflevector {kind} {one}, {kind} poison, {zero}")
        lanes = ", ".join(f"i64 {i}" for i in range(LANES))
        w.names[LANE] = w.let(f"add {kind} {base}, <{lanes}>")
        for u in order:
            w.names[u] = self.lanes_name(u, number)
        keep = [u for u in order if u in self.saved and u not in text.places]
        for u in dict.fromkeys([*vectors, *keep]):
            text.places[u] = self.values.temporary(VECTOR_BYTES * max(u.dtype.itemsize // 4, 1))
            self.put(u, text.places[u], number)
        for register, x in homes:
            self.put(x, self.values.home(register), number)
        for k, x in enumerate(masks):
            piece = w.let(f"bitcast <{LANES} x i1> {w(x)} to i{LANES}")
            word = w.let(f"zext i{LANES} {piece} to i32")
            w.lines.append(f"  %m{n}_{k} = or i32 %a{n}_{k}, {w.let(f'shl i32 {word}, {number}')}")
            phi = f"  %a{n}_{k} = phi i32 [ 0, %{text.exit} ], [ %m{n}_{k}, %{head} ]"
            w.lines.insert(phi_at, phi)
        w.lines += [
            f"  %c{n}_next = add i32 %c{n}, 1",
            f"  %c{n}_more = icmp ult i32 %c{n}_next, {WAVE // LANES}",
            f"  br i1 %c{n}_more, label %{head}, label %d{n}",
            f"d{n}:",
        ]
        w.names, text.exit = names, f"d{n}"
        for k, x in enumerate(masks):
            names[self.values.bits_of(x)] = f"%m{n}_{k}"

    def order(self, goals: Sequence[UOp]) -> list[UOp]:
        """The vectors that goals are computed from, in order; those in memory are loaded."""
        found: dict[UOp, None] = {}
        stack = list(reversed(goals))
        while stack:
            u = stack[-1]
            if u in found or not u.shape or u.op in (Op.CONST, Op.LANES):
                stack.pop()
                continue
            missing: tuple[UOp, ...] = ()
            if u not in self.values.text.places:
                missing = tuple(
                    s
                    for s in self.values.sources(u)
                    if s.shape and s not in found and s.op not in (Op.CONST, Op.LANES)
                )
            if missing:
                stack += missing
                continue
            stack.pop()
            found[u] = None
        return list(found)

    def lanes_name(self, u: UOp, number: str) -> str:
        """The name of a vector in a loop over the lanes."""
        place, w = self.values.text.places.get(u), self.values.w
        if place is None:
            native = self.values.natives.get(u)
            return w.let(native[0].format(*map(w, native[1]))) if native else RENDER[u.op](w, u)
        if u.dtype == BOOL:
            at = w.let(f"getelementptr i8, ptr {place}, i32 {number}")
            return w.let(f"bitcast i{LANES} {w.let(f'load i{LANES}, ptr {at}')} to <{LANES} x i1>")
        kind = typed(u)
        at = w.let(f"getelementptr {TYPES[u.dtype]}, ptr {place}, i32 {number}")
        return w.let(f"load {kind}, ptr {at}, align 16")

    def put(self, u: UOp, place: str, number: str) -> None:
        """Put a vector of a loop over the lanes into memory."""
        w = self.values.w
        if u.dtype == BOOL:
            at = w.let(f"getelementptr i8, ptr {place}, i32 {number}")
            piece = w.let(f"bitcast <{LANES} x i1> {w(u)} to i{LANES}")
            w.lines.append(f"  store i{LANES} {piece}, ptr {at}")
            return
        at = w.let(f"getelementptr {TYPES[u.dtype]}, ptr {place}, i32 {number}")
        w.lines.append(f"  store {typed(u)} {w(u)}, ptr {at}, align 16")

    def whole(self) -> Wave:
        """All blocks, and what comes before them."""
        ends = [t for t in self.values.texts.values() if is_barrier(t)]
        resumed = list(dict.fromkeys(t.block.after[0] for t in ends))
        stored = sorted({r for at in resumed for r in self.values.texts[at].needed if r[0] != "v"})
        begin = STATE_BEGIN + VECTOR_BYTES * len(self.values.homes)
        places = {register: begin + 4 * n for n, register in enumerate(stored)}
        parts = [*self.entry(resumed)]
        for at in resumed:
            parts += self.resuming(at, places)
        for text in self.values.texts.values():
            parts += self.block_text(text, resumed)
            parts += self.end(text, places, resumed)
        declarations = "\n".join(sorted(self.values.w.declared.values()))
        body = "".join(line + "\n" for line in parts)
        name = self.values.name
        whole = (
            f"define i32 @{name}(ptr %context, ptr %state, i32 %resume, i64 %arguments, "
            f"i32 %group, i32 %first, i32 %mask) #0 {{\n{body}}}\n{DECLARATIONS}{declarations}\n"
            'attributes #0 = { nounwind "no-builtins" "frame-pointer"="all" }\n'
        )
        return Wave(whole, -(-(begin + 4 * len(stored)) // 64) * 64)

    def entry(self, resumed: Sequence[int]) -> Iterator[str]:
        """The block in which a call begins."""
        yield "entry:"
        yield f"  %frame = alloca [{max(self.values.frame, 1)} x i8], align 64"
        for at in range(0, self.values.frame, VECTOR_BYTES):
            yield f"  %t{at} = getelementptr i8, ptr %frame, i64 {at}"
        for register, offset in self.values.homes.items():
            yield f"  {self.values.home(register)} = getelementptr i8, ptr %state, i64 {offset}"
        lanes = ", ".join(f"i32 {i}" for i in range(WAVE))
        kind = f"<{WAVE} x i32>"
        yield "  %group_base_at = getelementptr i8, ptr %context, i64 16"
        yield "  %group_base = load i64, ptr %group_base_at"
        yield "  %thread_begin_at = getelementptr i8, ptr %context, i64 32"
        yield "  %thread_begin = load i64, ptr %thread_begin_at"
        yield "  %first_wide = zext i32 %first to i64"
        yield f"  %thread_skipped = mul i64 %first_wide, {self.values.private_bytes}"
        yield "  %thread_base = add i64 %thread_begin, %thread_skipped"
        yield f"  %first_one = insertelement {kind} poison, i32 %first, i32 0"
        spread = f"{kind} %first_one, {kind} poison, {kind} zeroinitializer"
        yield f"  %first_all = shufflevector {spread}"
        yield f"  %thread = add {kind} %first_all, <{lanes}>"
        yield "  %arguments_low = trunc i64 %arguments to i32"
        yield "  %arguments_up = lshr i64 %arguments, 32"
        yield "  %arguments_high = trunc i64 %arguments_up to i32"
        cases = " ".join(f"i32 {n + 1}, label %resume{at}" for n, at in enumerate(resumed))
        yield f"  switch i32 %resume, label %start [ {cases} ]"
        yield "start:"
        for register in sorted(self.values.texts[0].needed):
            if register[0] == "v":
                value = self.values.start.get(register, "zeroinitializer")
                yield f"  store {kind} {value}, ptr {self.values.home(register)}, align 64"
        yield "  br label %b0"

    def resuming(self, at: int, places: Mapping[Register, int]) -> Iterator[str]:
        """The block in which a wave goes on after a barrier."""
        yield f"resume{at}:"
        for register in sorted(self.values.texts[at].needed & places.keys()):
            name = f"%r{at}_{short(register)}"
            yield f"  {name}_at = getelementptr i8, ptr %state, i64 {places[register]}"
            word = "" if register[0] == "s" else "_word"
            yield f"  {name}{word} = load i32, ptr {name}_at"
            if word:
                yield f"  {name} = trunc i32 {name}_word to i1"
        yield f"  br label %b{at}"

    def block_text(self, text: Text, resumed: Sequence[int]) -> Iterator[str]:
        """A block with the phis of the scalars that live at its beginning."""
        begin = text.block.begin
        yield f"b{begin}:"
        before = [
            t for t in self.values.texts.values() if begin in t.block.after and not is_barrier(t)
        ]
        for register in sorted(r for r in text.needed if r[0] != "v"):
            pairs = list[str]()
            if begin == 0:
                pairs.append(f"[ {self.values.start.get(register, zero_of(register))}, %start ]")
            if begin in resumed:
                pairs.append(f"[ %r{begin}_{short(register)}, %resume{begin} ]")
            for source in before:
                pair = f"[ {self.at_end(source, register)}, %{left_from(source)} ]"
                pairs += [pair] * source.block.after.count(begin)
            yield f"  {name_at(begin, register)} = phi {type_of(register)} {', '.join(pairs)}"
        yield from text.lines

    def at_end(self, text: Text, register: Register) -> str:
        """The name of a scalar register at the end of a block."""
        self.values.open(text)
        return self.scalar(self.values.bits_of(self.values.register(register)))

    def end(
        self, text: Text, places: Mapping[Register, int], resumed: Sequence[int]
    ) -> Iterator[str]:
        """The last instructions of a block."""
        after, begin = text.block.after, text.block.begin
        if is_barrier(text):
            for register in sorted(self.values.texts[after[0]].needed & places.keys()):
                value, name = self.at_end(text, register), f"%s{begin}_{short(register)}"
                yield f"  {name}_at = getelementptr i8, ptr %state, i64 {places[register]}"
                if register[0] != "s":
                    yield f"  {name}_word = zext i1 {value} to i32"
                    value = f"{name}_word"
                yield f"  store i32 {value}, ptr {name}_at"
            yield f"  ret i32 {resumed.index(after[0]) + 1}"
            return
        if not after:
            yield f"  ret i32 {ENDED}"
            return
        if goes_back(text):
            yield f"  %fault_at{begin} = getelementptr i8, ptr %context, i64 {FAULT_AT}"
            yield f"  %fault{begin} = load i32, ptr %fault_at{begin}"
            yield f"  %faulty{begin} = icmp ne i32 %fault{begin}, 0"
            yield f"  br i1 %faulty{begin}, label %dead{begin}, label %{left_from(text)}"
            yield f"dead{begin}:"
            yield f"  ret i32 {ENDED}"
            yield f"{left_from(text)}:"
        if len(after) == 1:
            yield f"  br label %b{after[0]}"
            return
        assert text.condition is not None
        self.values.open(text)
        yield f"  br i1 {self.scalar(text.condition)}, label %b{after[0]}, label %b{after[1]}"


def _nothing_written(places: list[str], names: list[str]) -> None:
    """Nothing: the values of registers at the end of a block."""
