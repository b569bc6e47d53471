"""LLVM IR renderer: a kernel's instructions as text, one row per op.

The text needs no optimisation passes: it is vectorised, unrolled and hoisted already.  A bool is
an i1 in registers and a byte in memory; a bfloat16 is 16 bits that only casts understand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from tfn.dtypes import BFLOAT16, BOOL, FLOATS, INT32, UNSIGNED, DType
from tfn.lower.codegen.render import access, matrix
from tfn.lower.codegen.render.access import zero
from tfn.lower.codegen.render.writer import (
    TYPES,
    LlvmWriter,
    literal,
    scalar,
    suffix,
    typed,
    vector,
)
from tfn.lower.index.intervals import bounds
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

Row = Callable[[LlvmWriter, UOp], str]
SHUFFLES_PER_FENCE = 2
"""Consecutive shuffles that LLVM may combine; a fence keeps it from looking through more.

A transpose of 16 vectors takes four shuffles one after the other.  LLVM looks for one in place of
all, and finds none: compiling such a kernel took 30 ms, and takes 11 with fences.
"""

MANY_VALUES = 800
"""Instructions above which vectors that do not fit the registers are kept in aligned memory.

With a frame pointer LLVM aligns the stack for them.  Else it has 16 bytes, and a vector of 32 lies
across two lines of the cache now and then, one of 64 mostly.
"""


def kernel_text(
    name: str,
    items: Sequence[UOp],
    pointer_bytes: int = 8,
    rows: Mapping[Op, Row] = MappingProxyType({}),
) -> str:
    """``void NAME(i64 begin, i64 end, ptr operands)`` from instructions in order.

    `rows` are used in place of those of `RENDER`.
    """
    w = LlvmWriter()
    buffers = {s for u in items for s in u.src if s.op is Op.PARAM and s.arg.index >= 0}
    for buffer in sorted(buffers, key=lambda u: u.arg.index):
        slot = w.let(f"getelementptr ptr, ptr %operands, i64 {buffer.arg.index}")
        w.names[buffer] = w.let(f"load ptr, ptr {slot}, align {pointer_bytes}")
    for u in items:
        value = (rows.get(u.op) or RENDER[u.op])(w, u)
        if value:
            w.names[u] = value
    body = "\n".join([*w.allocas, *w.lines])
    declarations = "\n".join(sorted(w.declared.values()))
    aligned = ' "frame-pointer"="all"' if len(items) > MANY_VALUES else ""
    return (
        f"define void @{name}(i64 %begin, i64 %end, ptr noalias readonly %operands) #0 {{\n"
        f"entry:\n{body}\n  ret void\n}}\n{declarations}\n"
        f'attributes #0 = {{ nounwind "no-builtins"{aligned} }}\n'
    )


# Loops.


def _loop(w: LlvmWriter, u: UOp) -> str:
    begin, number, before = u.src[0], u.arg, w.block
    # Constant bounds: at least one iteration, or until LEAVE; the test is at the bottom.
    constant = all(s.op is Op.CONST for s in u.src)
    w.lines.append(f"  br label %loop{number}")
    w.lines.append(f"loop{number}:")
    counter = f"%i{number}"
    kind = "endless" if len(u.src) == 1 else "bottom" if constant else "top"
    w.open_loops[u] = (len(w.lines), before, kind)
    w.lines.append(f"  {counter} = phi i64 [ {w(begin)}, %{before} ]")
    w.block = f"loop{number}"
    if not constant:
        w.names[u] = counter
        w.lines.append(f"  %go{number} = icmp slt i64 {counter}, {w(u.src[1])}")
        w.lines.append(f"  br i1 %go{number}, label %body{number}, label %exit{number}")
        w.lines.append(f"body{number}:")
        w.block = f"body{number}"
    return counter


def _accumulator(w: LlvmWriter, u: UOp) -> str:
    loop, start = u.src
    name = w.fresh()
    at, before, kind = w.open_loops[loop]
    if kind == "top":  # its phi stands before the test: it is written at the end of the loop
        w.open_loops[u] = (at, before, w(start))
        return name
    if len(u.shape) == 2 and start.op is Op.CONST:  # zeroed just before the loop
        first = w.fresh()
        w.lines[at - 2] = f"  {first} = {matrix.zero(w, start)}\n{w.lines[at - 2]}"
    else:
        first = w(start)
    w.open_loops[u] = (len(w.lines), before, "")
    w.lines.append(f"  {name} = phi {typed(u)} [ {first}, %{before} ]")
    return name


def _leave(w: LlvmWriter, u: UOp) -> str:
    loop, condition = u.src
    w.lines.append(f"  br i1 {w(condition)}, label %stay{loop.arg}, label %exit{loop.arg}")
    w.lines.append(f"stay{loop.arg}:")
    w.block = f"stay{loop.arg}"
    return ""


def _end(w: LlvmWriter, u: UOp) -> str:
    loop = u.src[0]
    half = len(u.src) // 2
    carried, following = u.src[1 : 1 + half], u.src[1 + half :]
    number, (at, _, kind) = loop.arg, w.open_loops[loop]
    step = w.let(f"add nsw i64 {w(loop)}, 1")
    w.lines[at] += f", [ {step}, %{w.block} ]"
    for acc, value in zip(carried, following, strict=True):
        line, before, first = w.open_loops[acc]
        if kind == "top":
            w.lines[line] += f"\n  {w(acc)} = phi {typed(acc)} [ {first}, %{before} ]"
        w.lines[line] += f", [ {w(value)}, %{w.block} ]"
    if kind == "bottom":
        more = w.let(f"icmp slt i64 {step}, {w(loop.src[1])}")
        w.lines.append(f"  br i1 {more}, label %loop{number}, label %exit{number}")
        # After a loop that is left at its bottom, a carry is its next value.
        w.names.update(zip(carried, [w(value) for value in following], strict=True))
    else:
        w.lines.append(f"  br label %loop{number}")
    w.lines.append(f"exit{number}:")
    w.block = f"exit{number}"
    return ""


# Values.


def _splat(w: LlvmWriter, u: UOp) -> str:
    kind, element = typed(u), scalar(u.dtype)
    one = w.let(f"insertelement {kind} poison, {element} {w(u.src[0])}, i32 0")
    return w.let(f"shufflevector {kind} {one}, {kind} poison, <{u.arg} x i32> zeroinitializer")


def _shuffle(w: LlvmWriter, u: UOp) -> str:
    kind = typed(u.src[0])
    order = ", ".join(f"i32 {i}" for i in u.arg)
    a, b = map(w, u.src)
    name = w.let(f"shufflevector {kind} {a}, {kind} {b}, <{len(u.arg)} x i32> <{order}>")
    words, rest = divmod(len(u.arg) * u.dtype.itemsize, 4)
    if _shuffle_depth(u) % SHUFFLES_PER_FENCE or rest or u.dtype == BOOL:
        return name
    kind, floats = typed(u), vector("float", (words,))
    name = name if kind == floats else w.let(f"bitcast {kind} {name} to {floats}")
    name = w.let(w.intrinsic(f"arithmetic.fence.v{words}f32", floats, [(floats, name)]))
    return name if kind == floats else w.let(f"bitcast {floats} {name} to {kind}")


def _shuffle_depth(u: UOp) -> int:
    """The number of consecutive shuffles that end in a value."""
    return 1 + _shuffle_depth(u.src[0]) if u.op is Op.SHUFFLE else 0


_ADDED_PAIRS = {
    (2, 64): "x86.avx512.pmaddw.d.512",
    (2, 32): "x86.avx2.pmadd.wd",
    (2, 16): "x86.sse2.pmadd.wd",
    (1, 64): "x86.avx512.pmaddubs.w.512",
    (1, 32): "x86.avx2.pmadd.ub.sw",
    (1, 16): "x86.ssse3.pmadd.ub.sw.128",
}
"""Products of integers added in pairs, by the bytes of an integer and of a vector."""


def _dot2(w: LlvmWriter, u: UOp) -> str:
    total, *operands = u.src
    kind = typed(u)
    values = [(typed(s), w(s)) for s in operands]
    bytes_each, count = operands[0].dtype.itemsize, operands[0].shape[0]
    if operands[0].dtype == BFLOAT16:
        name, to = f"avx512bf16.dpbf16ps.{16 * count}", typed(operands[0]).replace("i16", "bfloat")
    elif bytes_each * 4 == u.dtype.itemsize:
        name, to = f"avx512.vpdpbusd.{8 * count}", kind
    else:  # an instruction that adds to the sum, too, is found by LLVM
        added = w.let(w.intrinsic(_ADDED_PAIRS[bytes_each, bytes_each * count], kind, values))
        return w.let(f"add {kind} {w(total)}, {added}")
    cast = [(to, w.let(f"bitcast {of} {v} to {to}")) for of, v in values]
    return w.let(w.intrinsic(f"x86.{name}", kind, [(kind, w(total)), *cast]))


def _across(w: LlvmWriter, u: UOp) -> str:
    """A reduction of lanes as a tree: the upper half is combined with the lower, down to one."""
    value = u.src[0]
    lanes, element = value.shape[0], scalar(u.dtype)
    name = w(value)
    if u.dtype == BOOL and u.arg is Op.MAX:  # one instruction where masks have registers
        return w.let(w.intrinsic(f"vector.reduce.or.v{lanes}i1", "i1", [(typed(value), name)]))
    while lanes > 1:
        half = lanes // 2
        kind, part = f"<{lanes} x {element}>", f"<{half} x {element}>"
        low = ", ".join(f"i32 {i}" for i in range(half))
        high = ", ".join(f"i32 {i + half}" for i in range(half))
        a = w.let(f"shufflevector {kind} {name}, {kind} poison, <{half} x i32> <{low}>")
        b = w.let(f"shufflevector {kind} {name}, {kind} poison, <{half} x i32> <{high}>")
        name = _combine(w, u.arg, u.dtype, part, a, b, f"v{half}")
        lanes = half
    return w.let(f"extractelement <1 x {element}> {name}, i32 0")


def _combine(w: LlvmWriter, op: Op, dtype: DType, kind: str, a: str, b: str, lanes: str) -> str:
    if op in (Op.MAX, Op.MIN):
        if dtype == BOOL:
            return w.let(f"{'or' if op is Op.MAX else 'and'} {kind} {a}, {b}")
        name = _EXTREME[op][_kind(dtype)]
        letter = "f" if dtype in FLOATS else "i"
        return w.let(
            w.intrinsic(f"{name}.{lanes}{letter}{8 * dtype.itemsize}", kind, [(kind, a), (kind, b)])
        )
    return w.let(f"{_ARITHMETIC[op][_kind(dtype)]} {kind} {a}, {b}")


def _kind(dtype: DType) -> int:
    """0 for floats, 1 for signed integers, 2 for unsigned ones and bool."""
    return 0 if dtype in FLOATS else 2 if dtype in UNSIGNED or dtype == BOOL else 1


# fmt: off
_ARITHMETIC: dict[Op, tuple[str, str, str]] = {
    Op.ADD: ("fadd", "add", "add"), Op.SUB: ("fsub", "sub", "sub"), Op.MUL: ("fmul", "mul", "mul"),
    Op.DIV: ("fdiv", "sdiv", "udiv"), Op.AND: ("", "and", "and"), Op.OR: ("", "or", "or"),
    Op.XOR: ("", "xor", "xor"), Op.SHL: ("", "shl", "shl"), Op.SHR: ("", "ashr", "lshr"),
}
_EXTREME: dict[Op, tuple[str, str, str]] = {
    Op.MAX: ("maximum", "smax", "umax"), Op.MIN: ("minimum", "smin", "umin"),
}
_COMPARE: dict[Op, tuple[str, str, str]] = {
    Op.LT: ("fcmp olt", "icmp slt", "icmp ult"), Op.LE: ("fcmp ole", "icmp sle", "icmp ule"),
    Op.EQ: ("fcmp oeq", "icmp eq", "icmp eq"), Op.NE: ("fcmp une", "icmp ne", "icmp ne"),
}
_CALLS: dict[Op, str] = {
    Op.FLOOR: "floor", Op.CEIL: "ceil", Op.ROUND: "roundeven", Op.SQRT: "sqrt", Op.ABS: "fabs",
    Op.FMA: "fma",
}
# fmt: on


def _arithmetic(w: LlvmWriter, u: UOp) -> str:
    a, b = map(w, u.src)
    return w.let(f"{_ARITHMETIC[u.op][_kind(u.dtype)]} {typed(u)} {a}, {b}")


def _extreme(w: LlvmWriter, u: UOp) -> str:
    a, b = map(w, u.src)
    lanes = f"v{u.shape[0]}" if u.shape else ""
    return _combine(w, u.op, u.dtype, typed(u), a, b, lanes)


def _compare(w: LlvmWriter, u: UOp) -> str:
    a, b = map(w, u.src)
    return w.let(f"{_COMPARE[u.op][_kind(u.src[0].dtype)]} {typed(u.src[0])} {a}, {b}")


def _call(w: LlvmWriter, u: UOp) -> str:
    if u.op is Op.ABS and u.dtype not in FLOATS:
        if _kind(u.dtype) == 2:
            return w(u.src[0])
        return w.let(
            w.intrinsic(f"abs.{suffix(u)}", typed(u), [(typed(u), w(u.src[0])), ("i1", "false")])
        )
    values = [(typed(s), w(s)) for s in u.src]
    return w.let(w.intrinsic(f"{_CALLS[u.op]}.{suffix(u)}", typed(u), values))


def _ldexp(w: LlvmWriter, u: UOp) -> str:
    x, n = u.src
    values = [(typed(s), w(s)) for s in u.src]
    return w.let(w.intrinsic(f"ldexp.{suffix(x)}.{suffix(n)}", typed(u), values))


def _neg(w: LlvmWriter, u: UOp) -> str:
    kind, x = typed(u), w(u.src[0])
    zero = "zeroinitializer" if u.shape else "0"
    return w.let(f"fneg {kind} {x}" if u.dtype in FLOATS else f"sub {kind} {zero}, {x}")


def _not(w: LlvmWriter, u: UOp) -> str:
    ones = "true" if u.dtype == BOOL else "-1"
    ones = f"splat ({scalar(u.dtype)} {ones})" if u.shape else ones
    return w.let(f"xor {typed(u)} {w(u.src[0])}, {ones}")


def _where(w: LlvmWriter, u: UOp) -> str:
    condition, x, y = u.src
    return w.let(f"select {typed(condition)} {w(condition)}, {typed(u)} {w(x)}, {typed(u)} {w(y)}")


def _constant(u: UOp, value: int) -> str:
    return f"splat ({scalar(u.dtype)} {value})" if u.shape else str(value)


def _quotient(w: LlvmWriter, u: UOp) -> str:
    """The truncated quotient.

    Processors have no division of integer vectors.  Floats with a longer mantissa divide exactly: a
    quotient that is no integer is farther from the next integer than rounding moves it.
    """
    (a, b), kind, sign = map(w, u.src), typed(u), "s" if _kind(u.dtype) == 1 else "u"
    if not u.shape or u.src[1].op is Op.CONST or u.dtype.itemsize > 4:
        return w.let(f"{sign}div {kind} {a}, {b}")
    real = vector("float" if u.dtype.itemsize < 4 else "double", u.shape)
    x, y = (w.let(f"{sign}itofp {kind} {v} to {real}") for v in (a, b))
    quotient = w.let(f"fdiv {real} {x}, {y}")
    return w.let(f"fpto{sign}i {real} {quotient} to {kind}")


def _bitcast(w: LlvmWriter, u: UOp) -> str:
    source = u.src[0]
    if typed(source) == typed(u):
        return w(source)
    return w.let(f"bitcast {typed(source)} {w(source)} to {typed(u)}")


def _cast(w: LlvmWriter, u: UOp) -> str:
    source = u.src[0]
    a, b = source.dtype, u.dtype
    x, from_, to = w(source), typed(source), typed(u)
    if b == BOOL:
        nothing = "zeroinitializer" if u.shape else zero(a)
        return w.let(f"{'fcmp une' if a in FLOATS else 'icmp ne'} {from_} {x}, {nothing}")
    if a in FLOATS and b in FLOATS:
        return w.let(f"{'fpext' if b.itemsize > a.itemsize else 'fptrunc'} {from_} {x} to {to}")
    if a in FLOATS:
        return _to_integer(w, u)
    if b in FLOATS:
        return w.let(f"{'sitofp' if _kind(a) == 1 else 'uitofp'} {from_} {x} to {to}")
    if TYPES[a] == TYPES[b]:
        return x
    if a != BOOL and b.itemsize < a.itemsize:
        return w.let(f"trunc {from_} {x} to {to}")
    return w.let(f"{'sext' if _kind(a) == 1 else 'zext'} {from_} {x} to {to}")


def _to_integer(w: LlvmWriter, u: UOp) -> str:
    """Truncate and saturate, NaN to 0; by selects, because LLVM's own form is not vectorised."""
    source = u.src[0]
    info, largest = np.iinfo(u.dtype), float(np.finfo(source.dtype).max)
    kind, to, bools = typed(source), typed(u), vector("i1", u.shape)
    x = w(source)

    def number(value: float) -> str:
        return literal(const(value, source.dtype, source.shape))

    least, most = bounds(u)
    if info.min < least and most < info.max:  # clipped before; never unsigned, since NaN is 0
        ordered = w.let(f"fcmp ord {kind} {x}, {x}")
        x = w.let(f"select {bools} {ordered}, {kind} {x}, {kind} {number(0.0)}")
        return w.let(f"fptosi {kind} {x} to {to}")
    if _holds_limits(source.dtype, u.dtype):  # clamped, and converted by way of 32 bits
        high, low = number(float(info.max)), number(float(info.min))
        ordered = w.let(f"fcmp ord {kind} {x}, {x}")
        x = w.let(f"select {bools} {ordered}, {kind} {x}, {kind} {number(0.0)}")
        for comparison, limit in (("ogt", low), ("olt", high)):
            inside = w.let(f"fcmp {comparison} {kind} {x}, {limit}")
            x = w.let(f"select {bools} {inside}, {kind} {x}, {kind} {limit}")
        word = vector("i32", u.shape)
        integer = w.let(f"fptosi {kind} {x} to {word}")
        return integer if word == to else w.let(f"trunc {word} {integer} to {to}")

    over = 2.0 ** int(info.max).bit_length()
    above = w.let(f"fcmp oge {kind} {x}, {number(over if over <= largest else np.inf)}")
    under = float(info.min) if float(info.min) >= -largest else -np.inf
    below = w.let(f"fcmp ole {kind} {x}, {number(under)}")
    ordered = w.let(f"fcmp ord {kind} {x}, {number(0.0)}")
    outside = w.let(f"or {bools} {above}, {below}")
    zero = number(0.0)
    # Conversions of numbers out of range are poison: those are replaced before, and selected after.
    safe = w.let(f"select {bools} {outside}, {kind} {zero}, {kind} {x}")
    safe = w.let(f"select {bools} {ordered}, {kind} {safe}, {kind} {zero}")
    integer = w.let(f"{'fptosi' if _kind(u.dtype) == 1 else 'fptoui'} {kind} {safe} to {to}")
    highest, lowest = _constant(u, int(info.max)), _constant(u, int(info.min))
    integer = w.let(f"select {bools} {above}, {to} {highest}, {to} {integer}")
    return w.let(f"select {bools} {below}, {to} {lowest}, {to} {integer}")


def _holds_limits(source: DType, to: DType) -> bool:
    """Whether a float has the least and the largest value of an integer that fits 32 bits."""
    info = np.iinfo(to)
    fits = to.itemsize < 4 or to == INT32
    return fits and all(int(source.type(end)) == end for end in (info.min, info.max))


# fmt: off
RENDER: dict[Op, Row] = {
    Op.LOOP: _loop, Op.ACCUMULATOR: _accumulator, Op.LEAVE: _leave, Op.END: _end,
    Op.LOAD: access.load, Op.STORE: access.store, Op.PREFETCH: access.prefetch,
    Op.SPLAT: _splat, Op.SHUFFLE: _shuffle, Op.ACROSS: _across, Op.DOT2: _dot2,
    **dict.fromkeys(_ARITHMETIC, _arithmetic), **dict.fromkeys(_EXTREME, _extreme),
    **dict.fromkeys(_COMPARE, _compare), **dict.fromkeys(_CALLS, _call),
    Op.NEG: _neg, Op.NOT: _not, Op.WHERE: _where, Op.QUOTIENT: _quotient,
    Op.CAST: _cast, Op.BITCAST: _bitcast, Op.LDEXP: _ldexp, **matrix.RENDER,
}
# fmt: on
