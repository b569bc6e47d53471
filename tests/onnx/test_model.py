"""Models that were loaded: values, transforms, export, training, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfn
from tests.onnx.building import graph, model, node, one, value
from tfn import lax, onnx, random
from tfn import numpy as tnp
from tfn.errors import ArgumentError, NotAvailableError, ShapeError

RNG = np.random.default_rng(0)
WEIGHTS = {
    "w": RNG.standard_normal((4, 8)).astype(np.float32),
    "b": RNG.standard_normal(8).astype(np.float32),
    "v": RNG.standard_normal((8, 3)).astype(np.float32),
}
ROWS = [
    node("Gemm", "x w b", "h"),
    node("Relu", "h", "r"),
    node("MatMul", "r v", "y"),
]
NETWORK = model(graph(ROWS, [value("x", np.float32, ["batch", 4])], ["y"], WEIGHTS))
X = RNG.standard_normal((5, 4)).astype(np.float32)


def here(params: Any, x: Any) -> Any:
    return tnp.maximum(x @ params["w"] + params["b"], 0) @ params["v"]


def test_a_network_gives_the_values_of_its_nodes() -> None:
    loaded = onnx.load(NETWORK)
    assert sorted(loaded.params) == ["b", "v", "w"] and loaded.opset == 23
    want = here(WEIGHTS, tnp.asarray(X))
    np.testing.assert_allclose(loaded(x=X)["y"], want, rtol=1e-5)
    np.testing.assert_allclose(tfn.jit(loaded)(X)["y"], want, rtol=1e-5)


def test_types_of_inputs_have_the_symbols_of_the_file() -> None:
    spec = onnx.load(NETWORK).inputs["x"]
    assert str(spec.shape) == "(batch, 4)" and spec.dtype == np.float32


@pytest.mark.usefixtures("uncompiled")
def test_sizes_that_the_file_leaves_open_may_have_buckets() -> None:
    network = onnx.load(NETWORK)
    run = tfn.jit(network, buckets=network.inputs)
    for n in (3, 5):
        x = np.ones((n, 4), np.float32)
        np.testing.assert_allclose(run(x=x)["y"], network(x=x)["y"], rtol=1e-5)
    assert [b.sizes for b in run.cache_info().buckets] == [{"batch": 8}]


def test_gradients_by_parameters_and_batches() -> None:
    loaded = onnx.load(NETWORK)
    got = tfn.grad(lambda m: (m(x=X)["y"] ** 2).sum())(loaded)
    want = tfn.grad(lambda p: (here(p, tnp.asarray(X)) ** 2).sum())(loaded.params)
    for name, slope in want.items():
        np.testing.assert_allclose(got.params[name], slope, rtol=1e-4, atol=1e-4)
    rows = tfn.vmap(lambda x: loaded(x=x)["y"])(tnp.asarray(X)[:, None])
    np.testing.assert_allclose(rows[:, 0], loaded(x=X)["y"], rtol=1e-5)


def test_an_exported_network_is_proved(tmp_path: Path) -> None:
    loaded = onnx.load(NETWORK)
    spec = tfn.ShapeDtypeStruct((5, 4), "float32")
    assert tfn.verify(lambda x: loaded(x=x)["y"], spec).proved
    exported = tfn.export(lambda x: loaded(x=x)["y"], spec, path=tmp_path / "net.c")
    assert [file.name for file in exported.files] == ["net.c", "net.h"]


def test_a_file_is_read_from_its_path(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(NETWORK)
    for path in (tmp_path / "net.onnx", str(tmp_path / "net.onnx")):
        np.testing.assert_allclose(onnx.load(path)(X)["y"], onnx.load(NETWORK)(X)["y"])
    with pytest.raises(OSError):
        onnx.load(tmp_path / "none.onnx")
    with pytest.raises(ArgumentError, match="a path or bytes"):
        onnx.load(3)  # type: ignore[arg-type]


def test_weights_that_are_nodes_are_parameters_and_shapes_are_not() -> None:
    rows = [
        node("Constant", "", "w", value=WEIGHTS["w"]),
        node("Constant", "", "s", value=np.array([-1], np.int64)),
        node("MatMul", "x w", "h"),
        node("Reshape", "h s", "y"),
    ]
    loaded = onnx.load(model(graph(rows, ["x"], ["y"])))
    assert list(loaded.params) == ["w"]
    np.testing.assert_allclose(
        tfn.jit(loaded)(X)["y"], (X @ WEIGHTS["w"]).reshape(-1), rtol=1e-5, atol=1e-6
    )


def test_weights_of_branches_are_parameters() -> None:
    """Unless two graphs have something of one name."""

    def branch(name: str, factor: float) -> dict[str, Any]:
        weights = {name: np.full(3, factor, np.float32), "both": np.full(3, 1.0, np.float32)}
        rows = [
            node("Constant", "", f"of_{name}", value=np.full(3, 2.0, np.float32)),
            node("Mul", f"x {name}", f"x_{name}"),
            node("Mul", f"x_{name} of_{name}", f"z_{name}"),
            node("Add", f"z_{name} both", f"y_{name}"),
        ]
        return graph(rows, [], [f"y_{name}"], weights)

    rows = [node("If", "c", "y", then_branch=branch("a", 3.0), else_branch=branch("b", 5.0))]
    loaded = onnx.load(
        model(graph(rows, [value("c", np.bool_, ()), value("x", np.float32, [3])], ["y"]))
    )
    assert sorted(loaded.params) == ["a", "b", "of_a", "of_b"]
    got = tfn.jit(tfn.grad(lambda m, c: m(c=c, x=tnp.ones(3))["y"].sum()))(loaded, tnp.array(True))
    assert got.params["a"].tolist() == [2.0] * 3 and got.params["of_a"].tolist() == [3.0] * 3
    assert not got.params["b"].any()
    assert loaded(c=tnp.array(False), x=tnp.ones(3))["y"].tolist() == [11.0] * 3


def test_shapes_are_computed_while_tracing() -> None:
    """A chain of shape arithmetic leaves no kernel."""
    rows = [
        node("Shape", "x", "s"),
        node("Gather", "s i", "n"),
        node("Concat", "n m", "t", axis=0),
        node("Reshape", "x t", "y"),
    ]
    constants = {"i": np.array([0], np.int64), "m": np.array([-1], np.int64)}
    loaded = onnx.load(model(graph(rows, ["x"], ["y"], constants)))
    x = tnp.ones((2, 3, 4))
    assert tfn.jit(loaded)(x)["y"].shape == (2, 12)
    assert str(tfn.show(lambda x: loaded(x=x)["y"], x, at="kernels")).count("kernel ") <= 1


def test_all_that_is_missing_is_told_at_once() -> None:
    rows = [
        node("TfIdfVectorizer", "x", "a"),
        node("Odd", "a", "b", "my.domain"),
        node("Odd", "b", "y", "my.domain"),
    ]
    loaded = onnx.load(model(graph(rows, ["x"], ["y"])))
    assert loaded.unsupported() == {"TfIdfVectorizer": 1, "my.domain.Odd": 2}
    with pytest.raises(NotAvailableError, match="2 operations") as raised:
        loaded(x=X)
    assert "TfIdfVectorizer (1), my.domain.Odd (2)" in str(raised.value)


def test_inputs_are_checked_by_name_and_shape() -> None:
    loaded = onnx.load(NETWORK)
    for args, inputs in (((), {}), ((X, X), {}), ((X,), {"x": X}), ((), {"z": X})):
        with pytest.raises(ArgumentError, match="inputs"):
            loaded(*args, **inputs)
    with pytest.raises(ShapeError, match="axis 1 of the input 'x' has 4 elements"):
        loaded(np.ones((2, 5), np.float32))
    with pytest.raises(ShapeError, match="has 2 axes"):
        loaded(np.ones(4, np.float32))
    pair = [value(n, np.float32, ["n"]) for n in "ab"]
    both = onnx.load(model(graph([node("Add", "a b", "y")], pair, ["y"])))
    with pytest.raises(ShapeError, match="'n' is one size"):
        both(np.ones(2, np.float32), np.ones(1, np.float32))


def test_functions_of_the_file_run_with_their_attributes() -> None:
    slope = {"name": "alpha", "reference": "slope", "type": 1}
    own = {
        "name": "Twice",
        "domain": "mine",
        "inputs": ["a"],
        "outputs": ["c"],
        "attributes": ["slope"],
        "nodes": [node("LeakyRelu", "a", "b") | {"attributes": [slope]}, node("Add", "b b", "c")],
        "opsets": [{"version": 23}],
    }
    made = graph([node("Twice", "x", "y", "mine", slope=0.5)], ["x"], ["y"])
    got = onnx.load(model(made, functions=[own]))(np.array([-2.0, 3.0], np.float32))
    assert got["y"].tolist() == [-2.0, 6.0]


def test_dropout_drops_with_a_key_in_training_alone() -> None:
    loaded = onnx.load(one("Dropout", X))
    assert np.array_equal(loaded(X)["y0"], X)
    assert np.array_equal(loaded(X, key=random.key(0))["y0"], X)
    dropped = np.asarray(loaded(X, key=random.key(0), training=True)["y0"])
    assert set(np.round(dropped[dropped != 0] / X[dropped != 0], 5)) == {2.0}
    assert 0 < (dropped == 0).sum() < X.size


def test_random_operations_need_a_key_and_repeat_with_it() -> None:
    loaded = onnx.load(model(graph([node("RandomNormal", "", "y", shape=[3])], [], ["y"])))
    with pytest.raises(ArgumentError, match="RandomNormal draws random numbers"):
        loaded()
    first, again = (loaded(key=random.key(1))["y"].tolist() for _ in range(2))
    assert first == again != loaded(key=random.key(2))["y"].tolist()


def test_an_error_names_the_node() -> None:
    loaded = onnx.load(one("MatMul", X, X))
    with pytest.raises(ShapeError) as raised:
        loaded(X, X)
    assert "in the node MatMul of the model" in "".join(raised.value.__notes__)


@pytest.mark.parametrize("axis", [0, 1])
def test_convolutions_of_dequantized_arrays_multiply_their_codes(axis: int) -> None:
    """Exact sums, scaled once, unless a scale is of the channels that are added."""
    scales = np.asarray([0.5, 0.25], np.float32)
    arrays = {
        "w": RNG.integers(-128, 128, (2, 2, 3, 3), np.int8),
        "ws": scales,
        "wz": np.zeros(2, np.int8),
        "xs": np.float32(0.125),
        "xz": np.uint8(130),
        "b": np.asarray([1, -2], np.float32),
    }
    rows = [
        node("DequantizeLinear", "x xs xz", "xf"),
        node("DequantizeLinear", "w ws wz", "wf", axis=axis),
        node("Conv", "xf wf b", "y", pads=[1, 1, 1, 1]),
    ]
    loaded = onnx.load(model(graph(rows, [value("x", np.uint8)], ["y"], arrays)))
    x = RNG.integers(0, 256, (1, 2, 6, 5), np.uint8)
    shape = (2, 1, 1, 1) if axis == 0 else (1, 2, 1, 1)
    operands = (x.astype("f8") - 130) / 8, arrays["w"] * scales.reshape(shape).astype("f8")
    want = lax.conv_general_dilated(*map(tnp.asarray, operands), (1, 1), ((1, 1), (1, 1)))
    np.testing.assert_array_equal(loaded(x=x)["y"], want + arrays["b"].reshape(2, 1, 1))
    assert ("i32[1,6,5,2] = conv" in str(tfn.make_jaxpr(loaded)(x))) == (axis == 0)


def test_gradients_of_quantized_networks_are_those_of_what_they_compute() -> None:
    """Rounding has the derivative zero: gradients reach scales, and arrays by way of these."""
    x = np.asarray([-2.0, 0.3, 3.1, 1.0], np.float32)
    arrays = {"s": np.float32(0.5), "z": np.uint8(7)}
    fixed = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "y")]
    loaded = onnx.load(model(graph(fixed, [value("x", np.float32)], ["y"], arrays)))
    loss = lambda model, x: model(x=x)["y"].sum()
    by_model, by_x = tfn.grad(loss, argnums=(0, 1))(loaded, tnp.asarray(x))
    np.testing.assert_allclose(by_model.params["s"], np.round(x / 0.5).sum())
    assert not by_x.any()
    rows = [node("DynamicQuantizeLinear", "x", "q s z"), node("DequantizeLinear", "q s z", "y")]
    loaded = onnx.load(model(graph(rows, [value("x", np.float32)], ["y"], {})))
    by_x = tfn.grad(loss, argnums=1)(loaded, tnp.asarray(x))
    codes = np.round(x / (np.float32(5.1) / 255)).sum()  # the scale is (3.1 + 2) / 255
    np.testing.assert_allclose(by_x, codes / 255 * np.asarray([-1, 0, 1, 0]), rtol=1e-5)


def test_operands_are_the_constants_of_named_nodes() -> None:
    product = node("MatMul", "x w", "y") | {"name": "layer/product"}
    rows = [product, node("Relu", "y", "z") | {"name": "relu"}]
    network = model(graph(rows, [value("x", np.float32, [1, 4])], ["z"], {"w": WEIGHTS["w"]}))
    found = onnx.load(network).operands()
    assert [*found] == ["layer/product"]
    np.testing.assert_array_equal(found["layer/product"][0], WEIGHTS["w"])
