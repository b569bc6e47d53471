"""Modulo scheduling: bounds, the heuristic, registers, and the order of LLVM."""

from __future__ import annotations

import pytest

from tests.covering import in_turn
from tests.lower.pack.loops import FUNCTIONS, loops
from tests.lower.pack.test_dependences import loop_of
from tfn.lower.pack import modulo
from tfn.lower.pack.dependences import edges
from tfn.lower.pack.instructions import Loop
from tfn.lower.pack.machine import HEXAGON, MACHINES, Machine

MAX_INSTRUCTIONS = 50
"""Of loops for which the heuristic is run here: longer ones take some seconds."""


def require_valid(loop: Loop, machine: Machine, interval: int, cycles: tuple[int, ...]) -> None:
    """Every instruction waits for what it reads, and no unit is taken twice."""
    for e in edges(loop, machine):
        assert cycles[e.consumer] + interval * e.distance >= cycles[e.producer] + e.latency
    taken = set()
    units = modulo.units_of(loop, machine, interval, cycles)
    for cycle, names in zip(cycles, units, strict=True):
        for unit in names:
            assert (cycle % interval, unit) not in taken
            taken.add((cycle % interval, unit))


def test_bounds_by_resources() -> None:
    store = loop_of("vmem(r1+#0) = v1", "vmem(r1+#1) = v2", "vmem(r1+#2) = v3")
    assert modulo.resource_bound(store, HEXAGON) == 3  # one store in a packet
    scalars = loop_of(*(f"r{i} = add(r20,r21)" for i in range(9)))
    assert modulo.resource_bound(scalars, HEXAGON) == 3  # four slots


def test_bounds_by_recurrences() -> None:
    loop = loop_of("v1.w = vadd(v1.w,v2.w)", "v1 = valign(v1,v1,r6)", "v1 = vror(v1,r6)")
    assert modulo.recurrence_bound(3, edges(loop, HEXAGON)) == 5
    assert modulo.heights(3, edges(loop, HEXAGON), 4) is None


def test_units_of_one_cycle_are_found_or_refused_at_once() -> None:
    """Not by trying all orders: 13 equal instructions on 12 units have 479 million."""
    units = tuple((f"p{i}",) for i in range(12))
    found = modulo.assign([(units,)] * 12)
    assert found is not None and len({*found}) == 12
    assert modulo.assign([(units,)] * 13) is None
    pair = tuple((f"p{i}", f"p{i + 1}") for i in range(11))
    assert modulo.assign([(pair,)] * 6) is not None and modulo.assign([(pair,)] * 7) is None


def test_values_that_overlap_take_a_register_each() -> None:
    loop = loop_of("r1 = memw(r2++#4)", "r3 = add(r1,r3)")
    assert modulo.pressure(loop, HEXAGON, 2, (0, 1))["r"] <= 3
    assert modulo.pressure(loop, HEXAGON, 1, (0, 6))["r"] >= 7


@pytest.mark.parametrize("architecture", MACHINES)
@pytest.mark.parametrize("name", in_turn(2, FUNCTIONS))
def test_schedules_are_valid(name: str, architecture: str) -> None:
    machine = MACHINES[architecture]
    for loop in loops(name, architecture):
        bound = max(
            modulo.resource_bound(loop, machine),
            modulo.recurrence_bound(len(loop.body), edges(loop, machine)),
        )
        for interval in (bound, bound + 3) if len(loop.body) <= MAX_INSTRUCTIONS else ():
            cycles = modulo.heuristic(loop, machine, interval)
            if cycles is not None:
                require_valid(loop, machine, interval, cycles)
        if machine.in_order:
            interval, cycles = modulo.emitted(loop, machine)
            assert interval >= max(loop.packets, bound)
            require_valid(loop, machine, interval, cycles)
