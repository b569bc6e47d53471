"""Values as C: arithmetic, comparisons, selects, casts and reductions of lanes."""

from __future__ import annotations

import numpy as np

from tfn.dtypes import BOOL, FLOAT16, FLOAT32, FLOATS, DType
from tfn.lower.codegen.render.c.names import shaped, stored
from tfn.lower.codegen.render.c.writer import CWriter, constant_prefix, signed
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp, const

# fmt: off
WORD: dict[Op, str] = {
    Op.ADD: "add", Op.SUB: "sub", Op.MUL: "mul", Op.DIV: "div", Op.AND: "and", Op.OR: "or",
    Op.XOR: "xor", Op.SHL: "shl", Op.SHR: "shr", Op.LT: "lt", Op.LE: "le", Op.EQ: "eq",
    Op.NE: "ne", Op.FLOOR: "floor", Op.CEIL: "ceil", Op.ROUND: "round", Op.SQRT: "sqrt",
    Op.ABS: "abs", Op.FMA: "fma",
}
"""The operation of the word for each op."""
# fmt: on


def splat(w: CWriter, u: UOp) -> None:
    """A scalar in every lane; a mask is made where it is used, in the width of its user."""
    if u.dtype != BOOL:
        w.put(u, f"splat_{shaped(stored(u.dtype), u.shape)}({w(u.src[0])})")


def shuffle(w: CWriter, u: UOp) -> None:
    """Lanes picked from two vectors."""
    a, b = u.src
    order = ", ".join(map(str, u.arg))
    if u.dtype == BOOL:
        width = w.width(a, b)
        name = f"shuffle_u{width}x{u.shape[0]}"
        w.put_mask(u, width, f"{name}({w.mask(a, width)}, {w.mask(b, width)}, {order})")
    else:
        w.put(u, f"shuffle_{shaped(stored(u.dtype), u.shape)}({w(a)}, {w(b)}, {order})")


def across(w: CWriter, u: UOp) -> None:
    """A reduction of lanes as a tree: the upper half is combined with the lower, down to one."""
    value, is_mask = u.src[0], u.dtype == BOOL
    lanes, kind = value.shape[0], "u8" if is_mask else stored(u.dtype)
    operation = {Op.MAX: "or", Op.MIN: "and"}[u.arg] if is_mask else ""
    name = w.mask(value, 8) if is_mask else w(value)
    if lanes == 1:
        name = f"low_{kind}x1({name})"
    while lanes > 1:
        whole, half = f"{kind}x{lanes}", lanes // 2
        shape = (half,) if half > 1 else ()
        part = shaped(kind, shape)
        low, high = (w.let(part, f"{side}_{whole}({name})") for side in ("low", "high"))
        if operation:
            name = w.let(part, w.word(operation, kind, shape, low, high))
        else:
            name = w.let(part, _binary(w, u.arg, u.dtype, shape, low, high))
        lanes = half
    w.put(u, f"{name} != 0" if is_mask else name)


def _binary(w: CWriter, op: Op, dtype: DType, shape: Shape, a: str, b: str) -> str:
    """A binary operation on values that are not bool."""
    kind = stored(dtype)
    if op in (Op.MAX, Op.MIN):
        if dtype in FLOATS:
            return f"{op.value}_{shaped(kind, shape)}({a}, {b})"
        less = w.word("slt" if signed(dtype) else "lt", kind, shape, a, b)
        less = w.let(shaped(kind, shape) if shape else "_Bool", less)
        small, large = (a, b) if op is Op.MIN else (b, a)
        return w.word("select", kind, shape, less, small, large)
    operation = "sar" if op is Op.SHR and signed(dtype) else WORD[op]
    return w.word(operation, kind, shape, a, b)


def arithmetic(w: CWriter, u: UOp) -> None:
    """A binary operation."""
    a, b = u.src
    if u.dtype == BOOL:
        _boolean(w, u)
    elif u.op in (Op.MAX, Op.MIN) and u.dtype in FLOATS and _bounds_by_one_comparison(u.op, b):
        _max_with_constant(w, u)
    else:
        w.put(u, _binary(w, u.op, u.dtype, u.shape, w(a), w(b)))


