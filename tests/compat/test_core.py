"""Small parts of JAX's core."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.compat import core
from tfn.compat.avals import ShapedArray, float0
from tfn.compat.functions import WrappedFun
from tfn.compat.jaxprs import make_jaxpr
from tfn.errors import ArgumentError, ConcretizationTypeError, TreeError
from tfn.transforms.aot import ArgInfo


def test_equations_are_made() -> None:
    new = core.gensym()
    x, y = new(ShapedArray((2,), "float32")), new(ShapedArray((2,), "float32"))
    eqn = core.new_jaxpr_eqn([x], [y], "sin", {"accuracy": None}, core.no_effects)
    assert (eqn.invars, eqn.outvars, eqn.params) == ([x], [y], {"accuracy": None})
    assert x is not y and core.DropVar(x.aval).aval == x.aval
    assert core.check_jaxpr(make_jaxpr(tnp.sin)(1.0).jaxpr) is None


def test_known_values_are_forced() -> None:
    assert core.concrete_or_error(int, tnp.asarray(3)) == 3
    assert tfn.grad(lambda x: x * core.concrete_or_error(float, x))(2.0).item() == 2.0
    with pytest.raises(ConcretizationTypeError, match="needs a size"):
        tfn.jit(lambda x: core.concrete_or_error(int, x, "needs a size"))(3)


def test_traces_tell_where_one_is() -> None:
    seen: list[Any] = []

    def look(x: Any) -> Any:
        seen.append(
            (
                core.unsafe_am_i_under_a_jit_DO_NOT_USE(),
                core.unsafe_am_i_under_a_vmap_DO_NOT_USE(),
                core.nonempty_axis_env_DO_NOT_USE(),
                core.unsafe_get_axis_names_DO_NOT_USE(),
            )
        )
        return x

    look(1.0)
    tfn.jit(look)(1.0)
    tfn.vmap(look, axis_name="i")(tnp.ones(2))
    assert seen[0] == (False, False, False, [])
    assert seen[1] == (True, False, False, [])
    assert seen[2][1:] == (True, True, ["i"])
    with core.eval_context():
        assert float(tnp.sin(0.0)) == 0.0


def test_trees() -> None:
    class Point(NamedTuple):
        x: Any
        y: Any

    assert [core.is_tree_node(c) for c in (list, Point, tuple, int, np.ndarray)] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert list(core.flatten_one_level({"b": [1], "a": 2})[0]) == [2, [1]]
    with pytest.raises(TreeError, match="a leaf has no children"):
        core.flatten_one_level(1)

    @tfn.tree.register_dataclass
    @dataclasses.dataclass
    class Layer:
        x: Any
        op: str = core.static(default="add", metadata={"note": 1})

    assert tfn.tree.map(lambda x: 2 * x, Layer(3)) == Layer(6)
    structure = tfn.tree.structure(((1, [2, 3]), {"k": 4}))
    assert core.flatten_axes("axes", structure, (0, None), kws=True) == [0, None, None, 0]
    assert core.donation_vector((1,), ("k",), structure) == (False, True, True, True)
    assert core.rebase_donate_argnums((1, 3), (0, 2)) == (0, 1)
    with pytest.raises(ArgumentError, match="cannot be donated"):
        core.rebase_donate_argnums((1,), (1,))
    some, args = core.argnums_partial(WrappedFun(lambda *xs: xs, {}), (0, 2), (1, 2, 3))
    assert args == (1, 3) and some.call_wrapped(7, 9) == (7, 2, 9)
    assert core.call_impl(some, 7, 9) == (7, 2, 9)


def test_dtypes() -> None:
    assert core.primal_dtype_to_tangent_dtype("float32") == np.float32
    assert core.primal_dtype_to_tangent_dtype("bool") == float0
    assert [core.itemsize_bits(d) for d in ("bool", "int16", "complex64")] == [8, 16, 64]
    assert core.scalar_type_of(True) is bool and core.scalar_type_of(1j) is complex
    assert core.is_supported_dtype("bfloat16")
    info = ArgInfo(ShapedArray((2,), "float32"), donated=True)
    assert info.shape == (2,) and info.dtype == np.float32 and info.donated


def test_forward_and_backward_are_compiled_once() -> None:
    calls: list[Any] = []

    def f(x: Any, w: Any) -> Any:
        calls.append(1)
        return tnp.sin(x @ w), x

    forward, backward = core.fwd_and_bwd(f, argnums=(0, 1), has_aux=True)
    x, w = tnp.ones((2, 3)), tnp.full((3, 2), 0.1)
    for _ in range(3):
        y, residuals, aux = forward(x, w)
        found = backward(residuals, tnp.ones((2, 2)))
    expected = tfn.grad(lambda x, w: f(x, w)[0].sum(), (0, 1))(x, w)
    for got, slope in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, slope, rtol=1e-6)
    assert len(calls) == 2 and y.shape == (2, 2) and aux.shape == (2, 3)


def test_functions_of_processes(capsys: Any) -> None:
    assert (core.host_id(), core.host_ids(), core.host_count()) == (0, [0], 1)
    assert core.copy_to_host_async([1.0]) == [1.0]
    core.print_environment_info()
    assert "optree" in capsys.readouterr().out
    f = tfn.jit(lambda x: x + 1)
    assert float(f(1.0)) == 2.0
    tfn.clear_caches()
    assert float(f(1.0)) == 2.0
