"""Instructions: records with defaults for what has no memory."""

from __future__ import annotations

from tfn.lower.pack.instructions import Instruction, Loop


def test_an_instruction_without_memory() -> None:
    item = Instruction("v1 = v2", "vector", ("v2",), ("v1",))
    assert (item.access, item.address, item.extenders) == ("", (), 0)
    assert Loop("l", "loop1", (item,), 1).unknown == ""
