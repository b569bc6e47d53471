"""Tuning: what is found is used, kept, and changes no bit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import tfn
from tfn import numpy as jnp
from tfn.config import config
from tfn.eager import run
from tfn.errors import ArgumentError
from tfn.hw.compile import tuning_cache
from tfn.hw.cpu.kernel_timer import ChildTimer
from tfn.lower.loops.beam_search import Measure, SearchResult, Tree
from tfn.lower.loops.heuristics import begin, finish
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.loops.opt_ops import Split, from_rows, to_rows
from tfn.lower.program import Kernel
from tfn.lower.target.target import Target
from tfn.trace.argument import Place


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(config, "cache_dir", tmp_path)
    monkeypatch.setattr(config, "device", "cpu")
    monkeypatch.setattr(config, "disk_cache", True)
    run.clear_caches()
    return tmp_path / "plans"


def test_a_search_reports_and_changes_no_bit() -> None:
    random = np.random.default_rng(0)
    a, b = (jnp.asarray(random.standard_normal(s).astype("f")) for s in ((40, 30), (30, 50)))
    f = tfn.jit(lambda a, b: jnp.tanh(a @ b).sum(0))
    want = np.asarray(f(a, b)).tobytes()
    report = tfn.tune(f, a, b, seconds=1.5, quiet=True)
    assert report.rows and report.after_ns <= report.before_ns
    assert "kernel" in str(report) and "all launches on one core" in str(report)
    assert np.asarray(f(a, b)).tobytes() == want


def test_fastest_opt_ops_are_used_from_then_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a search that finds the loops as they are to be twice as fast."""
    x = jnp.arange(24.0).reshape(4, 6)

    def one_plan(
        n: Nest, target: Target, measure: Measure, known: Sequence[Nest], tree: Tree
    ) -> SearchResult:
        assert not known
        start = begin(n, target)
        plain = finish(start.nest, start.model)
        return SearchResult(plain.opts, 1.0, 2.0, 2)

    monkeypatch.setattr("tfn.inspect.tune.search", one_plan)
    f = tfn.jit(lambda x: x * 2 + 1)
    want = f(x)
    report = tfn.tune(f, x, quiet=True)
    assert report.after_ns < report.before_ns
    assert report.rows[0].after != report.rows[0].before
    assert len(list(folder.iterdir())) == 1
    assert np.array_equal(f(x), want)
    (kernel,) = run.load(f.trace(x).jaxpr).program.kernels
    assert kernel.opts == report.rows[0].after


def test_kernels_that_there_was_no_time_for_are_counted() -> None:
    report = tfn.tune(lambda x: x * 2, jnp.ones(20), seconds=0.0, quiet=True)
    assert not report.rows and report.left == 1 and "no time for 1 other" in str(report)


OLDER = (Split(0, 2, Place.UPCAST),)
TIMES = {
    "older": ({OLDER: 1.0}, 5.0, 3.0),
    "newer": ({OLDER: 2.0}, 5.0, 1.0),
    "model": ({OLDER: 9.0}, 1.0, 3.0),
    "broken": ({OLDER: float("inf")}, 1.0, 3.0),
}
"""Nanoseconds of an older plan, of the model's choice, and of all others, by what is the best."""


@pytest.mark.parametrize("best", TIMES)
def test_an_older_plan_stays_if_nothing_beats_it(
    best: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    f, x = tfn.jit(lambda x: x * 3 + 1), jnp.arange(20.0)
    (kernel,) = run.load(f.trace(x).jaxpr).program.kernels
    target = run.device().target
    tuning_cache.keep(kernel.name, target, to_rows(OLDER))
    run.clear_caches()
    f.clear_cache()
    older, model, others = TIMES[best]

    def measure(self: ChildTimer, made: Kernel, buffers: object) -> float:
        return {kernel.opts: model, **older}.get(made.opts, others)

    monkeypatch.setattr(ChildTimer, "measure", measure)
    (row,) = tfn.tune(f, x, quiet=True).rows
    rows = tuning_cache.find(kernel.name, target)
    assert rows is not None
    kept = from_rows(rows)
    assert row.before_ns == model and row.after_ns == 1.0 and row.after == kept
    if best == "newer":
        assert kept not in (OLDER, kernel.opts)
    else:
        assert kept == (OLDER if best == "older" else kernel.opts)


def test_without_a_disk_cache_plans_are_those_of_the_process(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    f, x = tfn.jit(lambda x: x * 5 + 1), jnp.arange(20.0)
    (kernel,) = run.load(f.trace(x).jaxpr).program.kernels
    tuning_cache.keep(kernel.name, run.device().target, to_rows(OLDER))  # on disk
    monkeypatch.setattr(config, "disk_cache", False)
    run.clear_caches()
    assert run.load(f.trace(x).jaxpr).program.kernels == (kernel,)
    tuning_cache.keep(kernel.name, run.device().target, ())  # here
    run.clear_caches()
    (plain,) = run.load(f.trace(x).jaxpr).program.kernels
    assert plain.opts == ()
    assert len(list(folder.iterdir())) == 1


def test_a_plan_that_cannot_be_replayed_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    f, x = tfn.jit(lambda x: x - 3), jnp.arange(5.0)
    (kernel,) = run.load(f.trace(x).jaxpr).program.kernels
    tuning_cache.keep(kernel.name, run.device().target, (("split", 77, 2, "upcast"),))
    run.clear_caches()
    f.clear_cache()
    assert f(x).tolist() == [-3, -2, -1, 0, 1]
    (again,) = run.load(f.trace(x).jaxpr).program.kernels
    assert again == kernel


def test_only_cores_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "device", "python")
    with pytest.raises(ArgumentError, match="tune times kernels on the cpu"):
        tfn.tune(lambda x: x, jnp.ones(3))
