"""Functions that were saved: names, sizes that are open, weights beside the file, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tfn
from tests.onnx.saved import RUNTIME, close, floats, holds, integers, message, model_of, run
from tfn import lax, nn, onnx, tree
from tfn import numpy as tnp
from tfn.errors import ExportError, NotAvailableError
from tfn.onnx import saving

LAYERS = {"w": floats(8, 16) * 0.3, "b": floats(16), "v": floats(16, 4) * 0.3}
X, LABELS = floats(5, 8), integers(4, 5)


def network(params: Any, x: Any) -> Any:
    return nn.relu(x @ params["w"] + params["b"]) @ params["v"]


def train(params: Any, x: Any, y: Any) -> Any:
    """A step of gradient descent."""

    def loss(p: Any) -> Any:
        return -(nn.log_softmax(network(p, x)) * nn.one_hot(y, 4)).sum(1).mean()

    value, slopes = tfn.value_and_grad(loss)(params)
    return {"loss": value, "params": tree.map(lambda p, g: p - 0.1 * g, params, slopes)}


def spec(*shape: Any, dtype: str = "float32") -> tfn.ShapeDtypeStruct:
    return tfn.ShapeDtypeStruct(shape, dtype)


(B,) = tfn.export.symbolic_shape("batch")


@pytest.mark.skipif(not RUNTIME, reason="onnxruntime is not installed: pip install onnxruntime")
def test_onnxruntime_takes_a_training_step() -> None:
    leaves = [np.asarray(x) for x in tree.leaves((LAYERS, X, LABELS))]
    want = tree.leaves(tfn.jit(train)(LAYERS, X, LABELS))
    close(run(model_of(train, LAYERS, X, LABELS), leaves), want)


def test_a_training_step_of_any_batch() -> None:
    holds(train, LAYERS, X, LABELS, specs=(LAYERS, spec(B, 8), spec(B, dtype="int32")))


def test_networks_of_any_batch() -> None:
    kernel = floats(3, 3, 3, 4)

    def images(x: Any) -> Any:
        planes = ("NHWC", "HWIO", "NHWC")
        x = lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=planes)
        return nn.max_pool(nn.relu(x), (2, 2), (2, 2)).reshape(x.shape[0], -1).mean(0)

    holds(images, floats(3, 4, 4, 3), specs=(spec(B, 4, 4, 3),))
    batch, time = tfn.export.symbolic_shape("b, t")
    attention = lambda q: nn.dot_product_attention(q, q, q)
    holds(attention, floats(2, 5, 2, 4), specs=(spec(batch, time, 2, 4),))


def test_sizes_within_values_and_loops() -> None:
    def function(x: Any) -> Any:
        n = x.shape[0]
        last = lax.fori_loop(0, n, lambda i, c: c + x[i], tnp.zeros(3))
        return x.reshape(-1, 2, 3), tnp.arange(n), x.std(0), last, tnp.concatenate([x, x]), x[1:]

    (double,) = tfn.export.symbolic_shape("2*b + 2")
    holds(function, floats(6, 3), specs=(spec(double, 3),))


def test_names_are_those_of_arguments_weights_and_results() -> None:
    made = message(model_of(train, LAYERS, spec(B, 8), spec(B, dtype="int32")))["graph"]
    assert [v["name"] for v in made["inputs"]] == ["params.b", "params.v", "params.w", "x", "y"]
    assert [v["name"] for v in made["outputs"]][:2] == ["loss", "params.b_2"]
    assert made["name"] == "train" and made["nodes"][-1]["name"]
    shape = made["inputs"][3]["type"]["tensor"]["shape"]["dims"]
    assert [n["symbol"] or n["size"] for n in shape] == ["batch", 8]


def test_captured_arrays_are_weights_under_the_names_of_their_holders() -> None:
    layers = tree.map(tnp.asarray, LAYERS)
    loaded = onnx.load(model_of(lambda x: network(layers, x), X))
    assert {"layers.b", "layers.v", "layers.w"} <= loaded.params.keys()


def test_operations_without_a_counterpart_are_listed_at_once(tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        for _ in range(2):
            x = tfn.pure_callback(np.sin, tfn.ShapeDtypeStruct((3,), "float32"), x)
        return x

    with pytest.raises(NotAvailableError, match="ONNX lacks 1") as caught:
        onnx.save(function, floats(3), path=tmp_path / "net.onnx")
    assert "(2)" in str(caught.value) and not list(tmp_path.iterdir())
    with pytest.raises(NotAvailableError, match="complex64"):
        onnx.save(tnp.conj, np.complex64([1j]), path=tmp_path / "net.onnx")


def test_functions_with_effects_and_of_some_sizes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="effects"):
        onnx.save(lambda x: tfn.debug.print("{}", x), floats(3), path=tmp_path / "net.onnx")
    odd = lambda x: x * 2 if x.shape[0] % 2 else x
    with pytest.raises(ExportError, match="not the same function"):
        onnx.save(odd, spec(B, 3), path=tmp_path / "net.onnx")


def test_weights_that_are_too_many_lie_beside_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "FILE_LIMIT_BYTES", 1 << 12)
    w = tnp.asarray(floats(64, 64))
    onnx.save(lambda x: tnp.tanh(x @ w) @ w, floats(2, 64), path=tmp_path / "net.onnx")
    assert (tmp_path / "net.onnx").stat().st_size < 2000
    assert (tmp_path / "net.onnx.data").stat().st_size == 64 * 64 * 4
    x, loaded = floats(2, 64), onnx.load(tmp_path / "net.onnx")
    close([loaded(x)["output"]], [tnp.tanh(x @ w) @ w])
    assert "net.onnx.data" in mapping_of(np.asarray(loaded.params["w"]))  # it was not copied


def mapping_of(x: np.ndarray[Any, Any]) -> str:
    """The line of /proc/self/maps in which an array begins."""
    address = x.__array_interface__["data"][0]
    for line in Path("/proc/self/maps").read_text().splitlines():
        low, high = (int(n, 16) for n in line.split()[0].split("-"))
        if low <= address < high:
            return line
    return ""


def test_narrow_integers_share_bytes() -> None:
    values = np.arange(-8, 5).astype(ml_dtypes.int4)
    held = tnp.asarray(values)
    loaded = onnx.load(model_of(lambda x: x + held.astype("float32"), floats(13)))
    close([loaded(np.zeros(13, np.float32))["output"]], [values.astype(np.float32)])
