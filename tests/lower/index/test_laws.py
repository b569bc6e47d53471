"""Algebraic laws: each is proved by z3, and wrong ones are refuted."""

from __future__ import annotations

import pytest

from tests.z3_laws import MODELS, counterexample
from tfn.dtypes import (
    BOOL,
    FLOAT32,
)
from tfn.lower.index import divmod
from tfn.lower.index.laws import LAWS
from tfn.lower.index.simplify import RULES
from tfn.trace.build import eq, where
from tfn.trace.pattern import BITS, FLOAT, INDEX, INT, hole, law
from tfn.trace.uop import const

TABLE = {one.name: one for one in LAWS}


@pytest.mark.parametrize("name", [one.name for one in LAWS if one not in divmod.LAWS])
def test_z3_proves_each_law(name):
    for model in MODELS[TABLE[name].over.name]:
        values = counterexample(TABLE[name], model)
        assert values is None, f"{TABLE[name]} is wrong over {model.name}: {values}"


def test_names_of_laws_are_unique():
    assert len(TABLE) == len(LAWS)


def _wrong_laws():
    i, c, d = hole("i", INT), hole("c", INT, constant=True), hole("d", INT, constant=True)
    j = hole("j", INT)
    n, e, f = hole("n", INDEX), hole("e", INDEX, constant=True), hole("f", INDEX, constant=True)
    x, y = hole("x", FLOAT), hole("y", FLOAT)
    b, p = hole("b", BITS), hole("p", BITS)
    zero, one = const(0.0, FLOAT32), const(1.0, FLOAT32)
    no, yes = const(False, BOOL), const(True, BOOL)
    return [
        law("mul-div wraps around", (i * c) // c, i, INT),
        law("add-less wraps around", i + c < j + c, i < j, INT),
        law("div-div wraps around", (i // c) // d, i // (c * d), INT),
        law("neg-less at the least", -i < -j, j < i, INT),
        law("div-mul is no identity", (n // e) * e, n, INDEX),
        law("mod-mod needs a multiple", (n % e) % f, n % f, INDEX, where=(e > 0) & (f > 0)),
        law("div-div of any sign", (n // e) // f, n // (e * f), INDEX),
        law("div-less of any sign", n // e < f, n < f * e, INDEX),
        law("add-zero at -0.0", x + zero, x, FLOAT),
        law("mul-zero at nan", x * zero, zero, FLOAT),
        law("sub-self at inf", x - x, zero, FLOAT),
        law("div-self at zero", x / x, one, FLOAT),
        law("equal-self at nan", eq(x, x), yes, FLOAT),
        law("not-less at nan", ~(x < y), y <= x, FLOAT),
        law("zero-sub at zero", zero - x, -x, FLOAT),
        law("add-sub rounds", (x + y) - y, x, FLOAT),
        law("absorb and to no", b & p, no, BITS),
        law(
            "where-and of the wrong branch", where(b, where(p, x, y), x), where(b & p, x, y), FLOAT
        ),
    ]


@pytest.mark.parametrize("wrong", _wrong_laws(), ids=lambda one: one.name)
def test_z3_refutes_each_wrong_law(wrong):
    models = MODELS[wrong.over.name]
    assert any(counterexample(wrong, model) is not None for model in models)


def test_every_law_is_a_rule():
    assert {one.lhs.op for one in LAWS} <= set(RULES)
