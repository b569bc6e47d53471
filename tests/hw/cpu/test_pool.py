"""The native pool: size classes and their free lists; `tests/hw/test_memory.py` has the rest."""

from __future__ import annotations

from tfn.hw.cpu import native
from tfn.hw.cpu.pool import free_list_of
from tfn.hw.memory import size_class


def test_every_size_class_has_a_free_list_of_its_own() -> None:
    sizes = sorted({size_class(int(1.1**i)) for i in range(330)})
    lists = [free_list_of(size) for size in sizes]
    assert [block_bytes for block_bytes, _ in lists] == sizes
    numbers = [number for _, number in lists]
    assert numbers == sorted(set(numbers)) and numbers[-1] < native.FREE_LISTS
