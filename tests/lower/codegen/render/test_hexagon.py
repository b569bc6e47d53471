"""Hexagon's rows: what its back end gets wrong is not said; what they mean is tested on the DSP."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
from tfn import numpy as jnp
from tfn.hw.cpu.target import named
from tfn.lower import pipeline
from tfn.lower.program import Program


def lowered(function: Any, *kinds: tuple[tuple[int, ...], str]) -> Program:
    """The program of a function for Hexagon."""
    operands = [tfn.ShapeDtypeStruct(*kind) for kind in kinds]
    return pipeline.lower(tfn.jit(function).trace(*operands).jaxpr, named("hexagon"))


def selections(program: Program) -> list[str]:
    return [
        line
        for kernel in program.kernels
        for line in kernel.text.splitlines()
        if " = select " in line
    ]


@pytest.mark.parametrize("dtype", ["int8", "int32", "bool"])
def test_masked_vectors_are_whole_ones_and_selections(dtype: str) -> None:
    program = lowered(lambda x: jnp.pad(x[::-1], (3, 5)), ((77,), dtype))
    text = program.kernels[0].text
    assert "masked.load" not in text
    assert "masked.store" not in text
    itemsize = np.dtype(dtype).itemsize
    assert f"store <{128 // itemsize} x i{8 * itemsize}>" in text
    assert selections(program)


def test_values_of_64_bits_and_gathers_are_scalars() -> None:
    """Vectors of 64-bit numbers take the back end minutes, and it gives wrong results."""
    program = lowered(lambda x, i: x[i], ((77,), "int32"), ((50,), "int32"))
    assert "load <" not in program.kernels[0].text
    program = lowered(lambda x: (x.astype("int64") * 3 >> 1).astype("int32"), ((77,), "int32"))
    assert "<" not in program.kernels[0].text.split("ret void")[0].split("entry:")[1]


def test_masks_are_selected_by_their_bits() -> None:
    program = lowered(lambda x: jnp.where(x % 3 == 0, x > 5, x < -5), ((77,), "int32"))
    assert not any("<32 x i1> %v" in line.split(",", 1)[1] for line in selections(program))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats_are_scalars_that_are_selected_as_integers(dtype: str) -> None:
    program = lowered(lambda x, y: jnp.where(x < y, x, y), ((50,), dtype), ((50,), dtype))
    bits = 8 * np.dtype(dtype).itemsize
    assert selections(program)
    assert all(f", i{bits} " in line for line in selections(program))


def test_programs_report_their_kernels_and_have_pointers_of_32_bits() -> None:
    program = lowered(lambda x: jnp.sort(x) + 1, ((50,), "int32"))
    assert program.text.count("store volatile i32") == len(program.launches)
    assert not [line for line in program.text.splitlines() if "ptr" in line and "align 8" in line]
    for kernel in program.kernels:
        assert "load ptr" in kernel.text
        assert not [s for s in kernel.text.splitlines() if "load ptr" in s and "align 8" in s]
