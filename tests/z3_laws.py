"""Laws given to z3: both sides over their sort, and no values that tell them apart.

Z for INDEX, bit vectors of both signs for INT, IEEE floats for FLOAT.  The translation follows
`tfn.trace.oracle`: division floors, and by zero gives zero; max and min propagate NaN.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import z3

from tfn.dtypes import BOOL
from tfn.trace.build import eq
from tfn.trace.op import Op
from tfn.trace.pattern import BITS, FLOAT, INDEX, INT, Law, hole
from tfn.trace.uop import UOp, walk

TIMEOUTS_MS = (500, 500, 500, 10_000)


@dataclass(frozen=True)
class Model:
    """What a sort means to z3.

    Attributes:
        name: for test ids.
        variable: makes a hole.
        literal: makes a constant.
        meaning: what each op does.
    """

    name: str
    variable: Callable[[str], Any]
    literal: Callable[[Any], Any]
    meaning: dict[Op, Callable[..., Any]]


def _logic() -> dict[Op, Callable[..., Any]]:
    return {
        Op.AND: z3.And,
        Op.OR: z3.Or,
        Op.XOR: z3.Xor,
        Op.NOT: z3.Not,
        Op.MAX: z3.Or,
        Op.MIN: z3.And,
        Op.EQ: lambda x, y: x == y,
        Op.NE: lambda x, y: x != y,
        Op.LT: lambda x, y: z3.And(z3.Not(x), y),
        Op.LE: z3.Implies,
    }


class Divisions:
    """Division in Z as z3 decides it best: by a quotient and a remainder that it has to find.

    Attributes:
        assumed: what is known of the terms; it often says that a divisor is positive.
    """

    def __init__(self) -> None:
        self.assumed: list[Any] = []
        self.found: dict[Any, tuple[Any, Any]] = {}

    def __call__(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Quotient and remainder of terms."""
        key = x.get_id(), y.get_id()
        if key not in self.found:
            number = len(self.found)
            q, r = z3.Int(f"quotient{number}"), z3.Int(f"remainder{number}")
            self.found[key] = q, r
            above = [x == y * q + r, r >= 0, r < y]
            if self.positive(y):
                self.assumed += above
            else:
                below = [x == y * q + r, y < r, r <= 0]
                zero = z3.And(q == 0, r == 0)
                self.assumed.append(
                    z3.If(y > 0, z3.And(*above), z3.If(y < 0, z3.And(*below), zero))
                )
        return self.found[key]

    def positive(self, y: Any) -> bool:
        """Whether a divisor is known to be positive."""
        solver = z3.Solver()
        solver.set("timeout", 100)
        solver.add(*self.assumed, y <= 0)
        return bool(solver.check() == z3.unsat)


_ORDER: dict[Op, Callable[..., Any]] = {
    Op.NEG: lambda x: -x,
    Op.ADD: lambda x, y: x + y,
    Op.SUB: lambda x, y: x - y,
    Op.MUL: lambda x, y: x * y,
    Op.EQ: lambda x, y: x == y,
    Op.NE: lambda x, y: x != y,
}
_Z = Model(
    "Z",
    z3.Int,
    lambda v: z3.IntVal(int(v)),
    {
        **_ORDER,
        Op.LT: lambda x, y: x < y,
        Op.LE: lambda x, y: x <= y,
        Op.MAX: lambda x, y: z3.If(x >= y, x, y),
        Op.MIN: lambda x, y: z3.If(x <= y, x, y),
    },
)


def _bits(width: int, signed: bool) -> Model:
    less = (lambda x, y: x < y) if signed else z3.ULT
    at_most = (lambda x, y: x <= y) if signed else z3.ULE
    zero = z3.BitVecVal(0, width)

    def divide(x: Any, y: Any) -> Any:
        if not signed:
            return z3.If(y == 0, zero, z3.UDiv(x, y))
        inexact = z3.And(z3.SRem(x, y) != 0, (x < 0) != (y < 0))
        return z3.If(y == 0, zero, z3.If(inexact, x / y - 1, x / y))

    def modulo(x: Any, y: Any) -> Any:
        return z3.If(y == 0, zero, x % y if signed else z3.URem(x, y))

    def shift(how: Callable[..., Any], far: Callable[[Any], Any]) -> Callable[..., Any]:
        return lambda x, n: z3.If(z3.ULT(n, width), how(x, n), far(x))

    right = (lambda x, n: x >> n) if signed else z3.LShR
    sign = (lambda x: z3.If(x < 0, zero - 1, zero)) if signed else (lambda x: zero)
    meaning = {
        **_ORDER,
        Op.FLOORDIV: divide,
        Op.MOD: modulo,
        Op.LT: less,
        Op.LE: at_most,
        Op.MAX: lambda x, y: z3.If(less(x, y), y, x),
        Op.MIN: lambda x, y: z3.If(less(y, x), y, x),
        Op.AND: lambda x, y: x & y,
        Op.OR: lambda x, y: x | y,
        Op.XOR: lambda x, y: x ^ y,
        Op.NOT: lambda x: ~x,
        Op.SHL: shift(lambda x, n: x << n, lambda x: zero),
        Op.SHR: shift(right, sign),
    }
    name = f"{'i' if signed else 'u'}{width}"
    return Model(
        name, lambda n: z3.BitVec(n, width), lambda v: z3.BitVecVal(int(v), width), meaning
    )


