"""Branches, loops and sequences: known ones, and those whose end is traced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
from tests.onnx.building import graph, model, node, value
from tests.onnx.ops.cases import F
from tfn import onnx
from tfn.errors import NotAvailableError

X = F([1, 2, 3])


def branch(op: str) -> dict[str, Any]:
    return graph([node(op, "x x", "z")], [], ["z"])


def test_a_branch_is_chosen_known_or_traced() -> None:
    rows = [node("If", "c", "y", then_branch=branch("Add"), else_branch=branch("Sub"))]
    loaded = onnx.load(model(graph(rows, [value("c", np.bool_), "x"], ["y"])))
    for c, want in ((True, 2 * X), (False, 0 * X)):
        np.testing.assert_array_equal(loaded(np.array(c), X)["y"], want)
        np.testing.assert_array_equal(tfn.jit(loaded)(np.array(c), X)["y"], want)


BODY = graph(
    [
        node("Add", "v x", "w"),
        node("Identity", "w", "row"),
        node("ReduceSum", "w", "s", keepdims=0),
        node("Less", "s limit", "go"),
    ],
    [value("i", np.int64), value("c", np.bool_), "v"],
    ["go", "w"],
    {"limit": F(20)},
)


def looped(rows: bool) -> Any:
    body = BODY | {"outputs": [*BODY["outputs"], value("row")]} if rows else BODY
    outputs = "y r" if rows else "y"
    made = [node("Loop", "n . x", outputs, body=body)]
    return onnx.load(model(graph(made, [value("n", np.int64), "x"], outputs.split())))


def test_a_loop_ends_by_count_or_condition() -> None:
    for n, steps in ((2, 2), (99, 3)):
        got = looped(rows=True)(np.array(n), X)
        np.testing.assert_array_equal(got["y"], X * (steps + 1))
        assert got["r"].shape == (steps, 3)
        np.testing.assert_array_equal(
            tfn.jit(looped(rows=False))(np.array(n), X)["y"], X * (steps + 1)
        )


def test_rows_of_a_loop_whose_end_is_traced_are_refused() -> None:
    with pytest.raises(NotAvailableError, match="number of steps that is known"):
        tfn.jit(looped(rows=True))(np.array(3), X)


def test_a_scan_has_states_and_rows() -> None:
    body = graph([node("Add", "a b", "s"), node("Identity", "s", "row")], ["a", "b"], ["s", "row"])
    rows = [node("Scan", "x m", "last r", body=body, num_scan_inputs=1, scan_input_directions=[1])]
    loaded = onnx.load(model(graph(rows, ["x", "m"], ["last", "r"])))
    m = np.arange(6, dtype=F).reshape(2, 3)
    got = tfn.jit(loaded)(X, m)
    np.testing.assert_array_equal(got["last"], X + m.sum(0))
    np.testing.assert_array_equal(got["r"], np.stack([X + m[1], X + m.sum(0)]))


def test_sequences_are_lists() -> None:
    rows = [
        node("SequenceConstruct", "x x", "s"),
        node("SequenceInsert", "s z i", "t"),
        node("SequenceErase", "t j", "u"),
        node("SequenceLength", "u", "n"),
        node("SequenceAt", "u i", "a"),
        node("ConcatFromSequence", "u", "y", axis=0),
        node("SplitToSequence", "x", "parts", axis=0, keepdims=0),
        node("SequenceAt", "parts j", "p"),
    ]
    constants = {"i": np.array(0), "j": np.array(-1)}
    loaded = onnx.load(model(graph(rows, ["x", "z"], ["n", "a", "y", "p"], constants)))
    got = loaded(X, X[:1])
    assert got["n"].item() == 2 and got["a"].tolist() == [1] and got["y"].tolist() == [1, 1, 2, 3]
    assert got["p"].tolist() == 3


def test_a_value_may_be_left_out() -> None:
    rows = [
        node("OptionalHasElement", "x", "y"),
        node("Optional", "x", "o"),
        node("OptionalGetElement", "o", "z"),
    ]
    loaded = onnx.load(model(graph(rows, ["x"], ["y", "z"])))
    assert loaded(X)["y"].item() and loaded(X)["z"].tolist() == [1, 2, 3]
    absent = onnx.load(model(graph([node("OptionalHasElement", ".", "y")], [], ["y"])))
    assert not absent()["y"].item()


def test_constants_are_attributes() -> None:
    rows = [
        node("Constant", "", "a", value_float=1.5),
        node("Constant", "", "b", value_ints=[1, 2]),
    ]
    got = onnx.load(model(graph(rows, [], ["a", "b"])))()
    assert got["a"].dtype == F and got["b"].dtype == np.int64 and got["b"].tolist() == [1, 2]
