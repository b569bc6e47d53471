"""C kernel renderer: a kernel's instructions as a C function, one row per op.

Loops are loops, and an accumulator is a variable before its loop; every other value is named once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfn.lower.codegen.render.c import access, blocks, dots, loops, values
from tfn.lower.codegen.render.c.names import stored
from tfn.lower.codegen.render.c.writer import EFFECTS, CWriter
from tfn.trace.op import Op
from tfn.trace.uop import UOp

Row = Callable[["CWriter", UOp], None]


def kernel_text(
    name: str,
    items: Sequence[UOp],
    with_dots: bool = False,
    halves: frozenset[int] = frozenset(),
) -> str:
    """``void NAME(u64 begin, u64 end, char *const *operands)`` from instructions in order.

    `with_dots` makes calls of sums of products of bytes, and blocks of results; the operands
    `halves` are numbers of 4 bits, as `dots` reads them.
    """
    w = CWriter(items)
    # Unused values would make compilers warn; exported code is compiled without warnings.
    items = [u for u in items if u.op in EFFECTS or u in w.used]
    buffers = {s for u in items for s in u.src if s.op is Op.PARAM and s.arg.index >= 0}
    for buffer in sorted(buffers, key=lambda u: u.arg.index):
        kind, at = f"{stored(buffer.dtype)}_m *", buffer.arg.index
        w.names[buffer] = f"b{at}"
        w.halves |= {buffer} if at in halves else set()
        w.line(f"{kind}const b{at} = ({kind})operands[{at}];")
    found = dots.products(items) if with_dots else {}
    products = {u: p for u, x in found.items() if (p := dots.with_halves(x, w.halves))}
    blocked = blocks.blocks(items) if with_dots else {}
    skipped = -1
    for at, u in enumerate(items):
        if at <= skipped:
            continue
        if u in blocked:
            skipped = blocked[u].end
            blocks.render(w, items, blocked[u], products, RENDER)
        elif u in products:
            skipped = products[u].end
            loops.declare(w, u)
            dots.render(w, products[u], [w.names])
        else:
            RENDER[u.op](w, u)
    begin, end = (f"u64 {x}" for x in ("begin", "end"))
    unused = "".join(f"  (void){x};\n" for x in ("begin", "end") if x not in w.used_tiles)
    body = "\n".join(w.lines)
    return f"KERNEL void {name}({begin}, {end}, char *const *operands) {{\n{unused}{body}\n}}\n"


# Loops.


def _loop(w: CWriter, u: UOp) -> None:
    loops.declare(w, u)
    loops.begin(w, u)


def _accumulator(w: CWriter, u: UOp) -> None:
    """Nothing to add: the loop has declared its variable."""


def _leave(w: CWriter, u: UOp) -> None:
    w.line(f"if (!{w(u.src[1])}) break;")


def _end(w: CWriter, u: UOp) -> None:
    loops.carry(w, u)
    w.close()


# fmt: off
RENDER: dict[Op, Row] = {
    Op.LOOP: _loop, Op.ACCUMULATOR: _accumulator, Op.LEAVE: _leave, Op.END: _end,
    Op.LOAD: access.load, Op.STORE: access.store, Op.PREFETCH: access.prefetch,
    Op.SPLAT: values.splat, Op.SHUFFLE: values.shuffle, Op.ACROSS: values.across,
    **dict.fromkeys((Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.AND, Op.OR, Op.XOR, Op.SHL, Op.SHR,
                     Op.MAX, Op.MIN), values.arithmetic),
    **dict.fromkeys((Op.LT, Op.LE, Op.EQ, Op.NE), values.compare),
    **dict.fromkeys((Op.FLOOR, Op.CEIL, Op.ROUND, Op.SQRT, Op.ABS, Op.FMA), values.call),
    Op.NEG: values.negate, Op.NOT: values.bitwise_not, Op.WHERE: values.select,
    Op.CAST: values.cast, Op.BITCAST: values.bitcast, Op.QUOTIENT: values.quotient,
    Op.DOT2: values.dot_pairs,
}
# fmt: on
LACKS = frozenset({Op.LDEXP, Op.MMA, Op.TILE, Op.SPILL, Op.ROW})
"""Ops without a row: C has ldexp in its library only, and Linux must permit AMX to a process."""
