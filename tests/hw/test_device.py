"""Device: compiling and loading of programs with fake parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest

from tests.hw.programs import summed
from tfn.hw.device import Device
from tfn.hw.memory import HostMemory
from tfn.lower.program import Program
from tfn.lower.target.target import Target

TARGET = Target("abacus", "", "")


@dataclass
class Notes:
    """A compiler and a queue that note what they are asked."""

    said: list[object] = field(default_factory=list)

    def compile(self, text: str, target: Target, level: int = 2) -> bytes:
        assert target is TARGET
        self.said.append((text, level))
        return text.encode()

    def compile_all(self, texts: Sequence[str], target: Target, level: int = 2) -> list[bytes]:
        return [self.compile(text, target, level) for text in texts]

    def load(self, program: Program, objects: dict[str, bytes]) -> object:
        self.said.append(objects)
        return print

    def synchronize(self) -> None:
        self.said.append("synchronize")


def test_loading_compiles_every_text_and_hands_over_the_objects():
    notes, program = Notes(), summed(3)
    device = Device("abacus", TARGET, notes, HostMemory(), notes)
    assert device.load(program) is print
    *texts, objects = notes.said
    partial, total = program.kernels
    assert [text for text, _ in texts] == [partial.text, total.text, program.text]
    assert objects == {
        "partial": partial.text.encode(),
        "total": total.text.encode(),
        "summed": program.text.encode(),
    }


def test_negligible_kernels_are_compiled_at_level_0():
    notes, program = Notes(), summed(3)
    partial, total = (launch.kernel for launch in program.launches)
    rows = zip(program.launches, (1_000_000, 10), strict=True)
    steps = [replace(step, kernel=replace(step.kernel, work_ns=work)) for step, work in rows]
    Device("abacus", TARGET, notes, HostMemory(), notes).load(replace(program, steps=tuple(steps)))
    assert notes.said[:2] == [(partial.text, 2), (total.text, 0)]
    assert notes.said[2] == (program.text, 0)


def test_a_device_that_runs_no_code_compiles_none():
    notes = Notes()
    Device("abacus", TARGET, None, HostMemory(), notes).load(summed(3))
    assert notes.said == [{}]


def test_a_device_is_data():
    device = Device("abacus", TARGET, None, HostMemory(), Notes())
    with pytest.raises(FrozenInstanceError):
        device.name = "other"
