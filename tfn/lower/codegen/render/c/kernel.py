"""C kernel renderer: a kernel's instructions as a C function, one row per op.

Loops are loops, and an accumulator is a variable before its loop; every other value is named once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfn.dtypes import BOOL
from tfn.lower.codegen.render.c import access, values
from tfn.lower.codegen.render.c.names import element, shaped, stored
from tfn.lower.codegen.render.c.writer import EFFECTS, CWriter
from tfn.trace.op import Op
from tfn.trace.uop import UOp

Row = Callable[["CWriter", UOp], None]


def kernel_text(name: str, items: Sequence[UOp]) -> str:
    """``void NAME(u64 begin, u64 end, char *const *operands)`` from instructions in order."""
    w = CWriter(items)
    # Unused values would make compilers warn; exported code is compiled without warnings.
    items = [u for u in items if u.op in EFFECTS or u in w.used]
    buffers = {s for u in items for s in u.src if s.op is Op.PARAM and s.arg.index >= 0}
    for buffer in sorted(buffers, key=lambda u: u.arg.index):
        kind, at = f"{stored(buffer.dtype)}_m *", buffer.arg.index
        w.names[buffer] = f"b{at}"
        w.line(f"{kind}const b{at} = ({kind})operands[{at}];")
    for u in items:
        RENDER[u.op](w, u)
    begin, end = (f"u64 {x}" for x in ("begin", "end"))
    unused = "".join(f"  (void){x};\n" for x in ("begin", "end") if x not in w.used_tiles)
    body = "\n".join(w.lines)
    return f"KERNEL void {name}({begin}, {end}, char *const *operands) {{\n{unused}{body}\n}}\n"


# Loops.


def _loop(w: CWriter, u: UOp) -> None:
    name = f"i{u.arg}"
    for acc in w.accumulators.get(u, ()):
        w.count += 1
        variable = w.names[acc] = f"a{w.count}"
        if acc.dtype == BOOL and acc.shape:
            w.widths[acc], w.masks[-1][acc, 8] = 8, variable
            w.line(f"u8x{acc.shape[0]} {variable} = {w.mask(acc.src[1], 8)};")
        else:
            kind = shaped(element(acc.dtype), acc.shape)
            w.line(f"{kind} {variable} = {w(acc.src[1])};")
    w.names[u] = name
    begin = w(u.src[0])
    if len(u.src) == 1:
        w.open(f"for (u64 {name} = {begin};; ++{name})")
        return
    constant = all(s.op is Op.CONST for s in u.src)
    end = w(u.src[1])
    # Counters are unsigned; bounds that are computed may be negative.
    test = f"{name} < {end}" if constant else f"(s64){name} < (s64){end}"
    kind = "u32" if constant and u in w.narrow_counters else "u64"
    w.open(f"for ({kind} {name} = {begin}; {test}; ++{name})")


def _accumulator(w: CWriter, u: UOp) -> None:
    """Nothing to add: the loop has declared its variable."""


def _leave(w: CWriter, u: UOp) -> None:
    w.line(f"if (!{w(u.src[1])}) break;")


def _end(w: CWriter, u: UOp) -> None:
    half = len(u.src) // 2
    pairs = []
    for acc, value in zip(u.src[1 : 1 + half], u.src[1 + half :], strict=True):
        is_mask = acc.dtype == BOOL and acc.shape
        name = w.mask(value, 8) if is_mask else w(value)
        if value.op is Op.ACCUMULATOR and value is not acc:  # its variable may change before
            kind = f"u8x{acc.shape[0]}" if is_mask else shaped(element(acc.dtype), acc.shape)
            name = w.let(kind, name)
        pairs.append((w.names[acc], name))
    for variable, name in pairs:
        if variable != name:
            w.line(f"{variable} = {name};")
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
