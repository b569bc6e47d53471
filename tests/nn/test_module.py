"""Modules as trees: what is a leaf, what is static, and how one is made of another."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np
import pytest

import tfn
from tests.covering import in_turn
from tests.nn.waves import wave
from tfn import nn, random, tree
from tfn import numpy as jnp
from tfn.errors import ArgumentError, TreeError
from tfn.trace import source_lines
from tfn.trace.uop import walk

KEY = random.key(0)


@nn.module
class Affine:
    scale: tfn.Array
    shift: tfn.Array | None = None
    power: int = nn.static(default=1)

    def __call__(self, x: Any) -> Any:
        y = (self.scale * x) ** self.power
        return y if self.shift is None else y + self.shift


def test_a_module_is_immutable_and_final() -> None:
    layer = Affine(jnp.ones(2))
    with pytest.raises(dataclasses.FrozenInstanceError):
        layer.scale = jnp.zeros(2)  # type: ignore[misc]
    with pytest.raises(ArgumentError, match=r"subclassed\n  got: Wider\(Affine\)"):

        class Wider(Affine):
            pass

    assert layer != Affine(layer.scale)  # no element is compared
    assert layer == layer
    assert {layer: 1}[layer] == 1


class Shaped(Protocol):
    """A protocol, which modules may have in common."""

    def size(self) -> int:
        return 3


def test_a_module_may_follow_a_protocol() -> None:
    @nn.module
    class Three(Shaped):
        x: tfn.Array

    three = tree.map(lambda x: 2 * x, Three(jnp.ones(())))
    assert (three.size(), three.x.item()) == (3, 2)


def test_fields_are_leaves_or_static() -> None:
    layer = Affine(jnp.ones(2), power=3)
    assert tree.paths(layer) == [".scale"]
    assert tree.structure(layer) == tree.structure(Affine(jnp.zeros(5), power=3))
    assert tree.structure(layer) != tree.structure(Affine(jnp.ones(2), power=2))
    assert repr(layer) == "Affine(scale=f32[2], shift=None, power=3)"
    nested = Affine((jnp.ones((2, 1), "bfloat16"),), [nn.relu, "x", {"k": 1.5}])  # type: ignore[arg-type]
    assert repr(nested) == "Affine(scale=(bf16[2,1],), shift=[relu, 'x', {'k': 1.5}], power=1)"
    for other in (pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer)):
        assert isinstance(other, Affine)
        assert (other.scale.tolist(), other.power) == ([1, 1], 3)


def test_modules_go_through_transforms() -> None:
    layer = Affine(jnp.array([1.0, 2.0]), jnp.zeros(()), power=2)
    slope = tfn.jit(tfn.grad(lambda layer, x: layer(x).sum()))(layer, jnp.array([3.0, 1.0]))
    assert isinstance(slope, Affine)
    assert (slope.scale.tolist(), slope.shift.tolist(), slope.power) == ([18, 4], 2, 2)
    doubled = tfn.vmap(lambda layer, x: layer(x), in_axes=(Affine(0, None, 2), None))(  # type: ignore[arg-type]
        layer, jnp.array([3.0, 1.0])
    )
    assert doubled.tolist() == [[9, 1], [36, 4]]
    abstract = tfn.eval_shape(lambda: layer)
    assert abstract.scale.shape == (2,)


def test_tree_at_replaces_nodes() -> None:
    model = nn.MLP.init(KEY, (3, 4, 2))
    new = jnp.zeros((3, 4))
    changed = nn.tree_at(lambda m: m.layers[0].weight, model, new)
    assert changed.layers[0].weight is new
    assert changed.layers[1].weight is model.layers[1].weight
    assert changed.layers[0].bias is model.layers[0].bias
    layer = nn.Linear.init(KEY, 4, 5)
    assert nn.tree_at(lambda m: m.layers[1], model, layer).layers[1].bias.shape == (5,)
    two = nn.tree_at(lambda m: (m.layers[0].bias, m.layers[1].bias), model, (1, 2))
    assert (two.layers[0].bias, two.layers[1].bias) == (1, 2)
    whole = nn.tree_at(lambda m: m.layers, model, ())
    assert whole.layers == ()
    grown = nn.tree_at(lambda m: m.layers, model, replace_fn=lambda layers: (*layers, layer))
    assert [f.weight.shape for f in grown.layers] == [(3, 4), (4, 2), (4, 5)]
    assert nn.tree_at(lambda m: m, model, 5) == 5


def test_tree_at_and_none() -> None:
    bare = nn.Linear.init(KEY, 2, 3, use_bias=False)
    with pytest.raises(ArgumentError, match="changes nodes of the tree"):
        nn.tree_at(lambda m: m.weight.shape if hasattr(m.weight, "shape") else 3, bare, 1)
    actual = nn.tree_at(lambda m: m.bias, bare, jnp.ones(3), is_leaf=lambda x: x is None)
    assert actual(jnp.zeros(2)).tolist() == [1, 1, 1]
    assert nn.tree_at(lambda m: m.weight, actual, None).weight is None


def test_partition_and_combine() -> None:
    model = nn.MLP.init(KEY, (3, 4, 2))
    first, rest = nn.partition(model, tree.map(lambda x: x.ndim == 2, model))
    assert [x.ndim for x in tree.leaves(first)] == [2, 2]
    assert [x.ndim for x in tree.leaves(rest)] == [1, 1]
    back = nn.combine(first, rest)
    assert tree.structure(back) == tree.structure(model)
    assert all(a is b for a, b in zip(tree.leaves(back), tree.leaves(model), strict=True))
    mixed = {"x": jnp.ones(2), "n": jnp.arange(2), "name": "text", "size": 3, "none": None}
    kept = nn.filter(mixed, nn.is_inexact_array)
    assert {k for k, v in kept.items() if v is not None} == {"x"}
    others = nn.filter(mixed, nn.is_array, inverse=True)
    assert others == {"x": None, "n": None, "name": "text", "size": 3, "none": None}
    assert nn.combine(kept, others)["name"] == "text"
    assert nn.filter({"a": [1, 2], "b": 3}, {"a": True, "b": False}) == {"a": [1, 2], "b": None}
    with pytest.raises(TreeError):
        nn.filter({"a": 1}, {"b": True})


def test_a_part_of_a_model_is_trained() -> None:
    model = nn.MLP.init(KEY, (3, 4, 2))
    spec = nn.tree_at(lambda m: m.layers[1], tree.map(lambda _: False, model), True)
    trained, frozen = nn.partition(model, spec)
    slopes = tfn.jit(tfn.grad(lambda t: (nn.combine(t, frozen)(jnp.ones(3)) ** 2).sum()))(trained)
    assert slopes.layers[0].weight is None
    assert slopes.layers[1].weight.shape == (4, 2)


def test_cast_and_count() -> None:
    model = {"net": nn.Linear.init(KEY, 3, 4), "steps": jnp.arange(2), "name": "x"}
    half = nn.cast(model, "bfloat16")
    assert (half["net"].weight.dtype, half["steps"].dtype) == (jnp.bfloat16, jnp.int32)
    assert half["name"] == "x"
    assert nn.parameter_count(model) == 12 + 4 + 2
    assert np.asarray(half["net"](jnp.ones(3, "bfloat16"))).dtype == jnp.bfloat16


# What all modules must do.

IMAGES = wave(2, 5, 6, 4)
PLACES = wave(2, 5, 8)
MODULES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "linear": (lambda k: nn.Linear.init(k, 8, 3), PLACES),
    "mlp": (lambda k: nn.MLP.init(k, (8, 5, 3), activation=nn.gelu), PLACES),
    "embedding": (lambda k: nn.Embedding.init(k, 9, 4), jnp.array([[1, 3], [8, 0]])),
    "conv1d": (lambda k: nn.Conv1d.init(k, 8, 3, 3), PLACES),
    "conv2d": (lambda k: nn.Conv2d.init(k, 4, 6, 3, strides=2, groups=2), IMAGES),
    "conv3d": (lambda k: nn.Conv3d.init(k, 4, 2, 2), IMAGES[:, :, :, None]),
    "transposed": (lambda k: nn.ConvTranspose2d.init(k, 4, 3, 3, strides=2), IMAGES),
    "layer norm": (lambda k: nn.LayerNorm.init(8), PLACES),
    "rms norm": (lambda k: nn.RMSNorm.init(8), PLACES),
    "group norm": (lambda k: nn.GroupNorm.init(2, 4), IMAGES),
    "attention": (lambda k: nn.MultiheadAttention.init(k, 8, 4, kv_heads=2), PLACES),
    "feed": (lambda k: nn.FeedForward.init(k, 8, 12, gated=True), PLACES),
    "block": (lambda k: nn.TransformerBlock.init(k, 8, 2, rotary_base=100.0), PLACES),
    "lstm": (lambda k: Outputs(nn.LSTM.init(k, 8, 3)), PLACES),
    "gru": (lambda k: Outputs(nn.GRU.init(k, 8, 3)), PLACES),
}


@nn.module
class Outputs:
    """Returns the first of two results."""

    of: Any

    def __call__(self, x: Any) -> Any:
        return self.of(x)[0]


@pytest.mark.parametrize("name", in_turn(2, MODULES))
def test_laws(name: str) -> None:
    make, x = MODULES[name]
    modules = [make(key) for key in random.split(KEY)]
    ys = [module(x) for module in modules]
    near = partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-4)

    near(tfn.jit(lambda module, x: module(x))(modules[0], x), ys[0])
    stacked = tree.map(lambda *leaves: jnp.stack(leaves), *modules)
    near(tfn.vmap(lambda module: module(x))(stacked), jnp.stack(ys))

    def loss(module: Any) -> Any:
        return (module(x) * wave(*ys[0].shape, start=3)).sum()

    slope = tfn.jit(tfn.grad(loss))(modules[0])
    assert tree.structure(slope) == tree.structure(modules[0])
    nudge = tree.map(lambda leaf: 1e-2 * wave(*leaf.shape, start=1), modules[0])
    up, down = (
        loss(tree.map(lambda leaf, d, s=s: leaf + s * d, modules[0], nudge)) for s in (1, -1)
    )
    along = sum((g * d).sum() for g, d in zip(tree.leaves(slope), tree.leaves(nudge), strict=True))
    near(2 * along, up - down, rtol=2e-2, atol=2e-3)

    floats = jnp.issubdtype(x.dtype, jnp.floating)
    half = nn.cast(modules[0], "bfloat16")(x.astype("bfloat16") if floats else x)
    assert half.dtype == jnp.bfloat16
    near(half.astype("float32"), ys[0], rtol=0.1, atol=0.1)


def test_a_summary_counts_arrays_by_path() -> None:
    kind = tfn.ShapeDtypeStruct((2,), "int8")
    tree = {"a": nn.Linear.init(random.key(0), 3, 4), "b": (kind, "x")}
    rows = [line.split() for line in nn.summary(tree).splitlines()]
    assert rows[0] == ["path", "shape", "dtype", "parameters", "bytes"]
    assert rows[1] == ["['a'].weight", "(3,", "4)", "float32", "12", "48"]
    assert rows[3] == ["['b'][0]", "(2,)", "int8", "2", "2"] and rows[-1] == ["total", "18", "66"]
    short = nn.summary(tree, depth=1).splitlines()
    assert short[1].split() == ["['a']", "2", "arrays", "float32", "16", "64"] and len(short) == 4
    assert nn.summary(jnp.ones(3)).splitlines()[1].startswith("the array  (3,)")
    assert nn.summary(None).splitlines()[-1].split() == ["total", "0", "0"]
    with pytest.raises(ArgumentError, match="depth"):
        nn.summary(tree, depth=0)


def test_a_call_of_a_module_is_a_scope_under_the_name_of_its_field() -> None:
    mlp = nn.MLP.init(random.key(0), (2, 3, 1))
    model = nn.Sequential.init(mlp, nn.Stack.init(lambda k: nn.Lambda(jnp.sin), random.key(1), 2))
    with source_lines.tracking():
        jaxpr = tfn.jit(model).trace(jnp.ones((4, 2))).jaxpr
        found = {source_lines.scope_of(u) for u in walk(jaxpr.outputs)}
    assert {("Sequential", "layers[0]", f"layers[{i}]") for i in (0, 1)} <= found
    assert ("Sequential", "layers[1]") in found
