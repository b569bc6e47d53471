"""Kernel times beside the limits of the machine."""

from __future__ import annotations

from typing import Any

import pytest

import tfn
from tfn import profiler
from tfn.config import config
from tfn.errors import ArgumentError
from tfn.profiler.kernel_times import KernelTime, Report


def test_kernels_are_timed_and_counted() -> None:
    def f(h: Any, w: Any) -> Any:
        return tfn.lax.scan(lambda h, _: (tfn.numpy.tanh(h @ w), None), h, None, 7)[0]

    report = profiler.kernels(f, tfn.numpy.ones((64, 64)), tfn.numpy.ones((64, 64)))
    product = max(report.kernels, key=lambda kernel: kernel.flops)
    assert product.launches == 7 and product.flops >= 2 * 64**3
    assert 0 < product.ns < 1e8 and product.expected_ns > 0
    assert report.peak_flops_per_ns > 1 and report.peak_bytes_per_ns > 0.1
    text = str(report)
    assert "GFLOP/s" in text and "one core does" in text


def test_the_roofline_says_what_bounds_a_kernel() -> None:
    one = KernelTime("0", "dot", 1, 10.0, 10.0, 1000.0, 10.0, "net/a", 200.0)
    other = KernelTime("1", "add", 2, 10.0, 10.0, 10.0, 1000.0, "net", 100.0)
    report = Report((one, other), 100.0, 10.0)
    assert (report.bound(one), report.bound(other)) == ("arithmetic", "memory")
    assert report.total_ns == 30.0
    assert " 50% " in str(report)  # of what its own dtype can do


def test_costs_are_summed_by_scope() -> None:
    rows = [("net/a", 1, 10.0), ("net/b", 2, 5.0), ("", 1, 7.0), ("net/a/c", 3, 1.0)]
    kernels = [KernelTime("0", "dot", n, ns, ns, 8.0, 4.0, s, 100.0) for s, n, ns in rows]
    report = Report(tuple(kernels), 100.0, 10.0)
    found = {scope.name: (scope.launches, scope.ns, scope.flops) for scope in report.by_scope()}
    assert found == {
        "net": (6, 23.0, 48.0),
        "net/a": (4, 13.0, 32.0),
        "net/b": (2, 10.0, 16.0),
        "net/a/c": (3, 3.0, 24.0),
    }
    assert "net/a/c" in str(report) and "scope" not in str(Report((kernels[2],), 100.0, 10.0))


def test_devices_that_compile_nothing_have_no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "device", "python")
    with pytest.raises(ArgumentError, match="times kernels on the cpu"):
        profiler.kernels(lambda x: x + 1, 1.0)
