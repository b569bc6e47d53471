"""Solvers whose derivatives come from what they solve."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.lax.control import check
from tfn import lax
from tfn.errors import ArgumentError, GradientError, TreeError


def newton(f: Any, x: Any) -> Any:
    """A loop of unknown length: it has no reverse mode of its own."""
    slope = tfn.grad(lambda x: f(x).sum())
    return lax.while_loop(lambda x: (tnp.abs(f(x)) > 1e-6).any(), lambda x: x - f(x) / slope(x), x)


def root(a: Any) -> Any:
    """The cube root of each element."""
    return lax.custom_root(
        lambda x: x**3 - a, tnp.ones_like(a), newton, lambda g, y: y / g(tnp.ones_like(y))
    )


A = tnp.array([1.0, 8.0, 27.0])
SLOPES = tnp.array([1 / 3, 1 / 12, 1 / 27])


def test_roots() -> None:
    check(root(A), tnp.array([1.0, 2.0, 3.0]), 1e-5)
    for run in (
        tfn.grad(lambda a: root(a).sum()),
        tfn.jit(tfn.grad(lambda a: root(a).sum())),
        tfn.grad(lambda a: tfn.jit(root)(a).sum()),
        tfn.vmap(tfn.grad(root)),
        tfn.grad(lambda a: tfn.vmap(root)(a).sum()),
    ):
        check(run(A), SLOPES, 1e-4)
    check(tfn.jvp(root, (A,), (tnp.ones(3),))[1], SLOPES, 1e-4)
    check(tfn.grad(tfn.grad(root))(8.0), tnp.array(-2 / 9 * 8.0 ** (-5 / 3)), 1e-3)
    inside = lambda a: lax.scan(lambda c, _: (root(c), c), a, None, 2)[0]
    check(tfn.grad(inside)(8.0), tnp.array(8.0 ** (1 / 9) / 9 / 8), 1e-4)


def test_roots_of_trees_with_aux() -> None:
    def f(a: Any, b: Any) -> Any:
        def solve(g: Any, guess: Any) -> Any:
            return {"x": a / 2, "y": [b / 3]}, {"steps": 7, "norm": b * 0.5}

        system = lambda p: {"x": 2 * p["x"] - a, "y": [3 * p["y"][0] - b]}
        back = lambda g, y: {"x": y["x"] / 2, "y": [y["y"][0] / 3]}
        return lax.custom_root(system, {"x": 0.0, "y": [0.0]}, solve, back, has_aux=True)

    actual, aux = tfn.jit(f)(4.0, 9.0)
    check(actual, {"x": tnp.array(2.0), "y": [tnp.array(3.0)]})
    assert int(aux["steps"]) == 7
    total = lambda a, b: (lambda p, _: p["x"] + p["y"][0])(*f(a, b))
    check(tfn.grad(total, (0, 1))(4.0, 9.0), (tnp.array(0.5), tnp.array(1 / 3)))
    assert float(tfn.grad(lambda b: f(4.0, b)[1]["norm"])(9.0)) == 0.0


def elimination(matvec: Any, b: Any) -> Any:
    """Gauss-Jordan without pivots, on the matrix that the function is."""
    n = b.shape[0]
    a = tnp.concatenate([tfn.vmap(matvec, out_axes=1)(tnp.eye(n, dtype=b.dtype)), b[:, None]], 1)

    def step(i: Any, a: Any) -> Any:
        row = a[i] / a[i, i]
        return (a - a[:, i][:, None] * row).at[i].set(row)

    return lax.fori_loop(0, n, step, a)[:, n]


def solve(a: Any, b: Any, **options: Any) -> Any:
    return lax.custom_linear_solve(lambda x: a @ x, b, elimination, **options)


M = tnp.array([[4.0, 1.0, 0.5], [0.2, 3.0, -1.0], [1.0, 0.3, 5.0]])
B = tnp.array([1.0, -2.0, 0.5])
INVERSE = tnp.asarray(np.linalg.inv(np.asarray(M)))


def test_linear_systems() -> None:
    f = lambda a, b: (solve(a, b, transpose_solve=elimination) ** 2).sum()
    g = lambda a, b: ((by_cofactors(a) @ b) ** 2).sum()
    check(solve(M, B), INVERSE @ B, 1e-5)
    expected = tfn.grad(g, (0, 1))(M, B)
    for run in (tfn.grad(f, (0, 1)), tfn.jit(tfn.grad(f, (0, 1))), tfn.grad(tfn.jit(f), (0, 1))):
        check(run(M, B), expected, 1e-4)
    check(tfn.jvp(f, (M, B), (M, 2 * B))[1], tfn.jvp(g, (M, B), (M, 2 * B))[1], 1e-4)
    check(tfn.hessian(f, 1)(M, B), 2 * INVERSE.T @ INVERSE, 1e-4)
    many = tnp.stack([B, 2 * B])
    check(
        tfn.vmap(tfn.grad(f, (0, 1)), (None, 0))(M, many),
        tfn.vmap(tfn.grad(g, (0, 1)), (None, 0))(M, many),
        1e-4,
    )
    total = lambda h: lambda a, bs: tfn.vmap(h, (None, 0))(a, bs).sum()
    check(tfn.grad(total(f), (0, 1))(M, many), tfn.grad(total(g), (0, 1))(M, many), 1e-4)
    both = tfn.vmap(tfn.grad(f, (0, 1)))(tnp.stack([M, M + 1]), many)
    check(both, tfn.vmap(tfn.grad(g, (0, 1)))(tnp.stack([M, M + 1]), many), 1e-4)
    (back,) = tfn.linear_transpose(lambda b: solve(M, b, transpose_solve=elimination), B)(B)
    check(back, INVERSE.T @ B, 1e-4)


def by_cofactors(a: Any) -> Any:
    """By cofactors, so that it is differentiated as it is written."""
    rows = [tnp.cross(a[(i + 1) % 3], a[(i + 2) % 3]) for i in range(3)]
    return tnp.stack(rows, 1) / (a[0] * rows[0]).sum()


def test_symmetric_systems_and_aux() -> None:
    def f(scale: Any, b: Any) -> Any:
        solver = lambda matvec, b: (b / scale, {"steps": 3})
        return lax.custom_linear_solve(lambda x: scale * x, b, solver, symmetric=True, has_aux=True)

    x, aux = f(2.0, 6.0)
    assert float(x) == 3.0 and aux["steps"] == 3
    slopes = tfn.jit(tfn.grad(lambda s, b: f(s, b)[0], (0, 1)))(2.0, 6.0)
    check(slopes, (tnp.array(-1.5), tnp.array(0.5)))


def test_trees() -> None:
    def f(s: Any, b: Any) -> Any:
        system = lambda p: {"u": s * p["u"], "v": 2 * p["v"] + p["u"]}

        def run(_: Any, b: Any) -> Any:
            u = b["u"] / s
            return {"u": u, "v": (b["v"] - u) / 2}

        def back(_: Any, b: Any) -> Any:
            v = b["v"] / 2
            return {"u": (b["u"] - v) / s, "v": v}

        return lax.custom_linear_solve(system, b, run, back)

    total = lambda s, b: (lambda x: x["u"] + 3 * x["v"])(f(s, b))
    actual = tfn.grad(total, (0, 1))(4.0, {"u": 8.0, "v": 5.0})
    check(actual, (tnp.array(0.5 * 8 / 16), {"u": tnp.array(-0.125), "v": tnp.array(1.5)}))


def test_without_a_transpose_there_is_forward_mode_alone() -> None:
    f = lambda b: solve(M, b).sum()
    check(tfn.jacfwd(f)(B), INVERSE.sum(0), 1e-4)
    with pytest.raises(GradientError, match="without transpose_solve"):
        tfn.grad(f)(B)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: lax.custom_root(1, 0.0, newton, None), ArgumentError, "needs a function as f"),
        (lambda: lax.custom_root(tnp.sin, 0.0, newton, None), ArgumentError, "as tangent_solve"),
        (
            lambda: lax.custom_root(lambda x: (x, x), 1.0, newton, newton),
            TreeError,
            r"values of the structure of initial_guess from f(.|\n)*\(\*, \*\) instead of \*",
        ),
        (
            lambda: lax.custom_root(tnp.sin, 1.0, lambda f, x: (x, x), newton),
            TreeError,
            "a root of the structure of initial_guess from solve",
        ),
        (
            lambda: tfn.grad(
                lambda a: lax.custom_root(lambda x: x - a, 1.0, lambda f, x: x, lambda g, y: [y])
            )(1.0),
            TreeError,
            "x of the structure of initial_guess from tangent_solve",
        ),
        (
            lambda: lax.custom_linear_solve(lambda x: (x, x), 1.0, lambda f, b: b),
            TreeError,
            r"A x of the structure of b from matvec(.|\n)*\(\*, \*\) instead of \*",
        ),
        (
            lambda: lax.custom_linear_solve(lambda x: x, 1.0, lambda f, b: [b]),
            TreeError,
            "x of the structure of b from solve",
        ),
    ],
)
def test_wrong_arguments_raise(call: Any, kind: Any, words: str) -> None:
    with pytest.raises(kind, match=words):
        call()
