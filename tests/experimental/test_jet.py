"""`jet` gives what nested forward mode gives along the curve."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.covering import in_turn
from tfn import lax
from tfn.errors import ArgumentError, GradientError, TreeError
from tfn.experimental.jet import jet, zero_series

X = np.array([0.3, 0.7, -0.4], "float64")
TERMS = [np.array(t) for t in ([1, 0.5, 0.3], [0.2, 0.1, -0.4], [0.1, -0.3, 0.2], [0.3, 0.2, 0.1])]


def scanned(x: Any) -> Any:
    """A loop whose carry and results depend on the curve, backwards, with a constant carry."""

    def body(carry: Any, a: Any) -> Any:
        c, n = carry
        return (tnp.sin(c) * a + n, n), (c * a, n)

    (c, _), (ys, ns) = lax.scan(
        body, (x[0], 0.5), tnp.stack([x[1], x[2], x[0] * x[1]]), reverse=True
    )
    return c * ys + ns


FUNCTIONS: dict[str, Any] = {
    **{name: getattr(tnp, name) for name in ("exp", "sin", "cos", "tan", "tanh", "arctan", "sinh",
        "cosh", "expm1", "log1p", "square", "abs", "cbrt", "floor", "prod", "cumsum", "sort")},
    "log": lambda x: tnp.log(x + 1),
    "sqrt": lambda x: tnp.sqrt(x + 1),
    "power": lambda x: (x + 1) ** 2.5,
    "erf": lax.erf,
    "lgamma": lambda x: lax.lgamma(x + 2),
    "digamma": lambda x: lax.digamma(x + 2),
    "logistic": lax.logistic,
    "quotient": lambda x: x / (1 + x * x),
    "maximum": lambda x: tnp.maximum(x, 0.5) * x,
    "max": lambda x: x.max() * x,
    "softmax": lambda x: tfn.nn.softmax(x),
    "product": lambda x: tnp.outer(x, x) @ x,
    "indexed": lambda x: x[tnp.asarray([2, 0])] * x.at[1].add(x[0])[1:],
    "constant": lambda x: tnp.ones(3),
    "jitted": lambda x: tfn.jit(lambda x: tnp.sin(x) * x)(x),
    "custom": lambda x: tfn.nn.relu(x) * x,
    "cond": lambda x: tfn.jit(lambda x: lax.cond(x[0] > 0, lambda x: x * x, tnp.cos, x))(x),
    "scan": scanned,
    "fori": lambda x: lax.fori_loop(0, 3, lambda i, c: tnp.sin(c) * x, x),
    "while": lambda x: lax.while_loop(
        lambda c: c[1] < 2, lambda c: (tnp.sin(c[0]) * x, c[1] + 1), (x, 0))[0],
}  # fmt: skip


@pytest.mark.parametrize("name", in_turn(2, FUNCTIONS))
def test_derivatives_along_a_curve(name: str) -> None:
    f, order = FUNCTIONS[name], 3 if name == "while" else 4
    terms = TERMS[:order]
    factorials = np.cumprod([1.0, 2, 3, 4])

    def along(t: Any) -> Any:
        powers = [c * t ** (k + 1) / factorials[k] for k, c in enumerate(terms)]
        return f(sum(powers, tnp.asarray(X)))

    value, found = jet(f, (X,), (terms,))
    np.testing.assert_allclose(value, f(tnp.asarray(X)), rtol=1e-12)
    derivative = along
    zero = np.float64(0)
    for k in range(order):
        derivative = lambda t, g=derivative: tfn.jvp(g, (t,), (np.float64(1),))[1]
        expected = derivative(zero)
        np.testing.assert_allclose(
            found[k], expected, rtol=1e-9, atol=1e-9, err_msg=f"order {k + 1}"
        )


def test_transforms() -> None:
    third = lambda x: jet(tnp.sin, (x,), ((1.0, 0.0, 0.0),))[1][2]
    xs = X.astype("float32")
    np.testing.assert_allclose(tfn.vmap(third)(xs), -np.cos(xs), rtol=1e-5)
    np.testing.assert_allclose(tfn.jit(third)(0.5), -np.cos(0.5), rtol=1e-6)
    np.testing.assert_allclose(tfn.grad(third)(0.5), np.sin(0.5), rtol=1e-6)


def test_several_arguments_and_trees() -> None:
    f = lambda tree, y: {"product": tree["a"] * y, "sum": tree["a"] + tree["b"]}
    value, terms = jet(
        f,
        ({"a": 2.0, "b": 1.0}, 3.0),
        ([{"a": 1.0, "b": 0.0}, {"a": 0.0, "b": 4.0}], [1.0, 0.0]),
    )
    assert float(value["product"]) == 6.0 and float(value["sum"]) == 3.0
    assert [float(t) for t in terms["product"]] == [5.0, 2.0]
    assert [float(t) for t in terms["sum"]] == [1.0, 4.0]


def test_coefficients_of_powers() -> None:
    _, terms = jet(tnp.exp, (0.0,), ((1.0, 0.0, 0.0),), factorial_scaled=False)
    np.testing.assert_allclose(terms, [1, 1 / 2, 1 / 6], rtol=1e-6)


def test_long_graphs() -> None:
    def f(x: Any) -> Any:
        for _ in range(2000):
            x = x * 0.999
        return x

    _, (first, second) = jet(f, (1.0,), ((1.0, 3.0),))
    assert float(second) == pytest.approx(3 * float(first), rel=1e-4)


def test_wrong_terms_are_told() -> None:
    with pytest.raises(ArgumentError, match="as many terms for each argument"):
        jet(tnp.multiply, (1.0, 2.0), ((1.0,), (1.0, 2.0)))
    with pytest.raises(ArgumentError, match="a sequence of arguments as primals"):
        jet(tnp.sin, 1.0, ((1.0,),))
    with pytest.raises(ArgumentError, match="a sequence of terms as series"):
        jet(tnp.sin, (1.0,), (1.0,))
    with pytest.raises(TreeError, match="term 0 of argument 0 of jet must be of the shape"):
        jet(tnp.sin, (X,), ((1.0,),))
    with pytest.raises(TreeError, match="structure of the arguments"):
        jet(tnp.sin, (1.0,), (((1.0, 2.0),),))
    with pytest.raises(GradientError, match="floating and complex"):
        jet(tnp.sin, (1,), ((1.0,),))


def test_arguments_without_terms_stay_where_they_are():
    def f(x, y):
        return x * x * y["a"]

    found = jet(f, (2.0, {"a": 3.0}), ((1.0, 0.0), zero_series))
    want = jet(f, (2.0, {"a": 3.0}), ((1.0, 0.0), ({"a": 0.0}, {"a": 0.0})))
    assert [float(x) for x in (found[0], *found[1])] == [12.0, 12.0, 6.0]
    assert [float(x) for x in (want[0], *want[1])] == [12.0, 12.0, 6.0]
