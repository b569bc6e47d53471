"""Sizes that are open: numbers of several graphs as formulas in the shapes of inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
from tests.onnx.saved import floats, message, model_of
from tfn import numpy as tnp
from tfn import onnx
from tfn.errors import ExportError
from tfn.onnx.builder import Body, Builder, Row, Shared
from tfn.onnx.rules import RULES
from tfn.onnx.sizes import Sizes, unified

PLACES = [{"b": n} for n in (3, 5, 8, 13)]


def sizes() -> Sizes:
    return Sizes(Builder(Shared(), RULES), PLACES, {})


def test_numbers_are_polynomials_or_have_no_formula() -> None:
    squares = sizes().fitted([2 * p["b"] ** 2 - 1 for p in PLACES])
    assert squares == {("b", "b"): 2, (): -1}
    assert sizes().fitted([2 ** p["b"] for p in PLACES]) is None
    assert sizes().constant([np.array([2 ** p["b"]]) for p in PLACES]) is None


def test_a_file_computes_sizes_of_the_shapes_of_its_inputs() -> None:
    b, c = tfn.export.symbolic_shape("2*b + 2, c")
    spec = tfn.ShapeDtypeStruct((b, c), "float32")

    def function(x: Any) -> Any:
        n, m = x.shape
        return x.sum() / (n * m), tnp.arange(n // 2) * m, x.reshape(n // 2, 2, m), x.mean(0)

    data = model_of(function, spec)
    for x in (floats(4, 3), floats(8, 1)):
        want = function(tnp.asarray(x))
        for got, value in zip(onnx.load(data)(x).values(), want, strict=True):
            np.testing.assert_allclose(got, value, rtol=1e-5)
    shape = message(data)["graph"]["inputs"][0]["type"]["tensor"]["shape"]["dims"]
    assert [n["symbol"] for n in shape] == ["2*b + 2", "c"]


def test_reshape_finds_one_open_size_itself() -> None:
    (b,) = tfn.export.symbolic_shape("b")
    data = model_of(lambda x: x.reshape(-1, 2), tfn.ShapeDtypeStruct((b, 4), "float32"))
    assert [node["op"] for node in message(data)["graph"]["nodes"]] == ["Reshape"]


def test_graphs_of_other_nodes_are_refused() -> None:
    graphs = [(Body([Row(op, ["x"], ["y"], {})], [], []), {}) for op in ("Neg", "Abs")]
    with pytest.raises(ExportError, match="cannot be written for all sizes"):
        unified(graphs, sizes(), "f")
