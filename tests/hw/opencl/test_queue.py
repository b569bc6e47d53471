"""The OpenCL queue: loops, branches, routines and calls of the host, and kernels it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.hw import device_laws as laws
from tests.hw.opencl.devices import needs_opencl, quick
from tests.lower.graphs import jaxpr, p
from tfn.config import config
from tfn.errors import CompileError
from tfn.hw.opencl.queue import OpenClQueue
from tfn.lower import pipeline
from tfn.trace import build
from tfn.trace.uop import UOp

pytestmark = needs_opencl
X = p(0, 4)


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "disk_cache", False)


def test_loops_branches_and_routines() -> None:
    laws.assert_loops_branches_and_routines_run(quick())


def test_a_slice_of_the_arena_is_an_operand_at_an_offset() -> None:
    laws.assert_slices_of_the_arena_are_operands(quick())


def test_a_buffer_of_another_device_is_refused_by_a_program() -> None:
    laws.assert_buffers_of_others_are_refused(quick())


class Altered:
    """An object of which a few attributes are others."""

    def __init__(self, original: Any, **attributes: Any) -> None:
        self._original, self._attributes = original, attributes

    def __getattr__(self, name: str) -> Any:
        value = self._attributes.get(name)
        return getattr(self._original, name) if value is None else value


def refused(output: UOp, **properties: int) -> str:
    """The error of loading a program on a device with other properties."""
    device = quick()
    queue = device.queue
    assert isinstance(queue, OpenClQueue)
    program = pipeline.lower(jaxpr([output]), device.target)
    cl, real = queue.driver.cl, queue.driver.device

    class Kernel:
        """A kernel that says of itself what the driver says, on the real device."""

        def __init__(self, *arguments: Any) -> None:
            self._kernel = cl.Kernel(*arguments)
            self.num_args = self._kernel.num_args

        def get_work_group_info(self, info: int, _: Any) -> int:
            most = properties.get("work_group_size")
            if most and info == cl.kernel_work_group_info.WORK_GROUP_SIZE:
                return most
            return int(self._kernel.get_work_group_info(info, real))

    small = Altered(real, **properties)
    driver = replace(queue.driver, cl=Altered(cl, Kernel=Kernel), device=small)
    other = OpenClQueue(driver, queue.compiler, queue.memory)
    with pytest.raises(CompileError) as raised:
        replace(device, queue=other).load(program)
    return str(raised.value)


def test_kernels_that_the_device_cannot_run_are_refused() -> None:
    total = build.add_up(p(0, 1000), (0,))
    text = refused(total, local_mem_size=128)
    assert "more local memory" in text and "256 bytes of 128" in text
    text = refused(total, work_group_size=32)
    assert "larger groups" in text and "64 threads of 32" in text
