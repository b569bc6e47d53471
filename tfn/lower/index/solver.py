"""SMT solver: conditions on integers that intervals cannot decide, given to z3.

z3 is an optional package, imported here and nowhere else, at the first use.  Integers are those of
Z: the result of an operation that may wrap around is a free variable within its dtype.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable, Sequence
from typing import Any

from tfn._support.frozen import frozen
from tfn.dtypes import BOOL, INTEGERS
from tfn.errors import MissingPackageError
from tfn.lower.index.intervals import Facts, limits
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const_value, walk

TIMEOUT_MS = 2000
"""Milliseconds for one query: proofs are optional, and hard ones would take hours."""

_ONE_AT_A_TIME = threading.Lock()
"""Held during a query: terms are of z3's main context, which two threads must not use at once."""


@frozen
class Answer:
    """The answer to a query.

    Attributes:
        unsatisfiable: whether the conditions cannot hold together.
        model: otherwise the values of the free variables at which they do; None after a timeout.
        values: the values of the observed nodes there.
    """

    unsatisfiable: bool
    model: dict[UOp, int] | None = None
    values: tuple[int, ...] = ()


def installed() -> bool:
    """Whether z3 is installed."""
    return importlib.util.find_spec("z3") is not None


def load() -> Any:
    """The z3 package.

    Raises:
        MissingPackageError: if it is not installed.
    """
    if not installed():
        raise MissingPackageError(
            "a proof needs z3, which is not installed", hint="pip install 'tfn[proofs]'"
        )
    import z3

    return z3


def solve(conditions: Sequence[UOp], facts: Facts, observed: Sequence[UOp] = ()) -> Answer:
    """Whether boolean nodes can be true together, and the values of `observed` nodes if so.

    Args:
        conditions: boolean nodes.
        facts: the intervals that free variables stay within.
        observed: integer or boolean nodes.

    Raises:
        MissingPackageError: if z3 is not installed.

    Example:
        >>> from tfn.trace.argument import Range
        >>> from tfn.trace.uop import const
        >>> i = UOp(Op.RANGE, (), Range(0, 6))
        >>> solve([const(10, i.dtype) < i * 2 + 1], Facts(), [i * 2 + 1]).values
        (11,)
        >>> solve([const(11, i.dtype) < i * 2 + 1], Facts()).unsatisfiable
        True
    """
    with _ONE_AT_A_TIME:
        return _solve(load(), conditions, facts, observed)


def _solve(z3: Any, conditions: Sequence[UOp], facts: Facts, observed: Sequence[UOp]) -> Answer:
    """The same by z3, whose terms are freed when this returns."""
    solver, rules = z3.Solver(), _translations(z3, facts)
    solver.set("timeout", TIMEOUT_MS)
    terms: dict[UOp, Any] = {}
    free: dict[UOp, Any] = {}  # variables within the intervals of their nodes
    for node in walk([*conditions, *observed]):
        if node.dtype not in INTEGERS | {BOOL} or node.shape:
            continue
        if node.op is Op.PARAM and node not in facts.assumed:  # a buffer
            continue
        rule = rules.get(node.op)
        if node.op is Op.CONST:
            number = const_value(node)
            terms[node] = z3.BoolVal(bool(number)) if node.dtype == BOOL else z3.IntVal(number)
            continue
        term = None
        if rule is not None and all(s in terms for s in node.src) and facts.is_exact_op(node):
            term = rule(node, *(terms[s] for s in node.src))
        if term is None:
            variable = z3.Bool if node.dtype == BOOL else z3.Int
            term = free[node] = variable(f"v{len(free)}")
        terms[node] = term
        if node.dtype != BOOL and (node in free or node in facts.assumed):
            low, high = facts.interval(node)
            solver.add(low <= term, term <= high)
    solver.add(*(terms[condition] for condition in conditions))
    verdict = solver.check()
    if verdict == z3.unsat:
        return Answer(True)
    if verdict != z3.sat:  # the time is over
        return Answer(False)
    model = solver.model()

    def value(term: Any) -> int:
        number = model.eval(term, model_completion=True)
        return int(z3.is_true(number)) if z3.is_bool(number) else int(number.as_long())

    variables = {u: value(v) for u, v in free.items()}
    return Answer(False, variables, tuple(value(terms[u]) for u in observed))


def _translations(z3: Any, facts: Facts) -> dict[Op, Callable[..., Any]]:
    """The z3 term of each op, in Z, where nothing wraps around and divisors are not zero.

    A rule takes the node and the terms of its sources; it returns None for a free variable.
    """

    def floor_divide(u: UOp, x: Any, y: Any) -> Any:
        # z3 rounds such that the remainder is not negative; by -y it rounds like the floor.
        return z3.If(y > 0, x / y, -x / -y)

    def cast(u: UOp, x: Any) -> Any:
        if u.dtype == BOOL:
            return x if z3.is_bool(x) else x != 0
        if z3.is_bool(x):
            return z3.If(x, 1, 0)
        low, high = facts.interval(u.src[0])
        least, most = limits(u.dtype)
        return x if least <= low and high <= most else None  # it may wrap around

    def bitcast(u: UOp, x: Any) -> Any:
        least, most = limits(u.dtype)
        if z3.is_bool(x) or u.dtype == BOOL or u.dtype.itemsize != u.src[0].dtype.itemsize:
            return None
        circle = most - least + 1
        return z3.If(x < least, x + circle, z3.If(x > most, x - circle, x))

    def shift(u: UOp, x: Any, y: Any) -> Any:
        amount = u.src[1]
        if amount.op is not Op.CONST:
            return None
        factor = 1 << const_value(amount)
        return x * factor if u.op is Op.SHL else x / factor

    def on_integers(rule: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        return lambda u, x, y: None if z3.is_bool(x) else rule(x, y)

    def on_booleans(rule: Callable[..., Any]) -> Callable[..., Any]:
        return lambda u, *terms: rule(*terms) if z3.is_bool(terms[0]) else None

    def by_sort(on_bool: Any, on_int: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        return lambda u, x, y: on_bool(x, y) if z3.is_bool(x) else on_int(x, y)

    return {
        Op.ADD: lambda u, x, y: x + y,
        Op.SUB: lambda u, x, y: x - y,
        Op.MUL: lambda u, x, y: x * y,
        Op.NEG: lambda u, x: -x,
        Op.CAST: cast,
        Op.BITCAST: bitcast,
        Op.FLOORDIV: floor_divide,
        Op.MOD: lambda u, x, y: x - y * floor_divide(u, x, y),
        Op.SHL: shift,
        Op.SHR: shift,
        Op.MAX: by_sort(z3.Or, lambda x, y: z3.If(x > y, x, y)),
        Op.MIN: by_sort(z3.And, lambda x, y: z3.If(x < y, x, y)),
        Op.LT: on_integers(lambda x, y: x < y),
        Op.LE: on_integers(lambda x, y: x <= y),
        Op.EQ: lambda u, x, y: x == y,
        Op.NE: lambda u, x, y: x != y,
        Op.AND: on_booleans(z3.And),
        Op.OR: on_booleans(z3.Or),
        Op.NOT: on_booleans(z3.Not),
        Op.XOR: on_booleans(z3.Xor),
        Op.WHERE: lambda u, c, x, y: z3.If(c, x, y),
        Op.SPLAT: lambda u, x: x,
    }
