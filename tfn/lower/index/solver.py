"""Questions about integers that intervals leave open, asked of z3.

z3 is an optional package, imported here and nowhere else, when there is a question.  Integers are
those of Z: an operation that may wrap around is taken for any number of its dtype.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

from tfn._support.frozen import frozen
from tfn.dtypes import BOOL, INTEGERS
from tfn.errors import MissingPackageError
from tfn.lower.index.intervals import Facts, integer, limits
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk

TIMEOUT_MS = 2000
"""For one question."""


@frozen
class Answer:
    """What has been found out.

    Attributes:
        never: whether the conditions cannot hold together.
        at: otherwise where they do, by what may be anything; None if nobody knows.
        values: what was asked for, there.
    """

    never: bool
    at: dict[UOp, int] | None = None
    values: tuple[int, ...] = ()


def installed() -> bool:
    """Whether there is a z3 to ask."""
    return importlib.util.find_spec("z3") is not None


def load() -> Any:
    """The package.

    Raises:
        MissingPackageError: if it is not installed.
    """
    if not installed():
        raise MissingPackageError(
            "a proof needs z3, which is not installed", hint="pip install z3-solver"
        )
    import z3

    return z3


def holds(conditions: Sequence[UOp], facts: Facts, asked: Sequence[UOp] = ()) -> Answer:
    """Whether boolean nodes can be true together, given what is known of their parts.

    Raises:
        MissingPackageError: if z3 is not installed.

    Example:
        >>> from tfn.trace.argument import Range
        >>> from tfn.trace.uop import const
        >>> i = UOp(Op.RANGE, (), Range(0, 6))
        >>> holds([const(10, i.dtype) < i * 2 + 1], Facts(), [i * 2 + 1]).values
        (11,)
        >>> holds([const(11, i.dtype) < i * 2 + 1], Facts()).never
        True
    """
    z3 = load()
    solver, rules = z3.Solver(), _meaning(z3, facts)
    solver.set("timeout", TIMEOUT_MS)
    terms: dict[UOp, Any] = {}
    unknown: dict[UOp, Any] = {}  # what may be anything within its interval
    for node in walk([*conditions, *asked]):
        if node.dtype not in INTEGERS | {BOOL} or node.shape:
            continue
        if node.op is Op.PARAM and node not in facts.given:  # a buffer
            continue
        rule = rules.get(node.op)
        if node.op is Op.CONST:
            number = integer(node)
            terms[node] = z3.BoolVal(bool(number)) if node.dtype == BOOL else z3.IntVal(number)
            continue
        found = None
        if rule is not None and all(s in terms for s in node.src) and facts.plain(node):
            found = rule(node, *(terms[s] for s in node.src))
        if found is None:
            new = z3.Bool if node.dtype == BOOL else z3.Int
            found = unknown[node] = new(f"v{len(unknown)}")
        terms[node] = found
        if node.dtype != BOOL and (node in unknown or node in facts.given):
            low, high = facts.interval(node)
            solver.add(low <= found, found <= high)
    solver.add(*(terms[condition] for condition in conditions))
    answer = solver.check()
    if answer == z3.unsat:
        return Answer(True)
    if answer != z3.sat:
        return Answer(False)
    model = solver.model()

    def value(term: Any) -> int:
        found = model.eval(term, model_completion=True)
        return int(z3.is_true(found)) if z3.is_bool(found) else int(found.as_long())

    at = {u: value(v) for u, v in unknown.items()}
    return Answer(False, at, tuple(value(terms[u]) for u in asked))


def _meaning(z3: Any, facts: Facts) -> dict[Op, Callable[..., Any]]:
    """What index arithmetic is in Z, where nothing wraps around and divisors are not zero.

    A rule takes the node and the terms of its sources, and gives None where it has nothing to say.
    """

    def divided(u: UOp, x: Any, y: Any) -> Any:  # z3 rounds so that the remainder is not negative
        return z3.If(y > 0, x / y, -x / -y)

    def cast(u: UOp, x: Any) -> Any:
        if u.dtype == BOOL:
            return x if z3.is_bool(x) else x != 0
        if z3.is_bool(x):
            return z3.If(x, 1, 0)
        low, high = facts.interval(u.src[0])
        least, most = limits(u.dtype)
        return x if least <= low and high <= most else None  # cut off, it is another number

    def shifted(u: UOp, x: Any, y: Any) -> Any:
        amount = u.src[1]
        if amount.op is not Op.CONST:
            return None
        factor = 1 << integer(amount)
        return x * factor if u.op is Op.SHL else x / factor

    def of_numbers(rule: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        return lambda u, x, y: None if z3.is_bool(x) else rule(x, y)

    def of_truths(rule: Callable[..., Any]) -> Callable[..., Any]:
        return lambda u, *terms: rule(*terms) if z3.is_bool(terms[0]) else None

    def either(truths: Any, numbers: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        return lambda u, x, y: truths(x, y) if z3.is_bool(x) else numbers(x, y)

    return {
        Op.ADD: lambda u, x, y: x + y,
        Op.SUB: lambda u, x, y: x - y,
        Op.MUL: lambda u, x, y: x * y,
        Op.NEG: lambda u, x: -x,
        Op.CAST: cast,
        Op.FLOORDIV: divided,
        Op.MOD: lambda u, x, y: x - y * divided(u, x, y),
        Op.SHL: shifted,
        Op.SHR: shifted,
        Op.MAX: either(z3.Or, lambda x, y: z3.If(x > y, x, y)),
        Op.MIN: either(z3.And, lambda x, y: z3.If(x < y, x, y)),
        Op.LT: of_numbers(lambda x, y: x < y),
        Op.LE: of_numbers(lambda x, y: x <= y),
        Op.EQ: lambda u, x, y: x == y,
        Op.NE: lambda u, x, y: x != y,
        Op.AND: of_truths(z3.And),
        Op.OR: of_truths(z3.Or),
        Op.NOT: of_truths(z3.Not),
        Op.XOR: of_truths(z3.Xor),
        Op.WHERE: lambda u, c, x, y: z3.If(c, x, y),
        Op.SPLAT: lambda u, x: x,
    }
