"""The Python/C API: layouts of classes, and interpreters that have others."""

from __future__ import annotations

import sys
from typing import Any

from tests.hw.entries import Toy
from tfn.hw import memory
from tfn.hw.cpu.device import cpu
from tfn.hw.cpu.interpreter import slot_offsets, supported


def test_slot_offsets_are_within_the_object_and_distinct() -> None:
    names = ["kind", "buffer", "known"]
    offsets = slot_offsets(Toy, names)
    assert len(set(offsets)) == 3 and all(16 <= offset < Toy.__basicsize__ for offset in offsets)
    assert sorted(names, key=lambda name: offsets[names.index(name)]) == sorted(names)


def test_an_interpreter_of_another_layout_has_no_native_dispatch(monkeypatch: Any) -> None:
    monkeypatch.setattr(sys.implementation, "name", "pypy")
    assert not supported()
    plain: Any = cpu()
    assert plain.queue.dispatch is None and isinstance(plain.memory.pool, memory.Pool)
