"""Rows of the instructions that make values: one C word each, or a few."""

from __future__ import annotations

import numpy as np

from tfn.dtypes import BFLOAT16, BOOL, FLOAT16, FLOAT32, FLOATS, DType
from tfn.lower.codegen.render.c.names import shaped, stored
from tfn.lower.codegen.render.c.writer import Writer, first, signed
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp, const

# fmt: off
WORD: dict[Op, str] = {
    Op.ADD: "add", Op.SUB: "sub", Op.MUL: "mul", Op.DIV: "div", Op.AND: "and", Op.OR: "or",
    Op.XOR: "xor", Op.SHL: "shl", Op.SHR: "shr", Op.LT: "lt", Op.LE: "le", Op.EQ: "eq",
    Op.NE: "ne", Op.FLOOR: "floor", Op.CEIL: "ceil", Op.ROUND: "round", Op.SQRT: "sqrt",
    Op.ABS: "abs", Op.FMA: "fma",
}
"""The words of ops."""
# fmt: on


def splat(w: Writer, u: UOp) -> None:
    """A scalar in every lane; a truth is made as wide as it is wanted."""
    if u.dtype != BOOL:
        w.put(u, f"splat_{shaped(stored(u.dtype), u.shape)}({w(u.src[0])})")


def shuffle(w: Writer, u: UOp) -> None:
    """Lanes picked from two vectors."""
    a, b = u.src
    order = ", ".join(map(str, u.arg))
    if u.dtype == BOOL:
        width = w.width(a, b)
        name = f"shuffle_u{width}x{u.shape[0]}"
        w.put_mask(u, width, f"{name}({w.mask(a, width)}, {w.mask(b, width)}, {order})")
    else:
        w.put(u, f"shuffle_{shaped(stored(u.dtype), u.shape)}({w(a)}, {w(b)}, {order})")


def across(w: Writer, u: UOp) -> None:
    """The lanes as a tree: the upper half meets the lower, until one is left."""
    value, truth = u.src[0], u.dtype == BOOL
    lanes, kind = value.shape[0], "u8" if truth else stored(u.dtype)
    does = {Op.MAX: "or", Op.MIN: "and"}[u.arg] if truth else ""
    name = w.mask(value, 8) if truth else w(value)
    if lanes == 1:
        name = f"low_{kind}x1({name})"
    while lanes > 1:
        whole, half = f"{kind}x{lanes}", lanes // 2
        shape = (half,) if half > 1 else ()
        part = shaped(kind, shape)
        low, high = (w.let(part, f"{side}_{whole}({name})") for side in ("low", "high"))
        if does:
            name = w.let(part, w.word(does, kind, shape, low, high))
        else:
            name = w.let(part, _two(w, u.arg, u.dtype, shape, low, high))
        lanes = half
    w.put(u, f"{name} != 0" if truth else name)


def _two(w: Writer, op: Op, dtype: DType, shape: Shape, a: str, b: str) -> str:
    """An operation on two values of a dtype that is not bool."""
    kind = stored(dtype)
    if op in (Op.MAX, Op.MIN):
        if dtype in FLOATS:
            return f"{op.value}_{shaped(kind, shape)}({a}, {b})"
        less = w.word("slt" if signed(dtype) else "lt", kind, shape, a, b)
        less = w.let(shaped(kind, shape) if shape else "_Bool", less)
        small, large = (a, b) if op is Op.MIN else (b, a)
        return w.word("select", kind, shape, less, small, large)
    does = WORD[op]
    if op is Op.SHR and signed(dtype):
        does = "sar"
    return w.word(does, kind, shape, a, b)


def arithmetic(w: Writer, u: UOp) -> None:
    """Two operands of one type."""
    a, b = u.src
    if u.dtype == BOOL:
        _logic(w, u)
    elif u.op in (Op.MAX, Op.MIN) and u.dtype in FLOATS and _bounds(u.op, b):
        _bound(w, u)
    else:
        w.put(u, _two(w, u.op, u.dtype, u.shape, w(a), w(b)))


def _bounds(op: Op, u: UOp) -> bool:
    """Whether a constant bounds by one comparison: a number, and not the weaker zero."""
    if u.op is not Op.CONST or np.isnan(float(u.arg.value)):
        return False
    weaker = bool(np.signbit(float(u.arg.value))) == (op is Op.MAX)
    return float(u.arg.value) != 0.0 or not weaker


def _bound(w: Writer, u: UOp) -> None:
    """The larger of a value and a constant, by one comparison that is false for NaN."""
    a, b = u.src
    kind = stored(u.dtype)
    x, y = (w(a), w(b)) if u.op is Op.MAX else (w(b), w(a))
    test = w.word("le", kind, u.shape, x, y)  # so that 0.0 is above -0.0
    held = f"u{kind[1:]}x{u.shape[0]}" if u.shape else "_Bool"
    w.put(u, w.word("select", kind, u.shape, w.let(held, test), w(b), w(a)))


