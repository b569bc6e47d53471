"""Rules of operations on one element at a time, and of constants.

Floats of 16 and 8 bits that onnxruntime has no kernels for are computed in float32 and rounded
after each operation, as tfn does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfn.dtypes import BOOL, FLOAT32, FLOAT64, FLOATS, INT32, INT64, INTEGERS
from tfn.onnx.builder import NUMBERS, Body, Builder, Name, Row, Rule, Term, Terms, Value
from tfn.onnx.insides import ROTATIONS, Op, UOp, simpler

Dtype = np.dtype[Any]
NARROW = FLOATS - {FLOAT32, FLOAT64, np.dtype(np.float16)}
INT16S = frozenset(map(np.dtype, ("int16", "uint16")))
UINT64 = np.dtype(np.uint64)
BITCAST_OPSET = 26


def spread(b: Builder, sources: Sequence[UOp]) -> tuple[int, ...]:
    """The shape of an elementwise result of operands as they are."""
    return np.broadcast_shapes(*(b.term(s).shape for s in sources))


def _const(b: Builder, u: UOp) -> Term:
    value = u.arg.value
    return Term(b.constant(np.asarray(value, u.dtype).reshape(())), ())


def _iota(b: Builder, u: UOp) -> Term:
    zero, one = b.number(0, INT64), b.number(1, INT64)
    counted = b.add("Range", zero, b.number(u.arg.size, INT64), one)
    return Term(counted if u.dtype == INT64 else b.cast(counted, u.dtype), u.shape)


def simple(op: str) -> Callable[[Builder, UOp], Term]:
    """The rule of an operation that ONNX has too."""

    def rule(b: Builder, u: UOp) -> Term:
        names = [b.term(s).name for s in u.src]
        dtype = u.src[0].dtype
        if dtype in NARROW:
            names = [b.cast(n, FLOAT32) for n in names]
        out = b.add(op, *names)
        narrow = dtype in NARROW and u.dtype == dtype
        return Term(b.cast(out, u.dtype) if narrow else out, spread(b, u.src))

    return rule


def _decomposed(b: Builder, u: UOp) -> Terms:
    return b.value(simpler(u))


def _logical(boolean: str, bits: str) -> Rule:
    return lambda b, u: simple(boolean if u.dtype == BOOL else bits)(b, u)


def _extreme(op: str, boolean: str) -> Rule:
    def rule(b: Builder, u: UOp) -> Term:
        if u.dtype == BOOL:
            return simple(boolean)(b, u)
        if u.dtype in INT16S:
            names = [b.cast(b.term(s).name, INT32) for s in u.src]
            return Term(b.cast(b.add(op, *names), u.dtype), spread(b, u.src))
        return simple(op)(b, u)

    return rule


def _order(op: str) -> Rule:
    """A comparison; False is less than True."""

    def rule(b: Builder, u: UOp) -> Term:
        if u.src[0].dtype != BOOL:
            return simple(op)(b, u)
        x, y = (b.term(s).name for s in u.src)
        x = b.add("Not", x)
        return Term(b.add("And" if op == "Less" else "Or", x, y), spread(b, u.src))

    return rule


def _not_equal(b: Builder, u: UOp) -> Term:
    same = simple("Equal")(b, u)
    return Term(b.add("Not", same.name), same.shape)


def _one(b: Builder, u: UOp) -> tuple[Name, Dtype]:
    """The name of the one operand, and the dtype in which it is computed."""
    name = b.term(u.src[0]).name
    if u.dtype in NARROW:
        return b.cast(name, FLOAT32), FLOAT32
    return name, u.dtype


def _formula(write: Callable[[Builder, Name, Dtype], Name]) -> Rule:
    """The rule of a function of one float by several operations."""

    def rule(b: Builder, u: UOp) -> Term:
        x, dtype = _one(b, u)
        out = write(b, x, dtype)
        return Term(out if dtype == u.dtype else b.cast(out, u.dtype), b.term(u.src[0]).shape)

    return rule


def _rsqrt(b: Builder, x: Name, dtype: Dtype) -> Name:
    return b.add("Div", b.number(1, dtype), b.add("Sqrt", x))


def _exp2(b: Builder, x: Name, dtype: Dtype) -> Name:
    return b.add("Pow", b.number(2, dtype), x)


def _log2(b: Builder, x: Name, dtype: Dtype) -> Name:
    return b.cast(
        b.add("Div", b.add("Log", b.cast(x, FLOAT64)), b.number(np.log(2), FLOAT64)), dtype
    )


def _expm1(b: Builder, x: Name, dtype: Dtype) -> Name:
    """(u - 1) x / log u with u = exp x, which has no error where u is near 1.

    Source: W. Kahan; N. Higham 2002, Accuracy and Stability of Numerical Algorithms, 1.14.1.
    """
    one = b.number(1, dtype)
    u = b.add("Exp", x)
    less = b.add("Sub", u, one)
    near = b.add("Less", b.add("Abs", x), b.number(0.5, dtype))
    ratio = b.add("Div", b.add("Mul", less, x), b.add("Log", u))
    inner = b.add("Where", b.add("Equal", u, one), x, ratio)
    return b.add("Where", near, inner, less)


def _log1p(b: Builder, x: Name, dtype: Dtype) -> Name:
    """x log u / (u - 1) with u = 1 + x, which has no error where u is near 1."""
    one = b.number(1, dtype)
    u = b.add("Add", x, one)
    near = b.add("Less", b.add("Abs", x), b.number(0.5, dtype))
    log = b.add("Log", u)
    ratio = b.add("Div", b.add("Mul", log, x), b.add("Sub", u, one))
    inner = b.add("Where", b.add("Equal", u, one), x, ratio)
    return b.add("Where", near, inner, log)


def _cast(b: Builder, u: UOp) -> Term:
    source = u.src[0]
    x, shape = b.term(source).name, b.term(source).shape
    if source.dtype in FLOATS and u.dtype in INTEGERS:
        return Term(_to_integer(b, x, source.dtype, u.dtype), shape)
    if source.dtype == u.dtype:
        return Term(x, shape)
    return Term(b.cast(x, u.dtype), shape)


def _to_integer(b: Builder, x: Name, dtype: Dtype, to: Dtype) -> Name:
    """Truncated and saturated, with 0 for NaN; a cast of ONNX leaves that open."""
    if dtype not in (FLOAT32, FLOAT64):
        x, dtype = b.cast(x, FLOAT32), FLOAT32
    if to.itemsize == 4 and dtype == FLOAT32:
        x, dtype = b.cast(x, FLOAT64), FLOAT64
    info = np.iinfo(to)
    most = np.asarray(info.max, dtype)
    exact = int(most) == info.max
    below = most if exact else np.nextafter(most, np.zeros((), dtype))
    number = b.add("Where", b.add("IsNaN", x), b.number(0, dtype), x)
    inside = b.add("Min", b.add("Max", number, b.number(info.min, dtype)), b.constant(below))
    if exact:
        return b.cast(inside, to)
    if to == UINT64:  # for which onnxruntime has no Where
        high = b.cast(b.add("GreaterOrEqual", number, b.constant(most)), to)
        rest = b.add("Sub", b.number(info.max, to), b.cast(b.constant(below), to))
        return b.add("Add", b.cast(inside, to), b.add("Mul", high, rest))
    high = b.add("GreaterOrEqual", number, b.constant(most))
    return b.add("Where", high, b.number(info.max, to), b.cast(inside, to))


def _bitcast(b: Builder, u: UOp) -> Term:
    source = b.term(u.src[0])
    if u.dtype.kind in "iu" and u.src[0].dtype.kind in "iu":
        return Term(b.cast(source.name, u.dtype), source.shape)
    made = b.add("BitCast", source.name, opset=BITCAST_OPSET, to=NUMBERS[u.dtype])
    return Term(made, source.shape)


def _where(b: Builder, u: UOp) -> Term:
    condition, x, y = (b.term(s).name for s in u.src)
    return Term(choice(b, condition, x, y, u.dtype), spread(b, u.src))


def choice(b: Builder, condition: Name, x: Name, y: Name, dtype: Dtype) -> Name:
    """Elements of `x` where the condition holds, else of `y`; of any dtype."""
    if dtype == BOOL:
        taken = b.add("And", condition, x)
        return b.add("Or", taken, b.add("And", b.add("Not", condition), y))
    wide = (
        FLOAT32
        if dtype in NARROW
        else INT32
        if dtype in INT16S
        else INT64
        if dtype == UINT64
        else None
    )
    if wide is None:
        return b.add("Where", condition, x, y)
    return b.cast(b.add("Where", condition, b.cast(x, wide), b.cast(y, wide)), dtype)


def _divisor(b: Builder, u: UOp) -> tuple[Name, Name | None]:
    """A divisor that is not 0, and where it was 0, if that can be."""
    y, dtype = u.src[1], u.dtype
    name = b.term(y).name
    if y.op is Op.CONST and int(y.arg.value) != 0:
        return name, None
    zero = b.add("Equal", name, b.number(0, dtype))
    return b.add("Add", name, b.cast(zero, dtype)), zero


def _without(b: Builder, zero: Name | None, out: Name, dtype: Dtype) -> Name:
    return out if zero is None else choice(b, zero, b.number(0, dtype), out, dtype)


def _floor_divide(b: Builder, u: UOp) -> Term:
    """Division of ONNX rounds to 0."""
    x, (y, zero), shape = b.term(u.src[0]).name, _divisor(b, u), spread(b, u.src)
    if u.dtype.kind == "i":
        x = b.add("Sub", x, b.add("Mod", x, y))
    return Term(_without(b, zero, b.add("Div", x, y), u.dtype), shape)


def _mod(b: Builder, u: UOp) -> Term:
    x, y = (b.term(s).name for s in u.src)
    shape = spread(b, u.src)
    if u.dtype in INTEGERS:
        y, zero = _divisor(b, u)
        return Term(_without(b, zero, b.add("Mod", x, y), u.dtype), shape)
    dtype = FLOAT32 if u.dtype in NARROW else u.dtype
    if dtype != u.dtype:
        x, y = b.cast(x, dtype), b.cast(y, dtype)
    rest, none = b.add("Mod", x, y, fmod=1), b.number(0, dtype)
    other = b.add("Xor", b.add("Less", rest, none), b.add("Less", y, none))
    other = b.add("And", other, b.add("Not", b.add("Equal", rest, none)))
    out = b.add("Where", other, b.add("Add", rest, y), rest)
    return Term(out if dtype == u.dtype else b.cast(out, u.dtype), shape)


def _shift(direction: str) -> Rule:
    """A shift, which ONNX has of unsigned numbers and by fewer bits than they have."""

    def rule(b: Builder, u: UOp) -> Term:
        width, dtype = 8 * u.dtype.itemsize, u.dtype
        bits = np.dtype(f"u{dtype.itemsize}")
        (x, n), shape = (b.term(s).name for s in u.src), spread(b, u.src)
        down = direction == "RIGHT" and dtype.kind == "i"
        negative = b.add("Less", x, b.number(0, dtype)) if down else ""
        if down:  # the complement of a negative number has its bits from above cleared
            x = choice(b, negative, b.add("BitwiseNot", x), x, dtype)
        words = b.cast(x, bits) if dtype != bits else x
        count = b.cast(n, bits) if dtype != bits else n
        known = u.src[1].op is Op.CONST and 0 <= int(u.src[1].arg.value) < width
        if known:
            out = b.add("BitShift", words, count, direction=direction)
        else:
            inside = b.add("Less", count, b.number(width, bits))
            held = b.add("BitwiseAnd", count, b.number(width - 1, bits))
            out = b.add("BitShift", words, held, direction=direction)
            out = b.add("Mul", out, b.cast(inside, bits))
        out = b.cast(out, dtype) if dtype != bits else out
        if down:
            out = choice(b, negative, b.add("BitwiseNot", out), out, dtype)
        return Term(out, shape)

    return rule


def _fma(b: Builder, u: UOp) -> Term:
    """In float64, where the product of two float32 is exact."""
    x, y, z = (b.cast(b.term(s).name, FLOAT64) for s in u.src)
    return Term(b.cast(b.add("Add", b.add("Mul", x, y), z), u.dtype), spread(b, u.src))


def _ldexp(b: Builder, u: UOp) -> Term:
    """By two powers of 2, neither of which overflows where the result does not."""
    x, n = (b.cast(b.term(s).name, FLOAT64) for s in u.src)
    two, half = b.number(2, FLOAT64), b.number(0.5, FLOAT64)
    first = b.add("Floor", b.add("Mul", n, half))
    scaled = b.add("Mul", x, b.add("Pow", two, first))
    out = b.add("Mul", scaled, b.add("Pow", two, b.add("Sub", n, first)))
    return Term(b.cast(out, u.dtype), spread(b, u.src))


def _negative(b: Builder, x: Name, dtype: Dtype) -> Name:
    """Whether numbers are negative; of the zeros -0.0 is, whose reciprocal is -inf."""
    none = b.number(0, dtype)
    over = b.add("Div", b.number(1, dtype), x)
    either = b.add("Or", b.add("Less", x, none), b.add("Less", over, none))
    return b.add("And", either, b.add("LessOrEqual", x, none))


def _atan2(b: Builder, u: UOp) -> Term:
    """By the quotient, and the quadrant: pi or -pi is added where x is negative."""
    dtype = FLOAT32 if u.dtype in NARROW else u.dtype
    y, x = (b.term(s).name for s in u.src)
    if dtype != u.dtype:
        y, x = b.cast(y, dtype), b.cast(x, dtype)
    none = b.number(0, dtype)
    ends = b.add("And", b.add("IsInf", x), b.add("IsInf", y))  # both infinite: as both 1
    y = b.add("Where", ends, b.add("Sign", y), y)
    x = b.add("Where", ends, b.add("Sign", x), x)
    origin = b.add("And", b.add("Equal", x, none), b.add("Equal", y, none))
    left, below = _negative(b, x, dtype), _negative(b, y, dtype)
    quotient = b.add("Where", origin, y, b.add("Div", y, x))
    angle = b.add("Atan", quotient)
    turn = b.add("Where", below, b.number(-np.pi, dtype), b.number(np.pi, dtype))
    turned = b.add("Add", b.add("Where", origin, none, angle), turn)
    out = b.add("Where", left, turned, angle)
    return Term(out if dtype == u.dtype else b.cast(out, u.dtype), spread(b, u.src))


THREEFRY = "threefry2x32"


def _threefry(b: Builder, u: UOp) -> Term:
    """A word of a function of the file, which has both."""
    if THREEFRY not in b.shared.functions:
        b.shared.functions[THREEFRY] = _threefry_body()
    words = [b.term(s).name for s in u.src]
    return Term(b.many(THREEFRY, words, 2)[u.arg], spread(b, u.src))


def _threefry_body() -> Body:
    """Twenty rounds of Threefry-2x32 of words of 32 bits.

    Source: Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3".
    """
    rows: list[Row] = []
    uint32 = np.dtype(np.uint32)

    def add(op: str, *inputs: str, **attributes: object) -> str:
        rows.append(Row(op, list(inputs), [f"{op.lower()}_{len(rows)}"], dict(attributes)))
        return rows[-1].outputs[0]

    def word(value: int) -> str:
        return add("Constant", value=np.asarray(value, np.uint32))

    keys = ["k0", "k1", add("BitwiseXor", add("BitwiseXor", "k0", "k1"), word(0x1BD11BDA))]
    x0, x1 = add("Add", "x0", keys[0]), add("Add", "x1", keys[1])
    for block in range(5):
        for turn in ROTATIONS[block % 2]:
            x0 = add("Add", x0, x1)
            high = add("BitShift", x1, word(turn), direction="LEFT")
            low = add("BitShift", x1, word(32 - turn), direction="RIGHT")
            x1 = add("BitwiseXor", add("BitwiseOr", high, low), x0)
        x0 = add("Add", x0, keys[(block + 1) % 3])
        x1 = add("Add", add("Add", x1, keys[(block + 2) % 3]), word(block + 1))
    inputs = [Value(name, uint32, ()) for name in ("k0", "k1", "x0", "x1")]
    return Body(rows, inputs, [Value(x0, uint32, ()), Value(x1, uint32, ())])


def _alias(b: Builder, u: UOp) -> Term:
    return b.term(u.src[0])


# fmt: off
RULES: dict[Op, Rule] = {
    Op.CONST: _const, Op.IOTA: _iota,
    **{op: simple(name) for op, name in {
        Op.NEG: "Neg", Op.ABS: "Abs", Op.SIGN: "Sign", Op.FLOOR: "Floor", Op.CEIL: "Ceil",
        Op.ROUND: "Round", Op.EXP: "Exp", Op.LOG: "Log", Op.SIN: "Sin", Op.COS: "Cos",
        Op.TAN: "Tan", Op.ASIN: "Asin", Op.ACOS: "Acos", Op.ATAN: "Atan", Op.SINH: "Sinh",
        Op.COSH: "Cosh", Op.TANH: "Tanh", Op.ASINH: "Asinh", Op.ACOSH: "Acosh",
        Op.ATANH: "Atanh", Op.LOGISTIC: "Sigmoid", Op.SQRT: "Sqrt", Op.ERF: "Erf",
        Op.ADD: "Add", Op.SUB: "Sub", Op.MUL: "Mul", Op.DIV: "Div", Op.POW: "Pow",
        Op.EQ: "Equal",
    }.items()},
    **dict.fromkeys((Op.CBRT, Op.ERFC, Op.ERFINV, Op.LGAMMA, Op.DIGAMMA), _decomposed),
    Op.LT: _order("Less"), Op.LE: _order("LessOrEqual"),
    Op.NE: _not_equal, Op.NOT: _logical("Not", "BitwiseNot"),
    Op.AND: _logical("And", "BitwiseAnd"), Op.OR: _logical("Or", "BitwiseOr"),
    Op.XOR: _logical("Xor", "BitwiseXor"),
    Op.MAX: _extreme("Max", "Or"), Op.MIN: _extreme("Min", "And"),
    Op.RSQRT: _formula(_rsqrt), Op.EXP2: _formula(_exp2), Op.LOG2: _formula(_log2),
    Op.EXPM1: _formula(_expm1), Op.LOG1P: _formula(_log1p), Op.ATAN2: _atan2,
    Op.FMA: _fma, Op.LDEXP: _ldexp, Op.CAST: _cast, Op.BITCAST: _bitcast, Op.WHERE: _where,
    Op.FLOORDIV: _floor_divide, Op.MOD: _mod, Op.SHL: _shift("LEFT"), Op.SHR: _shift("RIGHT"),
    Op.THREEFRY: _threefry,
    Op.DETACH: _alias, Op.AFTER: _alias, Op.GBARRIER: _alias, Op.CONSTRAIN: _alias,
}
# fmt: on
