"""Grids as LLVM IR: what is the same for NVIDIA's GPUs and AMD's."""

from __future__ import annotations

import pytest

from tfn.dtypes import BOOL, FLOAT16, FLOAT32, FLOAT64, DType, int8
from tfn.lower.codegen.render import llvm_grid
from tfn.lower.codegen.render.writer import LlvmWriter, typed
from tfn.trace.argument import Param
from tfn.trace.jaxpr import param
from tfn.trace.op import Op
from tfn.trace.uop import UOp


@pytest.mark.parametrize(
    ("dtype", "words"), [(FLOAT64, 2), (FLOAT32, 1), (FLOAT16, 1), (int8.dtype, 1), (BOOL, 1)]
)
def test_a_value_is_exchanged_by_words(dtype: DType, words: int) -> None:
    w, x = LlvmWriter(), param(Param(0, (), dtype))
    w.names[x] = "%x"
    asked: list[tuple[str, int]] = []

    def exchange(w: LlvmWriter, word: str, distance: int) -> str:
        asked.append((word, distance))
        return "%other"

    u = UOp(Op.EXCHANGE, (x,), 4)
    name = llvm_grid.exchanged(w, u, exchange)
    assert len(asked) == words and {distance for _, distance in asked} == {4}
    assert typed(u) in f"{w.lines[-1] if w.lines else typed(u)}" and name.startswith("%")
