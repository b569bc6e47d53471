"""Graphs made shorter."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfn.dtypes import FLOAT32
from tfn.onnx.builder import Body, Row, Value
from tfn.onnx.tidy import tidied


def row(op: str, inputs: str, output: str, **attributes: Any) -> Row:
    return Row(op, inputs.split(), [output], attributes)


def tidy(rows: list[Row], outputs: str, constants: Any = None, weights: Any = ()) -> Any:
    results = [Value(name, FLOAT32, ()) for name in outputs.split()]
    names = [f"y{i}" for i in range(len(results))]
    constants = {} if constants is None else constants
    made = tidied(Body(rows, [], results), constants, ["x", *weights], names)
    assert [v.name for v in made.outputs] == names
    return [(r.op, r.inputs, r.outputs) for r in made.rows]


def test_equal_nodes_are_one_and_unread_ones_none() -> None:
    rows = [
        row("Neg", "x", "a"),
        row("Neg", "x", "b"),
        row("Abs", "x", "c"),
        row("Add", "a b", "d"),
    ]
    assert tidy(rows, "d") == [("Neg", ["x"], ["neg_1"]), ("Add", ["neg_1", "neg_1"], ["y0"])]


def test_a_result_is_made_by_a_node_and_is_one_result() -> None:
    copies = tidy([row("Neg", "x", "a"), row("Neg", "x", "b")], "a b x")
    assert [op for op, _, _ in copies] == ["Neg", "Identity", "Identity"]


def test_equal_numbers_are_one_and_named_by_their_value() -> None:
    two = {name: np.array(2, np.float32) for name in ("p", "q")}
    rows = [row("Mul", "x p", "a"), row("Mul", "a q", "b")]
    assert [inputs[1] for _, inputs, _ in tidy(rows, "b", two)] == ["2.0", "2.0"]
    assert list(two) == ["2.0"]


def test_transpositions_are_composed_and_those_of_weights_done() -> None:
    turn = {"perm": [1, 0]}
    rows = [row("Transpose", "x", "a", **turn), row("Transpose", "a", "b", **turn)]
    assert tidy([*rows, row("Neg", "b", "c")], "c") == [("Neg", ["x"], ["y0"])]
    held = {"w": np.ones((2, 3), np.float32)}
    made = tidy([row("Transpose", "w", "a", **turn), row("MatMul", "x a", "b")], "b", held, ["w"])
    assert made == [("MatMul", ["x", "w"], ["y0"])] and held["w"].shape == (3, 2)


def test_graphs_within_nodes_read_what_is_joined_outside() -> None:
    inner = Body([row("Neg", "x", "b")], [], [Value("b", FLOAT32, ())])
    rows = [row("Neg", "x", "a"), row("Abs", "a", "c"), row("If", "c", "d", then_branch=inner)]
    results = [Value("d", FLOAT32, ())]
    made = tidied(Body(rows, [], results), {}, ["x"], ["y"])
    (copy,) = made.rows[-1].attributes["then_branch"].rows
    assert (copy.op, copy.inputs) == ("Identity", ["neg_1"])