def neighbours(w: Writer, u: UOp) -> None:
    """Products of neighbours, added to a sum."""
    kind = shaped(stored(u.dtype), u.shape)
    w.put(u, f"pairs_{kind}({', '.join(map(w, u.src))})")


def _logic(w: Writer, u: UOp) -> None:
    """AND, OR, XOR, MAX and MIN of truths."""
    a, b = u.src
    does = {Op.MAX: "or", Op.MIN: "and"}.get(u.op) or WORD[u.op]
    if u.shape:
        width = w.width(a, b)
        w.put_mask(u, width, w.word(does, f"u{width}", u.shape, w.mask(a, width), w.mask(b, width)))
    else:
        w.put(u, w.word(does, "u32", (), w(a), w(b)))


def compare(w: Writer, u: UOp) -> None:
    """A truth of two operands."""
    a, b = u.src
    if first(u) is not None:
        return  # made where it is wanted
    does = WORD[u.op]
    if a.dtype == BOOL:
        if u.shape:
            width = w.width(a, b)
            operands = w.mask(a, width), w.mask(b, width)
            w.put_mask(u, width, w.word(does, f"u{width}", u.shape, *operands))
        else:
            w.put(u, w.word(does, "u32", (), w(a), w(b)))
        return
    kind = stored(a.dtype)
    if signed(a.dtype) and u.op in (Op.LT, Op.LE):
        does = "s" + does
    value = w.word(does, kind, u.shape, w(a), w(b))
    if u.shape:
        w.put_mask(u, int(kind[1:]), value)
    else:
        w.put(u, value)


def call(w: Writer, u: UOp) -> None:
    """What C has no operator for."""
    kind = shaped(stored(u.dtype), u.shape)
    name = WORD[u.op]
    if u.op is Op.ABS and u.dtype not in FLOATS:
        if not signed(u.dtype):
            w.put(u, w(u.src[0]))
            return
        name = "sabs"
    w.put(u, f"{name}_{kind}({', '.join(map(w, u.src))})")


def negative(w: Writer, u: UOp) -> None:
    """The opposite number."""
    w.put(u, w.word("neg", stored(u.dtype), u.shape, w(u.src[0])))


def opposite(w: Writer, u: UOp) -> None:
    """All bits flipped."""
    x = u.src[0]
    if u.dtype != BOOL:
        w.put(u, w.word("not", stored(u.dtype), u.shape, w(x)))
    elif u.shape:
        width = w.width(x)
        w.put_mask(u, width, w.word("not", f"u{width}", u.shape, w.mask(x, width)))
    else:
        w.put(u, f"!{w(x)}")


def choice(w: Writer, u: UOp) -> None:
    """One of two values by a truth."""
    condition, x, y = u.src
    if u.dtype == BOOL and u.shape:
        width = w.width(*u.src)
        masks = (w.mask(s, width) for s in u.src)
        w.put_mask(u, width, w.word("select", f"u{width}", u.shape, *masks))
        return
    kind = stored(u.dtype)
    test = w.mask(condition, int(kind[1:])) if u.shape else w(condition)
    w.put(u, w.word("select", kind, u.shape, test, w(x), w(y)))


def division(w: Writer, u: UOp) -> None:
    """Floor division and modulo of integers: by zero 0, never a trap."""
    x, y = u.src
    kind, a, b, minds = stored(u.dtype), w(x), w(y), signed(u.dtype)

    def number(value: int) -> str:
        return w(const(value, u.dtype, u.shape))

    def put(does: str, *operands: str) -> str:
        return w.let(shaped(kind, u.shape), w.word(does, kind, u.shape, *operands))

    def test(does: str, *operands: str) -> str:
        held = shaped(kind, u.shape) if u.shape else "_Bool"
        return w.let(held, w.word(does, kind, u.shape, *operands))

    def both(does: str, p: str, q: str) -> str:
        held = shaped(kind, u.shape) if u.shape else "_Bool"
        return w.let(held, w.word(does, kind if u.shape else "u32", u.shape, p, q))

    safe = y.op is Op.CONST and y.arg.bits != 0 and (not minds or y.arg.value > 0)
    divisor = b
    if not safe:
        odd = zero = test("eq", b, number(0))
        if minds:  # x // -1 overflows for the smallest x: it is -x, which wraps around
            minus = test("eq", b, number(-1))
            odd = both("or", zero, minus)
        divisor = put("select", odd, number(1), b)
    quotient = put("sdiv" if minds else "div", a, divisor)
    rest = ""
    if minds or u.op is Op.MOD:
        rest = put("sub", a, put("mul", quotient, divisor))
    if minds:  # truncated -> floored
        unlike = test("slt", put("xor", rest, divisor), number(0))
        wrong = both("and", unlike, test("ne", rest, number(0)))
        if u.op is Op.MOD:
            rest = put("select", wrong, put("add", rest, divisor), rest)
        else:
            quotient = put("select", wrong, put("sub", quotient, number(1)), quotient)
    if safe:
        w.names[u] = rest if u.op is Op.MOD else quotient
    elif u.op is Op.MOD:
        w.names[u] = put("select", odd, number(0), rest)
    else:
        if minds:
            quotient = put("select", minus, put("neg", a), quotient)
        w.names[u] = put("select", zero, number(0), quotient)


