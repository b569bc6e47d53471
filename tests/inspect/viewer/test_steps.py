"""Records as text: rewrites with the status of their laws, decisions with their opt-ops."""

from __future__ import annotations

from tfn.dtypes import FLOAT32
from tfn.inspect.viewer.steps import decisions, expression, law_of, rewrites
from tfn.lower.index.laws import LAWS
from tfn.lower.index.simplify import RULES, simplify
from tfn.trace.argument import Param, Range
from tfn.trace.op import Op
from tfn.trace.records import Record, collecting
from tfn.trace.uop import UOp, const

r = UOp(Op.RANGE, (), Range(0, 24))
x = UOp(Op.PARAM, (), Param(0, (), FLOAT32))


def test_every_rule_has_a_status() -> None:
    rules = {rule.name for row in RULES.values() for rule in row}
    statuses = {rule: law_of(rule) for rule in rules}
    assert None not in statuses.values()
    for law in LAWS:
        status = statuses[law.name]
        assert status is not None
        assert status["text"] == str(law) and status["proof"].startswith("proved by z3 over ")
    assert law_of("pack-b") is None


def test_rewrites_are_counted() -> None:
    with collecting() as records:
        simplify(x * 1.0 + x * 1.0)
        simplify(x * 1.0)
    assert rewrites(records, {x: "a"}) == [["mul-one-float", "a * 1.0", "a", 2]]


def test_deep_expressions_are_cut() -> None:
    u = x
    for _ in range(60):  # written out, it would have 2 ** 60 leaves
        u = u + u
    assert len(expression(u, {})) < 200 and "…" in expression(u, {})
    assert expression((r * 4 + 1) % 8, {}) == "(r0 * 4 + 1) % 8"
    assert expression(const(2.0, FLOAT32) < x, {}) == "p0 > 2.0"


def test_only_nests_have_decisions() -> None:
    assert decisions([Record("mul-one", x, x)]) == []
