"""Memory of AMD's GPUs: limits, and what a new block holds."""

from __future__ import annotations

import numpy as np
import pytest

from tests.hw.amd.devices import quick
from tfn.dtypes import FLOAT32
from tfn.errors import OutOfMemoryError
from tfn.hw.amd.emulator.gpu import EmulatedGpu
from tfn.hw.amd.memory import EMULATED_BYTES, memory_of


def test_a_buffer_larger_than_the_memory_is_refused() -> None:
    memory = memory_of(EmulatedGpu(), "amd-emulated", "an emulated gfx1100")
    with pytest.raises(OutOfMemoryError, match="an emulated gfx1100"):
        memory.check_room(EMULATED_BYTES + 1)


def test_memory_that_nothing_has_written_is_nan() -> None:
    memory = quick().memory
    assert np.isnan(memory.read(memory.allocate(64), (16,), FLOAT32)).all()