def _bounds_by_one_comparison(op: Op, u: UOp) -> bool:
    """Whether max or min with a constant is one comparison: not with NaN or the weaker zero."""
    if u.op is not Op.CONST or np.isnan(float(u.arg.value)):
        return False
    weaker_zero = bool(np.signbit(float(u.arg.value))) == (op is Op.MAX)
    return float(u.arg.value) != 0.0 or not weaker_zero


def _max_with_constant(w: CWriter, u: UOp) -> None:
    """Max or min with a constant, by one comparison that is false for NaN."""
    a, b = u.src
    kind = stored(u.dtype)
    x, y = (w(a), w(b)) if u.op is Op.MAX else (w(b), w(a))
    test = w.word("le", kind, u.shape, x, y)  # or equal: the constant 0.0 replaces -0.0
    kind_of_mask = f"u{kind[1:]}x{u.shape[0]}" if u.shape else "_Bool"
    w.put(u, w.word("select", kind, u.shape, w.let(kind_of_mask, test), w(b), w(a)))


def dot_pairs(w: CWriter, u: UOp) -> None:
    """Dot products of neighbours, added to a sum."""
    kind = f"{stored(u.src[1].dtype)}_{shaped(stored(u.dtype), u.shape)}"
    w.put(u, f"pairs_{kind}({', '.join(map(w, u.src))})")


def _boolean(w: CWriter, u: UOp) -> None:
    """AND, OR, XOR, MAX, MIN and comparisons of bools."""
    a, b = u.src
    operation = {Op.MAX: "or", Op.MIN: "and"}.get(u.op) or WORD[u.op]
    if u.shape:
        width = w.width(a, b)
        masks = w.mask(a, width), w.mask(b, width)
        w.put_mask(u, width, w.word(operation, f"u{width}", u.shape, *masks))
    else:
        w.put(u, w.word(operation, "u32", (), w(a), w(b)))


def compare(w: CWriter, u: UOp) -> None:
    """A comparison of two operands."""
    a, b = u.src
    if constant_prefix(u) is not None:
        return  # a mask of first lanes is made where it is used, in the width of its user
    if a.dtype == BOOL:
        _boolean(w, u)
        return
    operation, kind = WORD[u.op], stored(a.dtype)
    if signed(a.dtype) and u.op in (Op.LT, Op.LE):
        operation = "s" + operation
    value = w.word(operation, kind, u.shape, w(a), w(b))
    if u.shape:
        w.put_mask(u, int(kind[1:]), value)
    else:
        w.put(u, value)


def call(w: CWriter, u: UOp) -> None:
    """Functions that C has no operator for."""
    kind = shaped(stored(u.dtype), u.shape)
    name = WORD[u.op]
    if u.op is Op.ABS and u.dtype not in FLOATS:
        if not signed(u.dtype):
            w.put(u, w(u.src[0]))
            return
        name = "sabs"
    w.put(u, f"{name}_{kind}({', '.join(map(w, u.src))})")


def quotient(w: CWriter, u: UOp) -> None:
    """A quotient of integers: of scalars a word, which not all processors have an operator for."""
    if u.shape:
        operation = "sdiv" if signed(u.dtype) else "div"
        w.put(u, w.word(operation, stored(u.dtype), u.shape, *map(w, u.src)))
        return
    from_, bits = stored(u.dtype), max(8 * u.dtype.itemsize, 32)
    kind = f"{'s' if signed(u.dtype) else 'u'}{bits}"
    a, b = (f"({kind[0]}{from_[1:]}){w(s)}" for s in u.src)
    w.put(u, f"({from_})quotient_{kind}({a}, {b})")


def negate(w: CWriter, u: UOp) -> None:
    """Negation."""
    w.put(u, w.word("neg", stored(u.dtype), u.shape, w(u.src[0])))


def bitwise_not(w: CWriter, u: UOp) -> None:
    """Bitwise NOT; of a bool logical."""
    x = u.src[0]
    if u.dtype != BOOL:
        w.put(u, w.word("not", stored(u.dtype), u.shape, w(x)))
    elif u.shape:
        width = w.width(x)
        w.put_mask(u, width, w.word("not", f"u{width}", u.shape, w.mask(x, width)))
    else:
        w.put(u, f"!{w(x)}")