def bitcast(w: Writer, u: UOp) -> None:
    """The same bits as another type."""
    a, b = stored(u.src[0].dtype), stored(u.dtype)
    x = w(u.src[0])
    w.put(u, x if a == b else f"bits_{a}_{shaped(b, u.shape)}({x})")


def cast(w: Writer, u: UOp) -> None:
    """The same number as another type."""
    source = u.src[0]
    a, b, shape = source.dtype, u.dtype, u.shape
    if b == BOOL:
        zero = w(const(0, a, shape))
        value = w.word("ne", stored(a), shape, w(source), zero)
        if shape:
            w.put_mask(u, int(stored(a)[1:]), value)
        else:
            w.put(u, value)
    elif a == BOOL:
        _from_bool(w, u)
    elif b in HALVES or a in HALVES:
        _half_cast(w, u)
    elif a in FLOATS and b not in FLOATS:
        _to_integer(w, u)
    else:
        from_, to = (("s" + stored(d)[1:] if signed(d) else stored(d)) for d in (a, b))
        if from_[0] != "f" and to[0] != "f":
            to = stored(b)
        w.put(u, w(source) if from_ == to else w.convert(from_, to, shape, w(source)))


HALVES = {FLOAT16: ("half", "unhalf"), BFLOAT16: ("brain", "unbrain")}
"""The words that round a float to these dtypes, and that widen them."""


def _half_cast(w: Writer, u: UOp) -> None:
    source, shape = u.src[0], u.shape
    assert FLOAT32 in (source.dtype, u.dtype), "decompose goes through float32"
    if u.dtype == FLOAT32:
        wide = w.convert("u16", "u32", shape, w(source))
        w.put(u, f"{HALVES[source.dtype][1]}_{shaped('u32', shape)}({wide})")
    else:
        narrow = f"{HALVES[u.dtype][0]}_{shaped('f32', shape)}({w(source)})"
        w.put(u, w.convert("u32", "u16", shape, narrow))


def _from_bool(w: Writer, u: UOp) -> None:
    source, kind = u.src[0], stored(u.dtype)
    if not u.shape:
        w.put(u, w(source))
        return
    one = w(const(1, u.dtype, u.shape))
    zero = w(const(0, u.dtype, u.shape))
    w.put(u, w.word("select", kind, u.shape, w.mask(source, int(kind[1:])), one, zero))


def _to_integer(w: Writer, u: UOp) -> None:
    """Truncate and saturate, NaN to 0."""
    source, shape = u.src[0], u.shape
    info, largest = np.iinfo(u.dtype), float(np.finfo(source.dtype).max)
    kind, to = stored(source.dtype), stored(u.dtype)
    x = w(source)

    def number(value: float) -> str:
        return w(const(value, source.dtype, shape))

    def test(does: str, p: str, q: str) -> str:
        held = f"u{kind[1:]}x{shape[0]}" if shape else "_Bool"
        return w.let(held, w.word(does, kind, shape, p, q))

    over = 2.0 ** int(info.max).bit_length()
    above = test("le", number(over if over <= largest else np.inf), x)
    under = float(info.min) if float(info.min) >= -largest else -np.inf
    below = test("le", x, number(under))
    inside = test("eq", x, x)
    mask = f"u{kind[1:]}"
    for outside in (above, below):
        if shape:
            held = f"{mask}x{shape[0]}"
            flipped = w.let(held, w.word("not", mask, shape, outside))
            inside = w.let(held, w.word("and", mask, shape, inside, flipped))
        else:
            inside = w.let("_Bool", f"{inside} && !{outside}")
    tame = w.let(shaped(kind, shape), w.word("select", kind, shape, inside, x, number(0.0)))
    kind_of = f"s{to[1:]}" if signed(u.dtype) else to
    found = w.let(shaped(to, shape), w.convert(kind, kind_of, shape, tame))
    for outside, limit in ((above, info.max), (below, info.min)):
        if shape and mask != f"u{to[1:]}":
            outside = f"mask_{mask}_u{to[1:]}x{shape[0]}({outside})"
        value = w(const(int(limit), u.dtype, shape))
        found = w.let(shaped(to, shape), w.word("select", to, shape, outside, value, found))
    w.names[u] = found