def _floats(name: str, sort: Any) -> Model:
    mode = z3.RNE()

    def pick(less: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x, y: z3.If(
            z3.fpIsNaN(x), x, z3.If(z3.fpIsNaN(y), y, z3.If(less(x, y), y, x))
        )

    meaning = {
        Op.NEG: z3.fpNeg,
        Op.ABS: z3.fpAbs,
        Op.ADD: lambda x, y: z3.fpAdd(mode, x, y),
        Op.SUB: lambda x, y: z3.fpSub(mode, x, y),
        Op.MUL: lambda x, y: z3.fpMul(mode, x, y),
        Op.DIV: lambda x, y: z3.fpDiv(mode, x, y),
        Op.LT: z3.fpLT,
        Op.LE: z3.fpLEQ,
        Op.EQ: z3.fpEQ,
        Op.NE: lambda x, y: z3.Not(z3.fpEQ(x, y)),
        Op.MAX: pick(z3.fpLT),
        Op.MIN: pick(z3.fpGT),
    }
    return Model(name, lambda n: z3.FP(n, sort), lambda v: z3.FPVal(float(v), sort), meaning)


_BITS = Model("bool", z3.Bool, lambda v: z3.BoolVal(bool(v)), {})
_SIGNED = (_bits(8, True), _bits(32, True), _bits(64, True))
_UNSIGNED = (_bits(8, False), _bits(32, False))
MODELS: dict[str, tuple[Model, ...]] = {
    INDEX.name: (_Z,),
    INT.name: _SIGNED + _UNSIGNED,
    BITS.name: (_BITS,),
    FLOAT.name: (
        _floats("f16", z3.FPSort(5, 11)),
        _floats("bf16", z3.FPSort(8, 8)),
        _floats("f32", z3.FPSort(8, 24)),
    ),
}


def translate(root: UOp, law: Law, model: Model, divided: Divisions) -> Any:
    """A side of a law as a z3 term."""
    terms: dict[UOp, Any] = {}
    logic = _logic()
    for node in walk([root]):
        of_sort = node.dtype == law.over.dtype and law.over is not BITS
        if node.op is Op.LEAF:
            terms[node] = (model.variable if of_sort else z3.Bool)(node.arg.name)
        elif node.op is Op.CONST:
            literal = model.literal if of_sort else _BITS.literal
            terms[node] = literal(node.arg.value)
        elif model is _Z and node.op in (Op.FLOORDIV, Op.MOD):
            quotient, remainder = divided(*(terms[s] for s in node.src))
            terms[node] = quotient if node.op is Op.FLOORDIV else remainder
        elif node.op is Op.WHERE:
            terms[node] = z3.If(*(terms[s] for s in node.src))
        else:
            table = logic if node.src[0].dtype == BOOL else model.meaning
            terms[node] = table[node.op](*(terms[s] for s in node.src))
    return terms[root]


def conjuncts(condition: UOp | None) -> list[UOp]:
    """The parts of a condition, from the left."""
    if condition is None:
        return []
    if condition.op is Op.AND:
        return [*conjuncts(condition.src[0]), *conjuncts(condition.src[1])]
    return [condition]


x = hole("x", INDEX)
c, d = hole("c", INDEX, constant=True), hole("d", INDEX, constant=True)
_WHOLE = eq(x // d, (c // d) * (x // c) + (x % c) // d)
LEMMAS = {
    "mod-mod": (_WHOLE,),
    "mod-div": (c // d > 0, _WHOLE, (x % c) // d >= 0, (x % c) // d < c // d),
}
"""Steps on the way to a law, each proved before it is used."""


def counterexample(law: Law, model: Model) -> str | None:
    """Values of the holes at which the sides differ, None if z3 proves that there are none.

    Raises:
        TimeoutError: if z3 cannot tell in time.
    """
    divided = Divisions()
    for condition in conjuncts(law.where):
        divided.assumed.append(translate(condition, law, model, divided))
    for lemma in LEMMAS.get(law.name, ()):
        step = translate(lemma, law, model, divided)
        assert _difference(law, model, divided.assumed, z3.Not(step)) is None
        divided.assumed.append(step)
    left, right = (translate(side, law, model, divided) for side in (law.lhs, law.rhs))
    return _difference(law, model, divided.assumed, left != right)


def _difference(law: Law, model: Model, assumed: list[Any], claim: Any) -> str | None:
    claims = [*assumed, claim]
    for seed, timeout in enumerate(TIMEOUTS_MS):  # luck matters to products of variables
        solver = z3.Solver()
        solver.set("timeout", timeout)
        random.Random(seed).shuffle(claims)
        solver.add(*claims)
        verdict = solver.check()
        if verdict == z3.unsat:
            return None
        if verdict == z3.sat:
            return str(solver.model())
    raise TimeoutError(f"z3 could not decide {law.name} over {model.name}: {law}")
