"""Cycles: tables by `tfn.show`, and tuning without a timer, on any target."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tfn
from tests.lower.pack.loops import FUNCTIONS
from tfn.config import config
from tfn.eager import run
from tfn.errors import ArgumentError
from tfn.hw.cpu.target import named
from tfn.lower.loops import opt_ops


def test_tables_are_shown() -> None:
    function, operands = FUNCTIONS["int16 axpy"]
    text = str(tfn.show(function, *operands, at="cycles", target=named("hexagon")))
    assert "hexagonv67 with HVX" in text
    assert "runs 16 times in a launch" in text
    assert "cycle  S0" in text


def test_processors_without_a_table_are_refused() -> None:
    function, operands = FUNCTIONS["saxpy"]
    with pytest.raises(ArgumentError, match="slots and latencies of aarch64"):
        tfn.show(function, *operands, at="cycles", target=named("aarch64"))


def test_tune_by_cycles_never_changes_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if run.device().target.triple.split("-")[0] != "x86_64":
        pytest.skip("there is no table of this processor")
    monkeypatch.setattr(config, "cache_dir", str(tmp_path))
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(37, 41)).astype(np.float32) for _ in range(2))
    f = tfn.jit(lambda x, y: x @ y.T)
    before = np.asarray(f(x, y))
    report = tfn.tune(f, x, y, seconds=3, quiet=True, by="cycles")
    assert report.after_ns <= report.before_ns
    assert "cycles" in str(report)
    assert (np.asarray(f(x, y)) == before).all()


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cache folder for what is tuned, and nothing of it in later tests."""
    monkeypatch.setattr(config, "cache_dir", str(tmp_path))
    yield
    run.clear_caches()


@pytest.mark.usefixtures("own_cache")
@pytest.mark.skipif(
    not shutil.which("qemu-hexagon"), reason="qemu-hexagon is not installed: apt install qemu-user"
)
def test_tune_by_cycles_pipelines_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """An int8 product takes 168,810 cycles as the model of the CPU has it, 96,855 tuned."""
    monkeypatch.setattr(config, "device", "dsp")
    function, operands = FUNCTIONS["int8 matmul"]
    x, y = (np.arange(s.size).reshape(s.shape).astype(np.int8) for s in operands)
    f = tfn.jit(function)
    before = np.asarray(f(x, y))
    report = tfn.tune(f, x, y, seconds=300, quiet=True, by="cycles")
    assert report.after_ns < 0.65 * report.before_ns
    assert opt_ops.stages(report.rows[0].after) == 2
    assert (np.asarray(f(x, y)) == before).all()


def test_other_ways_to_compare_are_refused() -> None:
    with pytest.raises(ArgumentError, match="by time or by cycles"):
        tfn.tune(lambda x: x + 1, np.ones(3), by="luck")
