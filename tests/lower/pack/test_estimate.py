"""Estimates of kernels: in proportion to the work, inf where a row is missing."""

from __future__ import annotations

from math import inf

import pytest

from tests.lower.pack.loops import compiled
from tfn.lower.pack.estimate import kernel_cycles
from tfn.lower.pack.machine import MACHINES


@pytest.mark.parametrize("architecture", MACHINES)
def test_cycles_are_those_of_the_loop_at_least(architecture: str) -> None:
    kernel, text = compiled("int8 matmul", architecture)[-1]  # after those that pack its operands
    machine = MACHINES[architecture]
    one = kernel_cycles(text, kernel.text, kernel.tiles, architecture, machine)
    many = kernel_cycles(text, kernel.text, 10 * kernel.tiles, architecture, machine)
    assert one > 64 * 128 * 256 / (16 * 32)  # of 16 sums of 32 lanes, a cycle each is the least
    assert 9.5 * one < many < 10.5 * one


def test_kernels_without_rows_are_not_compared() -> None:
    text = ".LBB0_1:   // %loop1\n\t{\n\t\tv1 = vnovel(v2)\n\t} :endloop0\n"
    assert kernel_cycles(text, "loop1:\nexit1:\n", 1, "hexagon", MACHINES["hexagon"]) == inf
