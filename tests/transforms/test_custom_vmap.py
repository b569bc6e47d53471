"""`custom_vmap`: the rule is what counts under `vmap`, and its derivative under forward mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.errors import ArgumentError, MissingRuleError, TreeError
from tfn.transforms.custom_vmap import custom_vmap


@pytest.fixture
def scaled() -> tuple[Any, list[Any]]:
    """``sin(x) * y``, whose rule gives ten times as much; and the calls of the rule."""
    calls: list[Any] = []

    @custom_vmap
    def f(x: Any, y: Any) -> Any:
        return tnp.sin(x) * y

    @f.def_vmap
    def rule(axis_size: int, in_batched: Any, x: Any, y: Any) -> Any:
        calls.append((axis_size, in_batched))
        return 10 * tnp.sin(x) * y, any(in_batched)

    return f, calls


XS = np.linspace(-1, 2, 4, dtype="float32")


def test_the_rule_is_called_once_for_each_axis(scaled: Any) -> None:
    f, calls = scaled
    assert float(f(1.0, 2.0)) == pytest.approx(2 * np.sin(1), rel=1e-6) and not calls
    assert float(tfn.jit(f)(1.0, 2.0)) == pytest.approx(2 * np.sin(1), rel=1e-6) and not calls
    for run in (tfn.vmap(f, (0, None)), tfn.jit(tfn.vmap(f, (0, None)))):
        calls.clear()
        np.testing.assert_allclose(run(XS, 2.0), 20 * np.sin(XS), rtol=1e-6)
        assert calls == [(4, [True, False])]
    matrix = XS.reshape(2, 2)
    np.testing.assert_allclose(
        tfn.vmap(tfn.vmap(f, (0, None)), (0, None))(matrix, 2.0), 20 * np.sin(matrix), rtol=1e-6
    )


def test_forward_mode_is_batched_by_the_derivative_of_the_rule(scaled: Any) -> None:
    f, calls = scaled

    def slope(x: Any, dx: Any) -> Any:
        return tfn.jvp(f, (x, 2.0), (dx, 0.0))[1]

    assert float(slope(1.0, 1.0)) == pytest.approx(2 * np.cos(1), rel=1e-6) and not calls
    expected = 20 * np.cos(XS)
    np.testing.assert_allclose(tfn.vmap(slope, (0, None))(XS, 1.0), expected, rtol=1e-6)
    assert calls[-1] == (4, [True, False])
    one = tfn.vmap(slope, (None, 0))(1.0, XS)  # only the tangent differs
    np.testing.assert_allclose(one, 20 * np.cos(1) * XS, rtol=1e-6)
    second = tfn.vmap(tfn.jacfwd(tfn.jacfwd(f)), (0, None))(XS, 2.0)
    np.testing.assert_allclose(second, -20 * np.sin(XS), rtol=1e-5)


def test_reverse_mode(scaled: Any) -> None:
    f, calls = scaled
    total = tfn.grad(lambda xs: tfn.vmap(f, (0, None))(xs, 2.0).sum())
    np.testing.assert_allclose(total(XS), 20 * np.cos(XS), rtol=1e-6)
    assert calls
    np.testing.assert_allclose(tfn.vmap(tfn.grad(f), (0, None))(XS, 2.0), 2 * np.cos(XS), rtol=1e-6)


def test_trees_and_results_without_the_axis() -> None:
    @custom_vmap
    def f(tree: Any) -> Any:
        return {"sum": tree["a"] + tree["b"], "largest": tree["b"]}

    @f.def_vmap
    def rule(axis_size: int, in_batched: Any, tree: Any) -> Any:
        assert in_batched == [{"a": True, "b": False}]
        out = {"sum": tree["a"] + tree["b"], "largest": tree["b"]}
        return out, {"sum": True, "largest": False}

    axes = ({"a": 0, "b": None},)
    out = tfn.vmap(f, axes, {"sum": 0, "largest": None})({"a": XS, "b": 3.0})
    np.testing.assert_array_equal(out["sum"], XS + 3)
    assert float(out["largest"]) == 3.0


def test_state_of_the_function_passes_through() -> None:
    total = tfn.new_ref(1.0)

    @custom_vmap
    def f(x: Any) -> Any:
        return x * total[...]

    f.def_vmap(lambda n, mapped, x: (x * total[...], mapped[0]))
    np.testing.assert_array_equal(tfn.vmap(f)(XS), XS)


def test_wrong_rules_are_told() -> None:
    f = custom_vmap(lambda x: x)
    with pytest.raises(MissingRuleError, match="custom_vmap without a rule"):
        f(1.0)
    f.def_vmap(lambda n, mapped, x: x)
    with pytest.raises(ArgumentError, match=r"must return a pair \(result, batched\)"):
        tfn.vmap(f)(XS)
    f.def_vmap(lambda n, mapped, x: (x, (True,)))
    with pytest.raises(TreeError, match="must return a batched of the structure"):
        tfn.vmap(f)(XS)
    f.def_vmap(lambda n, mapped, x: (x, False))
    with pytest.raises(ArgumentError, match=r"result is float32\[4\] instead of float32\[\]"):
        tfn.vmap(f)(XS)

    def closing(x: Any) -> Any:
        g = custom_vmap(lambda y: x + y)
        g.def_vmap(lambda n, mapped, y: (x + y, True))
        return g(x)

    with pytest.raises(ArgumentError, match="closes over a value that vmap maps"):
        tfn.vmap(closing)(XS)
