"""Limits of the machine."""

from __future__ import annotations

from tfn.eager import run
from tfn.inspect.limits import limits


def test_a_core_computes_faster_than_it_reads_memory() -> None:
    flops_per_ns, bytes_per_ns = limits(run.device("cpu"))
    assert flops_per_ns > bytes_per_ns > 0.1
    assert limits(run.device("cpu")) == (flops_per_ns, bytes_per_ns)  # measured once
