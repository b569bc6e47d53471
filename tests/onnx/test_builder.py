"""Graphs in the making: names, constants, values smaller than their nodes."""

from __future__ import annotations

import numpy as np

import tfn
from tfn import numpy as tnp
from tfn.dtypes import FLOAT32
from tfn.onnx.builder import OPSET, Builder, Shared, Term
from tfn.onnx.insides import anyhow, lowered, param
from tfn.onnx.rules import RULES


def test_each_name_is_given_once_and_nodes_raise_the_version() -> None:
    b = Builder(Shared(), RULES)
    assert b.add("Add", "x", "y") != b.nested().add("Add", "x", "y")
    assert b.shared.opset == OPSET
    b.add("BitCast", "x", opset=26)
    assert b.shared.opset == 26
    assert b.shared.constants[b.number(2, FLOAT32)] == np.float32(2)


def test_a_value_stays_small_until_all_of_it_is_asked_for() -> None:
    closed = lowered(anyhow(lambda x: tnp.broadcast_to(x, (4, 3)))(np.ones((1, 3), np.float32)))
    b = Builder(Shared(), RULES)
    b.terms[param(closed.arg.params[0])] = Term("x", (1, 3))
    b.values(closed.src)
    assert b.term(closed.src[0]) == Term("x", (1, 3)) and not b.rows
    b.full(closed.src[0])
    assert [row.op for row in b.rows] == ["Expand"]
    assert b.full(closed.src[0]) == b.rows[0].outputs[0] and len(b.rows) == 1


def test_a_call_is_written_in_place() -> None:
    inner = tfn.jit(lambda x: x * 2)
    closed = lowered(anyhow(lambda x: inner(x) + inner(x * 3))(np.ones(3, np.float32)))
    b = Builder(Shared(), RULES)
    b.terms[param(closed.arg.params[0])] = Term("x", (3,))
    b.values(closed.src)
    assert sorted(row.op for row in b.rows) == ["Add", "Mul", "Mul", "Mul"]
