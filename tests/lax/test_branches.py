"""One branch runs, the right one, and what the others would have done does not show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.growth import NONE, growth
from tests.lax.control import check
from tfn import lax, random
from tfn.errors import ArgumentError, DTypeError, KeyReuseError, ShapeError, TreeError


def test_cond_by_any_kind_of_predicate() -> None:
    f = lambda p: lax.cond(p, lambda x: x + 1, lambda x: x * 10, 2.0)
    for g in (f, tfn.jit(f)):
        assert [float(g(p)) for p in (True, False, 1, 0, 2.5, tnp.array(0.0))] == [
            3,
            20,
            3,
            20,
            3,
            20,
        ]


def test_switch_clamps() -> None:
    f = lambda i: lax.switch(i, [lambda: 1.0, lambda: 2.0, lambda: 3.0])
    for g in (f, tfn.jit(f)):
        assert [float(g(i)) for i in (-5, 0, 1, 2, 9)] == [1, 1, 2, 3, 3]
    large = tnp.array(2**32 - 1, dtype="uint32")
    assert float(tfn.jit(f)(large)) == 3.0
    assert tfn.vmap(f)(tnp.array([-1, 1, 7])).tolist() == [1, 2, 3]


def test_captured_values_are_computed_in_their_branch() -> None:
    def f(p: Any, x: Any) -> Any:
        return lax.cond(
            p, lambda: tnp.sin(x), lambda: lax.cond(x > 0, lambda: tnp.cos(x), lambda: x)
        )

    lines = str(tfn.make_jaxpr(f)(True, 1.0)).split("\n")
    depth = {
        name: line.index(line.strip())
        for line in lines
        for name in ("sin", "cos")
        if f" {name} " in line
    }
    assert 4 < depth["sin"] < depth["cos"]
    check(tfn.jit(f)(False, 1.0), tnp.cos(1.0))


def test_a_weak_result_takes_the_dtype_of_the_other_branch() -> None:
    f = tfn.jit(lambda p, x: lax.cond(p, lambda: x, lambda: 1))
    assert f(False, tnp.array(2.0)).dtype == "float32"
    assert f(False, tnp.array(2, dtype="int8")).dtype == "int8"


def safe(x: Any, w: Any) -> Any:
    return lax.cond(x > 0, lambda: tnp.log(x) * w, lambda: x * w * w)


@pytest.mark.parametrize("points", [[2.0, -3.0, 0.0, 1.0], [-2.0, 0.0], [2.0, 1.0], []])
def test_nan_does_not_leak_through_lanes(points: list[float]) -> None:
    """The logarithm and its slope at 0 and below do not leak from lanes with the other branch."""
    xs, w = tnp.array(np.array(points, np.float32)), 2.0
    each = lambda g: tnp.stack([g(x, w) for x in xs]) if points else tnp.zeros(0)
    check(tfn.vmap(safe, in_axes=(0, None))(xs, w), each(safe))
    check(tfn.vmap(tfn.grad(safe), in_axes=(0, None))(xs, w), each(tfn.grad(safe)))
    total = lambda xs, w: tfn.vmap(safe, in_axes=(0, None))(xs, w).sum()
    check(tfn.grad(total)(xs, w), each(tfn.grad(safe)))
    check(tfn.grad(total, 1)(xs, w), each(tfn.grad(safe, 1)).sum())
    check(tfn.jacfwd(total, 1)(xs, w), each(tfn.grad(safe, 1)).sum())
    check(tfn.hessian(total, 1)(xs, w), each(tfn.hessian(safe, 1)).sum())


def test_one_predicate_for_all_lanes_stays_a_choice() -> None:
    f = lambda p, xs: tfn.vmap(lambda x: lax.cond(p, tnp.sin, tnp.cos, x))(xs)
    text = str(tfn.make_jaxpr(f)(True, tnp.ones(3)))
    assert "cond[" in text and "select" not in text
    check(tfn.jit(f)(False, tnp.ones(3)), tnp.cos(tnp.ones(3)))


def test_residuals_of_branches_share_places() -> None:
    f = lambda p, x: lax.cond(p, lambda: tnp.sin(tnp.sin(x)), lambda: tnp.tanh(tnp.exp(x)))
    text = str(tfn.make_jaxpr(lambda p, x: tfn.vjp(lambda x: f(p, x), x)[0])(True, 1.0))
    assert text.count("cond[") == 1
    check(tfn.jit(tfn.grad(f, 1))(True, 0.5), tfn.grad(lambda x: tnp.sin(tnp.sin(x)))(0.5))
    check(tfn.jit(tfn.grad(f, 1))(False, 0.5), tfn.grad(lambda x: tnp.tanh(tnp.exp(x)))(0.5))


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda p: lax.cond(tnp.ones(2) > 0, tnp.sin, tnp.cos, 1.0), ShapeError, "be a scalar"),
        (lambda p: lax.cond(p, 1.0, 2.0), ArgumentError, "needs functions"),
        (lambda p: lax.switch(p, [tnp.sin], 1.0), DTypeError, "must be an integer"),
        (lambda p: lax.switch(0, [], 1.0), ArgumentError, "at least one"),
        (lambda p: lax.cond(p, lambda: (1.0, 2.0), lambda: 1.0), TreeError, "one structure"),
        (
            lambda p: lax.cond(p, lambda: {"a": tnp.ones(2)}, lambda: {"a": tnp.ones(3)}),
            ShapeError,
            r"result\['a'\] is f32\[3\] in <lambda> and f32\[2\]",
        ),
        (
            lambda p: lax.cond(p, lambda: tnp.ones(2), lambda: tnp.ones(2, dtype="int32")),
            DTypeError,
            "use .astype",
        ),
    ],
)
def test_wrong_arguments_raise(call: Any, kind: Any, words: str) -> None:
    with pytest.raises(kind, match=words):
        tfn.jit(call)(True)
    with pytest.raises(kind):
        call(True)


def test_branches_of_a_known_index_have_results_of_one_type() -> None:
    """The other branches are traced, and do not run."""
    ran: list[float] = []
    other = lambda x: tfn.debug.callback(lambda y: ran.append(float(y)), x) or x
    for run in (lambda f: f, tfn.jit):
        assert run(lambda x: lax.cond(True, lambda x: x * 2, other, x))(1.0) == 2
        y = run(lambda x: lax.cond(True, lambda x: 1, lambda x: x, x))(tnp.float32(3))
        assert (y.dtype, float(y)) == ("float32", 1)
        y = run(lambda x: lax.switch(1, [lambda x: 2.5, lambda x: 1, lambda x: x], x))(tnp.ones(()))
        assert (y.dtype, float(y)) == ("float32", 1)
    tfn.effects_barrier()
    assert ran == []
    with pytest.raises(DTypeError, match="one type"):
        lax.switch(2, [lambda x: x, lambda x: x.astype("int8"), lambda x: x], tnp.ones(2))
    with tfn.disable_jit():  # which runs what is asked for, and nothing else
        assert lax.cond(True, lambda: 1, lambda: 1 / 0) == 1


def test_a_key_may_be_used_once_in_each_branch() -> None:
    tfn.config.key_reuse = False
    try:
        key = random.key(0)
        lax.cond(True, lambda: random.normal(key), lambda: random.uniform(key))
        with pytest.raises(KeyReuseError):
            random.normal(key)
    finally:
        tfn.config.key_reuse = True


def test_the_operand_may_have_a_name() -> None:
    f = lambda p, x: lax.cond(p, lambda x: x + 1, lambda x: x * 10, operand=x)
    assert float(f(True, 2.0)) == 3 and float(tfn.jit(f)(False, 2.0)) == 20
    nothing = lambda p: lax.cond(p, lambda x: 1.0, lambda x: 2.0, operand=None)
    assert float(tfn.jit(nothing)(False)) == 2


def test_each_branch_may_have_an_operand_of_its_own() -> None:
    f = lambda p, x, y: lax.cond(p, (x, y), lambda xy: xy[0] - xy[1], y, lambda y: y * 10)
    for g in (f, tfn.jit(f)):
        assert (float(g(True, 2.0, 3.0)), float(g(False, 2.0, 3.0))) == (-1, 30)
    both = tfn.vmap(f)(tnp.asarray([True, False]), tnp.ones(2), tnp.full(2, 3.0))
    assert both.tolist() == [-2, 30]
    with pytest.raises(ArgumentError, match="needs functions"):
        lax.cond(True, 1.0, lambda x: x, 2.0, 3.0)


# Memory.


def test_branches_keep_nothing() -> None:
    x = tnp.ones((64, 64))

    def step() -> None:
        c = x + 1
        lax.cond(c[0, 0] > 0, lambda y: y * c, lambda y: y + c, x)
        tfn.grad(lambda y: lax.cond(y[0, 0] > 0, lambda y: y * c, lambda y: y + c, y).sum())(x)

    assert growth(step) == NONE


def test_numbers_of_a_branch_that_is_known_are_arrays() -> None:
    for p in (True, False):
        assert isinstance(lax.cond(p, lambda: 1.0, lambda: 2.0), tfn.Array)
    for branches in ([lambda: 1], [lambda: 1, lambda: 2]):
        assert lax.switch(0, branches).weak_type
