"""Machines: each packet that LLVM has made is one by the tables, too."""

from __future__ import annotations

import pytest

from tests.lower.pack.loops import FUNCTIONS, loops
from tfn.lower.pack import modulo
from tfn.lower.pack.machine import HEXAGON, MACHINES, X86


@pytest.mark.parametrize("name", FUNCTIONS)
def test_packets_of_llvm_fit_into_the_slots(name: str) -> None:
    for loop in loops(name, "hexagon"):
        assert not loop.unknown
        needs = modulo.requirements(loop, HEXAGON)
        for packet in range(loop.packets):
            members = [i for i, item in enumerate(loop.body) if item.packet == packet]
            texts = [loop.body[i].text for i in members]
            assert modulo.assign([needs[i] for i in members]) is not None, texts


def test_two_loads_one_store_two_multiply_adds() -> None:
    def together(*kinds: str) -> bool:
        return modulo.assign([X86.kinds[kind].groups for kind in kinds]) is not None

    assert together("vector-load", "vector-load", "store", "fma", "fma")
    assert not together("fma", "fma", "fma")
    assert not together("fma-load", "fma-load", "vector-load")
    assert not together("store", "store")


def test_latencies_depend_on_who_reads() -> None:
    assert HEXAGON.latency("vector", "vector", "v1", False) == 1
    assert HEXAGON.latency("vector", "permute", "v1", False) == 2
    assert HEXAGON.latency("vector", "vector-multiply", "v1", True) == 1
    assert HEXAGON.latency("alu", "permute", "r1", False) == 1
    assert X86.latency("fma", "fma", "v1", True) == 4


def test_units_are_columns_or_hidden() -> None:
    for machine in MACHINES.values():
        units = {u for k in machine.kinds.values() for g in k.groups for o in g for u in o}
        assert set(machine.slots) <= units
