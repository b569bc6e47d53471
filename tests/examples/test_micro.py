"""The compiler in one page: its size, its gradients, its laws, and its loops beside NumPy."""

from __future__ import annotations

import ast
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import micro
import numpy as np
import pytest

import tfn
from tfn import numpy as jnp

SOURCE = Path(micro.__file__)
Data = np.ndarray[Any, Any]
ARRAYS: dict[str, Data] = {
    name: np.random.default_rng(n).standard_normal(shape)
    for n, (name, shape) in enumerate({"w": (3, 2), "x": (5, 3), "y": (5, 2)}.items())
}
PARAMS: dict[Any, Data] = {micro.param(x.shape, name): x for name, x in ARRAYS.items()}
W, X, Y = PARAMS


def value(u: Any, **changed: Data) -> Data:
    by_name = {**ARRAYS, **changed}
    found: Data = micro.evaluate(u, {p: by_name[p.arg[1]] for p in PARAMS})
    return found


def test_it_is_one_page() -> None:
    text = SOURCE.read_text()
    prose: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            prose.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines = enumerate(text.splitlines(), 1)
    code = [x for n, x in lines if x.strip() and x.strip()[0] != "#" and n not in prose]
    assert len(code) < 100
    assert "import tfn" not in text


def test_it_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["micro.py"])
    runpy.run_path(str(SOURCE), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "for i, j, k in ndindex(5, 3, 2): v3[i, k] += x[i, j] * w[j, k]"
    assert float(lines[-1].split()[-1]) < 1e-12


def test_equal_nodes_are_one_object() -> None:
    assert W + 1 is W + 1.0
    assert W + 1 is not W + 2
    assert micro.param((3,)) is not micro.param((3,))


@pytest.mark.parametrize("wrong", [lambda: W + X, lambda: W @ X, lambda: W + micro.total(X)])
def test_what_has_no_shape_cannot_exist(wrong: Callable[[], Any]) -> None:
    with pytest.raises(ValueError):
        wrong()


PROGRAMS = [
    micro.loss,
    lambda w, x, y: micro.total(micro.tanh(micro.tanh(x @ w) * y).T @ x @ w),
    lambda w, x, y: micro.total(w * w * micro.spread(micro.total(x @ w), (3, 2)) * 3 + w),
]


@pytest.mark.parametrize("f", PROGRAMS)
@pytest.mark.parametrize("which", [0, 1])
def test_gradients_are_slopes(f: Any, which: int) -> None:
    nodes = [W, X, Y]
    nodes[0], nodes[which] = nodes[which], nodes[0]

    def moved(first: Any, *rest: Any) -> Any:
        args = [first, *rest]
        args[0], args[which] = args[which], args[0]
        return f(*args)

    found = value(micro.grad(moved)(*nodes))
    name = nodes[0].arg[1]
    along = np.random.default_rng(9).standard_normal(ARRAYS[name].shape)
    ends = [value(f(W, X, Y), **{name: ARRAYS[name] + h * along}) for h in (1e-5, -1e-5)]
    assert (found * along).sum() == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6)


@pytest.mark.parametrize("f", PROGRAMS)
def test_gradients_of_gradients(f: Any) -> None:
    def bent(w: Any, x: Any, y: Any) -> Any:
        slope = micro.grad(f)(w, x, y)
        return micro.total(slope * slope)

    found = value(micro.grad(bent)(W, X, Y))
    ends = [value(bent(W, X, Y), w=ARRAYS["w"] + h) for h in (1e-5, -1e-5)]
    assert found.sum() == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5)


def test_what_does_not_depend_on_it_has_slope_zero() -> None:
    assert not value(micro.grad(lambda w, x: micro.total(x))(W, X)).any()
    assert not value(micro.grad(micro.grad(micro.total))(micro.param(()))).any()


@pytest.mark.parametrize("f", PROGRAMS)
def test_laws_and_loops_change_nothing(f: Any) -> None:
    for u in (f(W, X, Y), micro.grad(f)(W, X, Y), W.T * 2 + 1):
        short = micro.simplify(u)
        np.testing.assert_allclose(value(short), value(u), rtol=1e-12)
        np.testing.assert_allclose(micro.run(micro.lower(short), ARRAYS), value(u), rtol=1e-9)
        assert len(micro.walk(short)) <= len(micro.walk(u))


def test_each_law() -> None:
    for law in micro.LAWS:
        assert micro.simplify(law) is micro.X
    assert micro.simplify((W * -1 * -1 + 0).T.T * 1) is W
    assert micro.simplify(W * micro.spread(1, (3, 2))) is W
    assert micro.simplify(micro.node(3) * micro.spread(1, (3, 2))).shape == (3, 2)


def test_the_house_says_the_same() -> None:
    def loss(w: tfn.Array, x: tfn.Array, y: tfn.Array) -> tfn.Array:
        return ((jnp.tanh(x @ w) - y) ** 2).sum()

    want = tfn.grad(loss)(*map(jnp.asarray, ARRAYS.values()))
    np.testing.assert_allclose(value(micro.grad(micro.loss)(W, X, Y)), want, rtol=1e-5)