def select(w: CWriter, u: UOp) -> None:
    """One of two values, selected by a condition."""
    condition, x, y = u.src
    if u.dtype == BOOL and u.shape:
        width = w.width(*u.src)
        masks = (w.mask(s, width) for s in u.src)
        w.put_mask(u, width, w.word("select", f"u{width}", u.shape, *masks))
        return
    kind = stored(u.dtype)
    test = w.mask(condition, int(kind[1:])) if u.shape else w(condition)
    w.put(u, w.word("select", kind, u.shape, test, w(x), w(y)))


def bitcast(w: CWriter, u: UOp) -> None:
    """The same bits as another type."""
    a, b = stored(u.src[0].dtype), stored(u.dtype)
    x = w(u.src[0])
    w.put(u, x if a == b else f"bits_{a}_{shaped(b, u.shape)}({x})")


def cast(w: CWriter, u: UOp) -> None:
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
    elif FLOAT16 in (a, b):
        _half_cast(w, u)
    elif a in FLOATS and b not in FLOATS:
        _to_integer(w, u)
    else:
        from_, to = (("s" + stored(d)[1:] if signed(d) else stored(d)) for d in (a, b))
        if from_[0] != "f" and to[0] != "f":
            to = stored(b)
        w.put(u, w(source) if from_ == to else w.convert(from_, to, shape, w(source)))


def _half_cast(w: CWriter, u: UOp) -> None:
    source, shape = u.src[0], u.shape
    assert FLOAT32 in (source.dtype, u.dtype), "decompose goes through float32"
    if u.dtype == FLOAT32:
        wide = w.convert("u16", "u32", shape, w(source))
        w.put(u, f"unhalf_{shaped('u32', shape)}({wide})")
    else:
        narrow = f"half_{shaped('f32', shape)}({w(source)})"
        w.put(u, w.convert("u32", "u16", shape, narrow))


def _from_bool(w: CWriter, u: UOp) -> None:
    source, kind = u.src[0], stored(u.dtype)
    if not u.shape:
        w.put(u, w(source))
        return
    one = w(const(1, u.dtype, u.shape))
    zero = w(const(0, u.dtype, u.shape))
    w.put(u, w.word("select", kind, u.shape, w.mask(source, int(kind[1:])), one, zero))


def _to_integer(w: CWriter, u: UOp) -> None:
    """Truncate and saturate, NaN to 0."""
    source, shape = u.src[0], u.shape
    info, largest = np.iinfo(u.dtype), float(np.finfo(source.dtype).max)
    kind, to = stored(source.dtype), stored(u.dtype)
    x = w(source)

    def number(value: float) -> str:
        return w(const(value, source.dtype, shape))

    def test(operation: str, p: str, q: str) -> str:
        kind_of_mask = f"u{kind[1:]}x{shape[0]}" if shape else "_Bool"
        return w.let(kind_of_mask, w.word(operation, kind, shape, p, q))

    over = 2.0 ** int(info.max).bit_length()
    above = test("le", number(over if over <= largest else np.inf), x)
    under = float(info.min) if float(info.min) >= -largest else -np.inf
    below = test("le", x, number(under))
    inside = test("eq", x, x)
    mask = f"u{kind[1:]}"
    for outside in (above, below):
        if shape:
            kind_of_mask = f"{mask}x{shape[0]}"
            flipped = w.let(kind_of_mask, w.word("not", mask, shape, outside))
            inside = w.let(kind_of_mask, w.word("and", mask, shape, inside, flipped))
        else:
            inside = w.let("_Bool", f"{inside} && !{outside}")
    # Conversions of numbers out of range are undefined: those are replaced, and selected after.
    safe = w.let(shaped(kind, shape), w.word("select", kind, shape, inside, x, number(0.0)))
    kind_of = f"s{to[1:]}" if signed(u.dtype) else to
    integer = w.let(shaped(to, shape), w.convert(kind, kind_of, shape, safe))
    for outside, limit in ((above, info.max), (below, info.min)):
        if shape and mask != f"u{to[1:]}":
            outside = f"mask_{mask}_u{to[1:]}x{shape[0]}({outside})"
        value = w(const(int(limit), u.dtype, shape))
        integer = w.let(shaped(to, shape), w.word("select", to, shape, outside, value, integer))
    w.names[u] = integer
