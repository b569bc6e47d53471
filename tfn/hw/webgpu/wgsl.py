"""WGSL: the instructions of one thread as a compute shader, one row per op.

    int8 to int32, uint8 to uint32   i32, u32: a narrow one is cut off after each operation
    float16, bfloat16                u32 that holds their bits; arithmetic is that of float32
    int64, uint64, float64           i64, u64, f64 where the adapter has them
    int64 of indices                 i32: no buffer has more elements

A kernel calls ``load2(index)`` and ``store0(index, value)``: `binding` writes these functions, for
the buffers of a launch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfn import dtypes
from tfn.dtypes import DType
from tfn.errors import DTypeError
from tfn.extend import Op, UOp, const, walk
from tfn.lower.codegen.linearize import BEGIN, END

HALVES = frozenset({dtypes.FLOAT16, dtypes.BFLOAT16})
LACKS = frozenset({Op.LDEXP, Op.MMA, Op.TILE, Op.SPILL, Op.ROW, Op.DOT2})
"""Ops without a row."""

MAX_GROUPS = 65535
"""The most groups along one axis that WebGPU promises; more are a grid of two axes."""


KINDS = {dtypes.BOOL: "bool", dtypes.FLOAT32: "f32", dtypes.FLOAT64: "f64"}


def kind_of(dtype: DType, wide: bool = True) -> str:
    """The type of a value in a register; `wide` if there are types of 64 bits.

    Raises:
        DTypeError: for a value that needs 64 bits which there are not.
    """
    width = 64 if dtype.itemsize == 8 else 32
    if width == 64 and not wide:
        raise no_64_bits(dtype, "is needed by a kernel")
    if dtype in KINDS:
        return KINDS[dtype]
    return f"{'i' if dtype in dtypes.SIGNED and dtype not in dtypes.FLOATS else 'u'}{width}"


def no_64_bits(dtype: DType, what: str) -> DTypeError:
    """The error for numbers that an adapter lacks."""
    return DTypeError(
        f"this WebGPU adapter has no numbers of 64 bits: {dtype} {what}",
        got=str(dtype),
        hint="use 32 bits, or run it on the device cpu",
    )


def literal(value: Any, bits: int, kind: str) -> str:
    """A constant, exact to the last bit.

    WGSL refuses infinities, NaN and numbers below the normal ones where it can compute them.
    """
    if kind == "bool":
        return "true" if bits else "false"
    if kind == "f64":
        return f"bitcast<f64>({bits}lu)"
    if kind == "f32":
        number = float(value)
        if not np.isfinite(number) or 0 < abs(number) < np.finfo(np.float32).tiny:
            return f"bits({bits:#x}u)"
        text = f"{number.hex()}f"
        return f"({text})" if text[0] == "-" else text
    if kind == "u64":
        return f"{bits}lu"
    if kind == "i64":
        return f"bitcast<i64>({bits}lu)" if int(value) < 0 else f"{bits}li"
    if kind == "i32":
        least, most = -(1 << 31), (1 << 31) - 1
        return f"i32({min(max(int(value), least), most)})"  # bounds of 64 bits bound indices
    return f"{min(bits, (1 << 32) - 1)}u"


INTEGERS_64 = frozenset({dtypes.INT64, dtypes.UINT64})


def indices(items: Sequence[UOp], wide: bool = True) -> set[UOp]:
    """Integers of 64 bits that are indices and bounds: nothing else is made of them.

    What is loaded, comes from a float or a word of bits, becomes an element or another number, is
    data, and so is what meets data in an operation.  Without numbers of 64 bits no array has any,
    and a signed number that is made of indices fits into 32 bits, even as an element.
    """
    nodes = [u for u in walk(items) if u.op is not Op.CONST]
    data = {u for u in nodes if u.dtype in INTEGERS_64 and u.op in (Op.LOAD, Op.ACCUMULATOR)}
    for u in nodes:
        source = u.src[0] if u.src else None
        if u.op in (Op.CAST, Op.BITCAST) and source is not None:
            if source.dtype in dtypes.FLOATS:
                data.add(u)
            elif u.dtype not in INTEGERS_64:
                data.add(source)
        elif u.op is Op.STORE:
            data.add(u.src[2])
        elif u.op is Op.END:
            data.update(u.src[1:])
    if not wide:
        own = (Op.LOAD, Op.BITCAST)
        data = {u for u in data if u.dtype != dtypes.INT64 or u.op in own or _is_rounded(u)}
    grown = True
    while grown:
        grown = False
        for u in (*nodes, *reversed(nodes)):
            if u.op in MIXES:
                together = [s for s in u.src if s.dtype in INTEGERS_64 and s.op is not Op.CONST]
                together += [u] if u.dtype in INTEGERS_64 else []
                if any(s in data for s in together) and not data.issuperset(together):
                    data.update(together)
                    grown = True
    return {u for u in nodes if u.dtype in INTEGERS_64 and u not in data}


def _is_rounded(u: UOp) -> bool:
    """Whether a number was a float."""
    return u.op is Op.CAST and u.src[0].dtype in dtypes.FLOATS


class Writer:
    """The text of one kernel as it grows.

    Attributes:
        wide: whether there are types of 64 bits.
        lines: of the body.
        names: of values.
        accumulators: of each loop.
    """

    def __init__(self, items: Sequence[UOp], wide: bool) -> None:
        self.wide, self.indices = wide, indices(items, wide)
        self.lines: list[str] = []
        self.names: dict[UOp, str] = {}
        self.accumulators: dict[UOp, list[UOp]] = {}
        self.count, self.depth = 0, 1
        self.used: set[UOp] = set()
        for u in reversed(items):
            if u.op in EFFECTS or u in self.used:
                self.used |= set(u.src)
            if u.op is Op.ACCUMULATOR:
                self.accumulators.setdefault(u.src[0], []).append(u)

    def __call__(self, u: UOp, kind: str = "") -> str:
        """The text of a value where it is used, as another type of integers perhaps."""
        if u.op is Op.CONST:
            return literal(u.arg.value, u.arg.bits, kind or self.kind(u))
        name = self.names[u]
        return name if not kind or kind == self.kind(u) else f"{kind}({name})"

    def kind(self, u: UOp) -> str:
        """The type of a value."""
        if u.dtype in INTEGERS_64 and (u in self.indices or u.op in POSITIONS):
            return "i32" if u.dtype == dtypes.INT64 else "u32"
        return kind_of(u.dtype, self.wide)

    def common(self, *sources: UOp) -> str:
        """The type in which values meet: that of those which are no constants."""
        own = sources[0].dtype  # if all are constants
        alone = "i32" if own in INTEGERS_64 else kind_of(own, self.wide)
        return next((self.kind(s) for s in sources if s.op is not Op.CONST), alone)

    def line(self, text: str) -> None:
        """Add a line at the present depth."""
        self.lines.append("  " * self.depth + text)

    def put(self, u: UOp, text: str) -> None:
        """Name the value of a node."""
        self.count += 1
        self.names[u] = name = f"v{self.count}"
        self.line(f"let {name}: {self.kind(u)} = {text};")

    def variable(self, u: UOp, text: str) -> str:
        """Name a variable of the type of a node."""
        self.count += 1
        self.names[u] = name = f"a{self.count}"
        self.line(f"var {name}: {self.kind(u)} = {text};")
        return name


def cut(dtype: DType, text: str) -> str:
    """A result as the dtype holds it: integers of 8 and 16 bits wrap around."""
    unused = 32 - 8 * dtype.itemsize
    if unused <= 0 or dtype in dtypes.FLOATS or dtype == dtypes.BOOL:
        return text
    if dtype in dtypes.SIGNED:
        return f"(({text}) << {unused}u) >> {unused}u"
    return f"({text}) & {(1 << 8 * dtype.itemsize) - 1:#x}u"


# Values.

# fmt: off
SYMBOL = {
    Op.ADD: "+", Op.SUB: "-", Op.MUL: "*", Op.DIV: "/", Op.QUOTIENT: "/", Op.AND: "&", Op.OR: "|",
    Op.XOR: "^", Op.LT: "<", Op.LE: "<=", Op.EQ: "==", Op.NE: "!=",
}
FUNCTION = {Op.FLOOR: "floor", Op.CEIL: "ceil", Op.ROUND: "round", Op.SQRT: "sqrt", Op.ABS: "abs",
            Op.FMA: "fma"}
# fmt: on


SUMS, PRODUCTS = frozenset({Op.ADD, Op.SUB}), frozenset({Op.MUL})


def _held(w: Writer, u: UOp, s: UOp) -> str:
    """An operand of a sum or product of floats, which no algebra of a driver may look through.

    WGSL lets drivers reassociate: x + c - c becomes x, which is not x rounded, and x * 0 becomes 0
    for NaN too.
    """
    if s.dtype not in KINDS:
        return w(s, w.kind(u))
    kind = w.kind(s)
    if s.op is Op.CONST:
        is_zero = u.op is Op.MUL and float(s.arg.value) == 0
        return f"hold_{kind}({w(s)})" if is_zero else w(s)
    group = SUMS | {Op.FMA} if u.op in SUMS else PRODUCTS
    others = [x for x in u.src if x is not s] or [s]
    constant = any(x.op is Op.CONST for x in u.src) and any(x.op is Op.CONST for x in s.src)
    if s.op in group and (constant or any(x in s.src for x in others)):
        return f"hold_{kind}({w(s)})"
    return w(s)


def _binary(w: Writer, u: UOp) -> None:
    a, b = u.src
    held = u.op in SUMS or u.op in PRODUCTS
    kind = w.common(a, b) if u.dtype == dtypes.BOOL else w.kind(u)
    x, y = (_held(w, u, s) if held else w(s, kind) for s in u.src)
    if u.op in (Op.LT, Op.LE) and kind == "i64":
        # Mesa's llvmpipe compares a widened number wrongly with what it finds to be a constant.
        x, y = (x, f"hold_i64({y})") if a.op is Op.CONST else (f"hold_i64({x})", y)
    if u.dtype == dtypes.BOOL and a.dtype == dtypes.BOOL:
        w.put(u, _of_bools(u.op, x, y))
    elif a.dtype in KINDS and a is b and u.op in (Op.EQ, Op.NE):
        w.put(u, f"{'!' if u.op is Op.EQ else ''}nan_{kind}({x})")  # x == x may be folded
    elif a.dtype in KINDS and u.op is Op.NE:
        w.put(u, f"!({x} == {y})")  # != is false for NaN where naga writes it
    elif u.op in (Op.MAX, Op.MIN):
        name = f"{u.op.value}_{w.kind(u)}" if u.dtype in KINDS else u.op.value
        w.put(u, f"{name}({x}, {y})")
    elif u.op in (Op.SHL, Op.SHR):
        symbol = "<<" if u.op is Op.SHL else ">>"
        bits = f"{int(b.arg.value)}u" if b.op is Op.CONST else f"u32({w(b)})"
        w.put(u, cut(u.dtype, f"{x} {symbol} {bits}"))
    else:
        w.put(u, cut(u.dtype, f"{x} {SYMBOL[u.op]} {y}"))


def _of_bools(op: Op, x: str, y: str) -> str:
    symbol = {Op.MAX: "|", Op.MIN: "&", Op.AND: "&", Op.OR: "|", Op.XOR: "!="}.get(op)
    if op in (Op.LT, Op.LE):
        return f"u32({x}) {SYMBOL[op]} u32({y})"
    return f"{x} {symbol or SYMBOL[op]} {y}"


def _call(w: Writer, u: UOp) -> None:
    w.put(u, cut(u.dtype, f"{FUNCTION[u.op]}({', '.join(map(w, u.src))})"))


def _negate(w: Writer, u: UOp) -> None:
    x = w(u.src[0], w.kind(u))
    w.put(u, cut(u.dtype, f"~{x} + {w.kind(u)}(1)" if w.kind(u)[0] == "u" else f"-({x})"))


def _not(w: Writer, u: UOp) -> None:
    x = w(u.src[0])
    w.put(u, f"!{x}" if u.dtype == dtypes.BOOL else cut(u.dtype, f"~{x}"))


def _select(w: Writer, u: UOp) -> None:
    condition, x, y = w(u.src[0]), *(w(s, w.kind(u)) for s in u.src[1:])
    w.put(u, f"select({y}, {x}, {condition})")


def _bitcast(w: Writer, u: UOp) -> None:
    a, b = w.kind(u.src[0]), w.kind(u)
    x = w(u.src[0])
    w.put(u, x if a == b else cut(u.dtype, f"bitcast<{b}>({x})"))


def _cast(w: Writer, u: UOp) -> None:
    source, to = u.src[0].dtype, u.dtype
    x, kind, own = w(u.src[0]), w.kind(u), w.kind(u.src[0])
    if source == dtypes.BOOL:
        w.put(u, f"select({kind}(0), {kind}(1), {x})")
    elif to == dtypes.BOOL:
        w.put(u, f"!({x} == {own}(0))")
    elif source in HALVES:
        w.put(u, f"of_half({x})")
    elif to in HALVES:
        w.put(u, f"to_half({x})")
    elif own[0] == "f" and kind[0] != "f":
        _to_integer(w, u, x, own, kind)
    elif to in INTEGERS_64 and kind == "i32" and own == "u32":
        w.put(u, f"i32(min({x}, 0x7fffffffu))")  # an index beyond all buffers stays one
    elif (own, kind) in WIDENED:
        w.put(u, f"bitcast<{kind}>({WIDENED[own, kind]}({x}))")
    else:
        w.put(u, cut(to, f"{kind}({x})"))


WIDENED = {("u32", "i64"): "u64", ("i32", "u64"): "i64"}
"""The type by way of which a number is widened: naga takes the sign from the new type."""


def _to_integer(w: Writer, u: UOp, x: str, own: str, kind: str) -> None:
    """Truncate and saturate, NaN to 0.  Conversions of numbers out of range are undefined."""
    info = np.iinfo(u.dtype)
    suffix = "f" if own == "f32" else "lf"
    over, least = (f"{float(n).hex()}{suffix}" for n in (int(info.max) + 1, int(info.min)))
    w.count += 1
    inside = f"c{w.count}"
    w.line(f"let {inside} = select({own}(0), {x}, {x} < {over} && {x} > {least});")
    most, fewest = (w(const(int(n), u.dtype)) for n in (info.max, info.min))
    w.put(u, f"select(select({kind}({inside}), {most}, {x} >= {over}), {fewest}, {x} <= {least})")


# Memory and control.


def _index(w: Writer, u: UOp) -> str:
    base, offset = u.src[1], u.arg.offset
    if base.op is Op.CONST:
        return f"{int(base.arg.value) + offset}"
    text = w(base, "i32")
    return f"{text} + {offset}" if offset else text


def _load(w: Writer, u: UOp) -> None:
    memory, at = w(u.src[0]), _index(w, u)
    is_local = u.src[0].op is Op.LOCAL_MEMORY
    value = f"{memory}[{at}]" if is_local else f"load{memory}({at})"
    if is_local and u.dtype == dtypes.BOOL:
        value = f"({value} != 0u)"
    if len(u.src) == 3:
        name = w.variable(u, f"{w.kind(u)}()")
        w.line(f"if ({w(u.src[2])}) {{ {name} = {value}; }}")
    else:
        w.put(u, value)


def _store(w: Writer, u: UOp) -> None:
    memory, at = w(u.src[0]), _index(w, u)
    value = w(u.src[2], kind_of(u.src[2].dtype, w.wide))
    if u.src[0].op is Op.LOCAL_MEMORY:
        value = f"u32({value})" if u.src[2].dtype == dtypes.BOOL else value
        text = f"{memory}[{at}] = {value};"
    else:
        text = f"store{memory}({at}, {value});"
    w.line(f"if ({w(u.src[3])}) {{ {text} }}" if len(u.src) == 4 else text)


def _loop(w: Writer, u: UOp) -> None:
    for acc in w.accumulators.get(u, ()):
        w.variable(acc, w(acc.src[1], w.kind(acc)))
    w.names[u] = name = f"i{u.arg}"
    test = f"{name} < {w(u.src[1], 'i32')}" if len(u.src) > 1 else ""
    w.line(f"for (var {name}: i32 = {w(u.src[0], 'i32')}; {test}; {name} += 1) {{")
    w.depth += 1


def _leave(w: Writer, u: UOp) -> None:
    w.line(f"if (!({w(u.src[1])})) {{ break; }}")


def _end(w: Writer, u: UOp) -> None:
    half = len(u.src) // 2
    pairs = []
    for acc, value in zip(u.src[1 : 1 + half], u.src[1 + half :], strict=True):
        name = w(value, w.kind(acc))
        if value.op is Op.ACCUMULATOR and value is not acc:  # its variable may change before
            w.count += 1
            w.line(f"let n{w.count} = {name};")
            name = f"n{w.count}"
        pairs.append((w.names[acc], name))
    for variable, name in pairs:
        if variable != name:
            w.line(f"{variable} = {name};")
    w.depth -= 1
    w.line("}")


def _barrier(w: Writer, u: UOp) -> None:
    w.line("workgroupBarrier();")


def _nothing(w: Writer, u: UOp) -> None:
    """No text: an accumulator is a variable of its loop, and nothing is prefetched."""


POSITIONS = frozenset({Op.LOOP, Op.RANGE, Op.PARAM})
MIXES = frozenset(
    {*SYMBOL, Op.MAX, Op.MIN, Op.NEG, Op.NOT, Op.WHERE, Op.SHL, Op.SHR, Op.CAST, Op.BITCAST, Op.ABS}
)
EFFECTS = frozenset({Op.LOOP, Op.LEAVE, Op.END, Op.STORE, Op.BARRIER})

# fmt: off
ROWS: dict[Op, Callable[[Writer, UOp], None]] = {
    Op.LOOP: _loop, Op.ACCUMULATOR: _nothing, Op.LEAVE: _leave, Op.END: _end,
    Op.LOAD: _load, Op.STORE: _store, Op.BARRIER: _barrier, Op.PREFETCH: _nothing,
    **dict.fromkeys((*SYMBOL, Op.SHL, Op.SHR, Op.MAX, Op.MIN), _binary),
    **dict.fromkeys(FUNCTION, _call),
    Op.NEG: _negate, Op.NOT: _not, Op.WHERE: _select, Op.CAST: _cast, Op.BITCAST: _bitcast,
}
# fmt: on
"""The text of each op."""


def kernel_text(name: str, items: Sequence[UOp], wide: bool = True) -> str:
    """The body of a kernel, after a line that describes its operands; see `bound`."""
    w = Writer(items, wide)
    w.names |= {BEGIN: "begin", END: "end"}
    sources = [s for u in items for s in u.src]
    threads = 1
    for thread in {u for u in sources if u.op is Op.RANGE}:
        w.names[thread], threads = "thread", thread.arg.size
    buffers = {u for u in sources if u.op is Op.PARAM and u.arg.index >= 0}
    written = {u.src[0] for u in items if u.op is Op.STORE}
    count = 1 + max((u.arg.index for u in buffers), default=-1)
    operands: list[Any] = [None] * count
    for buffer in buffers:
        w.names[buffer] = str(buffer.arg.index)
        operands[buffer.arg.index] = (buffer.dtype.name, buffer in written)
    shared = []
    for memory in dict.fromkeys(u for u in sources if u.op is Op.LOCAL_MEMORY):
        w.names[memory] = t = f"t{memory.arg.number}"
        kind = "u32" if memory.dtype == dtypes.BOOL else kind_of(memory.dtype, wide)
        shared.append(f"var<workgroup> {t}: array<{kind}, {memory.size}>;")
    for u in items:
        assert not u.shape or u.op in (Op.PARAM, Op.LOCAL_MEMORY), f"{u} has lanes"
        if u.op in EFFECTS or u in w.used:
            ROWS[u.op](w, u)
    head = json.dumps({"name": name, "threads": threads, "operands": operands})
    body = "\n".join(w.lines)
    return f"// {head}\n" + "\n".join([*shared, _MAIN.format(threads=threads, body=body)])


def shared_bytes(text: str) -> int:
    """The memory of a group that a kernel declares: words of 32 bits, or of 64.

    Example:
        >>> shared_bytes("var<workgroup> t0: array<f32, 256>;")
        1024
    """
    declared = re.findall(r"var<workgroup> \w+: array<\w(\d+), (\d+)>", text)
    return sum(int(bits) // 8 * int(size) for bits, size in declared)


_MAIN = """\
@compute @workgroup_size({threads})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {{
  if (group.x + group.y * 65535u >= p.groups) {{ return; }}
  let begin = i32(group.x + group.y * 65535u);
  let end = begin + 1;
  let thread = i32(local);
{body}
}}
"""
