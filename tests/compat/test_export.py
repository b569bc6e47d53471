"""``jax.export``: functions as bytes, with their trees, symbolic sizes and gradients."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.compat import export
from tfn.compat.transforms import jit
from tfn.errors import ArgumentError, ExportError, NotAvailableError, ShapeError, TreeError


class Point(NamedTuple):
    """A tree of two arrays."""

    x: Any
    y: Any


def f(p: Any, scale: Any = 2.0) -> Any:
    """A function of trees."""
    return {"product": tnp.sin(p["a"]) * scale, "pair": [p["a"].sum(), (p["n"] + 1,)]}


TREE = {"a": np.arange(3, dtype="float32"), "n": np.array([1, 2])}


def test_functions_of_trees_go_through_bytes() -> None:
    made = export.export(jit(f))(TREE, scale=3.0)
    again = export.deserialize(made.serialize())
    assert again.in_tree == made.in_tree and again.out_tree == made.out_tree
    assert again.in_avals == made.in_avals and again.out_avals == made.out_avals
    assert (again.fun_name, again.platforms, again.nr_devices) == ("f", ("cpu",), 1)
    for call in (made.call, again.call, tfn.jit(again.call)):
        out = call(TREE, scale=3.0)
        np.testing.assert_allclose(out["product"], 3 * np.sin(TREE["a"]), rtol=1e-6)
        assert float(out["pair"][0]) == 3.0 and out["pair"][1][0].tolist() == [2, 3]
    with pytest.raises(TreeError, match="was exported for other arguments"):
        again.call(TREE)
    with pytest.raises(ShapeError, match="was serialized for other arguments"):
        again.call({**TREE, "a": np.ones(4, "float32")}, scale=3.0)


def test_gradients() -> None:
    made = export.deserialize(export.export(jit(f))(TREE, 3.0).serialize(vjp_order=1))
    loss = lambda a: made.call({**TREE, "a": a}, 3.0)["product"].sum()
    np.testing.assert_allclose(tfn.grad(loss)(TREE["a"]), 3 * np.cos(TREE["a"]), rtol=1e-6)
    assert made.has_vjp()
    back = export.deserialize(made.vjp().serialize())
    leaves = tfn.tree.leaves(((TREE, 3.0), {}))
    cts = [tnp.zeros(a.shape, a.dtype) for a in made.out_avals]
    at = next(i for i, a in enumerate(made.out_avals) if a.shape == (3,))
    cts[at] = tnp.ones(3)
    slopes = back.call(*leaves, *cts)
    np.testing.assert_allclose(slopes[0], 3 * np.cos(TREE["a"]), rtol=1e-6)
    assert slopes[1].tolist() == [0, 0]
    assert float(slopes[2]) == pytest.approx(float(np.sin(TREE["a"]).sum()), rel=1e-6)
    assert made.vjp().vjp().has_vjp()


def test_sizes_are_symbols() -> None:
    specs = export.symbolic_args_specs((np.ones((2, 3), "float32"),), "b, _", ["b >= 2"])
    made = export.export(jit(lambda x: (x.sum(0), x @ x.T)))(*specs)
    assert str(made.in_avals[0].shape) == "(b, 3)" and str(made.out_avals[1].shape) == "(b, b)"
    again = export.deserialize(made.serialize())
    for n in (2, 5):
        total, gram = again.call(np.ones((n, 3), "float32"))
        assert total.tolist() == [n] * 3 and gram.shape == (n, n)
    with pytest.raises(ShapeError, match="constraints"):
        again.call(np.ones((1, 3), "float32"))
    scope = export.SymbolicScope(["a <= 4"])
    shape = export.symbolic_shape("a, 2*a, ...", scope=scope, like=(None, None, 7))
    assert str(shape) == "(a, 2*a, 7)" and export.is_symbolic_dim(shape[0])
    assert export.symbolic_shape(None, like=(2, 3)) == (2, 3)
    with pytest.raises(ArgumentError, match="leaves sizes out"):
        export.symbolic_shape("a, _")


def test_static_arguments_are_part_of_the_function() -> None:
    made = export.export(jit(lambda x, n: x * n, static_argnums=1))(2.0, 3)
    assert export.deserialize(made.serialize()).call(5.0).item() == 15.0


def test_classes_in_trees_are_registered() -> None:
    made = export.export(jit(lambda p: Point(p.y, p.x)))(Point(1.0, 2.0))
    with pytest.raises(ExportError, match="Point cannot be in the trees"):
        made.serialize()
    export.register_namedtuple_serialization(Point, serialized_name="test.Point")
    try:
        assert export.deserialize(made.serialize()).call(Point(1.0, 2.0)) == Point(2.0, 1.0)
        with pytest.raises(ArgumentError, match="a name of its own"):
            export.register_namedtuple_serialization(Point, serialized_name="test.Point")
        data = made.serialize()
    finally:
        del export.NODES[Point]
    with pytest.raises(ExportError, match=r"the class test\.Point"):
        export.deserialize(data)


@tfn.tree.register_node_class
class Scaled:
    """A node with a static part."""

    def __init__(self, x: Any, by: int) -> None:
        self.x, self.by = x, by

    def tree_flatten(self) -> Any:
        """The array, and the static part."""
        return (self.x,), self.by

    @classmethod
    def tree_unflatten(cls, by: int, children: Any) -> Scaled:
        """The node again."""
        return cls(*children, by)


def test_static_parts_of_nodes_are_written() -> None:
    export.register_pytree_node_serialization(
        Scaled,
        serialized_name="test.Scaled",
        serialize_auxdata=lambda by: str(by).encode(),
        deserialize_auxdata=lambda data: int(data),
    )
    try:
        made = export.export(jit(lambda s: Scaled(s.x * s.by, s.by + 1)))(Scaled(2.0, 3))
        out = export.deserialize(made.serialize()).call(Scaled(2.0, 3))
        assert (float(out.x), out.by) == (6.0, 4)
    finally:
        del export.NODES[Scaled]


def test_damaged_bytes_are_refused() -> None:
    data = export.export(jit(lambda x: 2 * x))(1.0).serialize()
    for wrong in (b"", data[:10], data[:-1], bytes(data).replace(b'"leaf"', b'"none"', 1)):
        with pytest.raises(ExportError):
            export.deserialize(wrong)


def test_what_is_refused() -> None:
    with pytest.raises(ArgumentError, match="a jitted function"):
        export.export(lambda x: x)
    with pytest.raises(NotAvailableError, match="no MLIR"):
        export.export(jit(lambda x: x))(1.0).mlir_module()
    check = export.DisabledSafetyCheck.custom_call("solver")
    assert check.is_custom_call() == "solver"
    assert export.DisabledSafetyCheck.platform().is_custom_call() is None
    made = export.export(jit(lambda x: x), platforms=["cpu", "cuda"], disabled_checks=[check])(1.0)
    assert export.deserialize(made.serialize()).disabled_safety_checks == (check,)
