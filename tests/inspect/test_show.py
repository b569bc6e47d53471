"""One function at every stage; `test_show` compares the stages with pictures."""

from __future__ import annotations

import pytest

import tfn
from tfn.errors import ArgumentError
from tfn.hw.null import NULL_TARGET
from tfn.inspect.show import STAGES, View
from tfn.lower.target.grid import Grid
from tfn.lower.target.target import Target

X = tfn.ShapeDtypeStruct((4,), "float32")
VIEW = View(tfn.make_jaxpr(lambda x: tfn.numpy.exp(x).sum())(X), NULL_TARGET)


@pytest.mark.parametrize("stage", STAGES)
def test_stages(stage: str) -> None:
    assert VIEW.text(stage) and VIEW.text(stage) == VIEW.text(stage)


def test_assembly_names_the_functions_of_a_program() -> None:
    text = VIEW.text("assembly")
    names = [VIEW.program.name, *(kernel.name for kernel in VIEW.program.kernels)]
    assert all(f"{name}:" in text for name in names)


def test_a_grid_shows_the_text_of_its_kernels() -> None:
    grid = View(VIEW.jaxpr, Target("opencl", "", "", 4, grid=Grid()))
    assert "__kernel" in grid.text("text") and "group" not in grid.text("ranges")
    assert "launch" in grid.text("memory") and "load a[i1]" in grid.text("linear")
    with pytest.raises(ArgumentError, match="at='text' is that text"):
        grid.text("assembly")


def test_no_such_stage() -> None:
    with pytest.raises(ArgumentError, match="assembly"):
        VIEW.text("hlo")
