"""Instruction printer: a kernel's instructions in order, indented by loop.

    loop i1 in 0..8:
      s0:f32x8 = starts at 0.0
      v1:f32x8 = load a[i1*64 + lane]
      v2:f32x8 = add s0 v1
      next s0 = v2

A value of ``f32x8`` has eight lanes; ``lane`` in an address counts them.  A call of the kernel runs
the tiles from `begin` to `end` - 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfn.dtypes import SHORT
from tfn.lower.codegen.linearize import BEGIN, END
from tfn.lower.report.print.expression import literal
from tfn.trace.argument import Access
from tfn.trace.op import Op
from tfn.trace.uop import UOp


def instructions(items: Sequence[UOp], buffers: Sequence[str]) -> str:
    """The instructions as text; `buffers` names the parameters."""
    printer = InstructionPrinter(buffers)
    for u in items:
        PRINT.get(u.op, InstructionPrinter.value)(printer, u)
    return "\n".join(printer.lines)


class InstructionPrinter:
    """The state of one print.

    Attributes:
        lines: so far.
        depth: of the open loops.
        names: of values.
    """

    def __init__(self, buffers: Sequence[str]) -> None:
        self.buffers = buffers
        self.lines: list[str] = []
        self.depth = self.values = self.sums = 0
        self.names: dict[UOp, str] = {BEGIN: "begin", END: "end"}

    def name(self, u: UOp) -> str:
        """The text of a value where it is used."""
        if u.op is Op.CONST:
            return literal(u)
        if u.op is Op.LANES:
            return "lane" if not u.src else f"lane below {self.name(u.src[0])}"
        if u.op is Op.RANGE:
            return "thread"
        if u.op is Op.LOCAL_MEMORY:
            return f"local{u.arg.number}"
        return self.names[u] if u in self.names else self.buffers[u.arg.index]

    def line(self, text: str) -> None:
        """Add a line at the present depth."""
        self.lines.append("  " * self.depth + text)

    def let(self, u: UOp, text: str) -> None:
        """Add a line that names a value."""
        name = self.names[u] = f"v{self.values}"
        self.values += 1
        self.line(f"{name}:{typed(u)} = {text}")

    def address(self, u: UOp) -> str:
        """``a[v3 + 16 + 2*lane]``."""
        base, access = u.src[1], u.arg
        parts = [] if base.op is Op.CONST and not base.arg.bits else [self.name(base)]
        parts += [str(access.offset)] if access.offset or not parts else []
        text = " + ".join(parts)
        if access.lanes > 1 and access.stride:
            text += " + lane" if access.stride == 1 else f" + {access.stride}*lane"
        return f"{self.name(u.src[0])}[{text}]"

    def value(self, u: UOp) -> None:
        """``v2 = add v0 v1``."""
        self.let(u, " ".join([u.op.value, *map(self.name, u.src)]))

    def across(self, u: UOp) -> None:
        """``v3 = add across v2``: a reduction over lanes."""
        self.let(u, f"{u.arg.value} across {self.name(u.src[0])}")

    def load(self, u: UOp) -> None:
        """``v1 = load a[i1 + lane]``."""
        predicate = f" if {self.name(u.src[2])}" if len(u.src) == 3 else ""
        self.let(u, f"load {self.address(u)}{predicate}")

    def tile(self, u: UOp) -> None:
        """``v1 = tile a[i1 + 64*row + lane]``."""
        parts = [self.name(u.src[1]), *([str(u.arg.offset)] if u.arg.offset else [])]
        self.let(u, f"tile {self.name(u.src[0])}[{' + '.join(parts)} + {u.arg.pitch}*row + lane]")

    def store(self, u: UOp) -> None:
        """``store b[i1 + lane] = v2``."""
        predicate = f" if {self.name(u.src[3])}" if len(u.src) == 4 else ""
        self.line(f"store {self.address(u)} = {self.name(u.src[2])}{predicate}")

    def prefetch(self, u: UOp) -> None:
        """``prefetch b[i1 + 8]``."""
        self.line(f"prefetch {self.address(u)}")

    def barrier(self, u: UOp) -> None:
        """``barrier``: all threads of the group come to it."""
        self.line("barrier")

    def copy(self, u: UOp) -> None:
        """``start local0[v3] = a[v5 + 8], 4 elements``: nothing waits for it."""
        memory, to, operand, index = u.src[:4]
        at = self.address(UOp(Op.LOAD, (memory, to), Access(u.arg.offset, 1, 0)))
        source = self.address(UOp(Op.LOAD, (operand, index), Access(u.arg.operand_offset, 1, 0)))
        predicate = f" if {self.name(u.src[4])}" if len(u.src) == 5 else ""
        self.line(f"start {at} = {source}, {u.arg.count} elements{predicate}")

    def copy_group(self, u: UOp) -> None:
        """``close copies``: those started since the last one are waited for together."""
        self.line("close copies")

    def copy_wait(self, u: UOp) -> None:
        """``wait for copies but 1``: the last groups of them may be under way."""
        self.line(f"wait for copies but {u.arg}")

    def exchange(self, u: UOp) -> None:
        """``v2 = v1 of lane ^ 16``: the value of another thread of the warp."""
        self.let(u, f"{self.name(u.src[0])} of lane ^ {u.arg}")

    def fragment(self, u: UOp) -> None:
        """``v3 = fragment 2 of local0[v1 + 8]``: one of the elements that a thread gets."""
        at = self.address(UOp(Op.LOAD, u.src, Access(u.arg.offset, 1, 0)))
        turned = " transposed" if u.arg.transposed else ""
        self.let(u, f"fragment {u.arg.element} of {u.arg.matrices} at {at}{turned}")

    def warp_mma(self, u: UOp) -> None:
        """``v9 = v8 + warp product 0 of v0, v1, ...``: one of four sums of a thread."""
        operands, i = u.src[:-4], u.arg.element
        names = ", ".join(map(self.name, operands))
        self.let(u, f"{self.name(u.src[i - 4])} + warp product {i} of {names}")

    def group_mma(self, u: UOp) -> None:
        """``v9 = v8 + group product 0 of local0[v1], local1[v2]``: a sum of a thread."""
        a, i, b, j, *sums = u.src
        names = f"{self.name(a)}[{self.name(i)}], {self.name(b)}[{self.name(j)}]"
        element = u.arg.element
        self.let(u, f"{self.name(sums[element])} + group product {element} of {names}")

    def group_wait(self, u: UOp) -> None:
        """``v9 = v8 after group products``."""
        self.let(u, f"{self.name(u.src[u.arg])} after group products")

    def loop(self, u: UOp) -> None:
        """``loop i1 in 0..8:``, or ``loop i1 in 0..:`` if a condition ends it."""
        name = self.names[u] = f"i{u.arg}"
        begin, *end = map(self.name, u.src)
        self.line(f"loop {name} in {begin}..{''.join(end)}:")
        self.depth += 1

    def leave(self, u: UOp) -> None:
        """``leave unless v3``."""
        self.line(f"leave unless {self.name(u.src[1])}")

    def accumulator(self, u: UOp) -> None:
        """``s0 starts at 0.0``: a value that a loop carries."""
        name = self.names[u] = f"s{self.sums}"
        self.sums += 1
        self.line(f"{name}:{typed(u)} starts at {self.name(u.src[1])}")

    def end(self, u: UOp) -> None:
        """``next s0 = v2`` for each accumulator; the loop closes."""
        half = len(u.src) // 2
        pairs = zip(u.src[1 : 1 + half], u.src[1 + half :], strict=True)
        for carried, following in pairs:
            self.line(f"next {self.name(carried)} = {self.name(following)}")
        self.depth -= 1


def typed(u: UOp) -> str:
    """The type of a value: ``f32``, ``f32x8``."""
    return SHORT[u.dtype] + "".join(f"x{n}" for n in u.shape)


PRINT: dict[Op, Callable[[InstructionPrinter, UOp], None]] = {
    Op.LOAD: InstructionPrinter.load,
    Op.STORE: InstructionPrinter.store,
    Op.PREFETCH: InstructionPrinter.prefetch,
    Op.LOOP: InstructionPrinter.loop,
    Op.ACCUMULATOR: InstructionPrinter.accumulator,
    Op.LEAVE: InstructionPrinter.leave,
    Op.END: InstructionPrinter.end,
    Op.ACROSS: InstructionPrinter.across,
    Op.TILE: InstructionPrinter.tile,
    Op.BARRIER: InstructionPrinter.barrier,
    Op.COPY: InstructionPrinter.copy,
    Op.COPY_GROUP: InstructionPrinter.copy_group,
    Op.COPY_WAIT: InstructionPrinter.copy_wait,
    Op.EXCHANGE: InstructionPrinter.exchange,
    Op.FRAGMENT: InstructionPrinter.fragment,
    Op.WARP_MMA: InstructionPrinter.warp_mma,
    Op.GROUP_MMA: InstructionPrinter.group_mma,
    Op.GROUP_WAIT: InstructionPrinter.group_wait,
}
