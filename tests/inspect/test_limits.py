"""Limits of the machine."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from tfn.eager import run
from tfn.errors import DeviceError
from tfn.inspect.limits import limits


def test_a_core_computes_faster_than_it_reads_memory() -> None:
    try:
        flops_per_ns, bytes_per_ns = limits(run.device("cpu"))
    except DeviceError as error:
        pytest.skip(f"{error.what}: {error.hint}")  # other programs take the cores
    assert flops_per_ns > bytes_per_ns > 0.1
    assert limits(run.device("cpu")) == (flops_per_ns, bytes_per_ns)  # measured once


def test_a_machine_that_is_too_busy_has_no_limits() -> None:
    class Busy:
        target = run.device("cpu").target

        def kernel_timer(self, target: Any) -> Any:
            return nullcontext(SimpleNamespace(measure=lambda kernel, buffers: float("inf")))

    device: Any = Busy()
    with pytest.raises(DeviceError, match="could not be measured"):
        limits(device)
