"""The fuzzer itself: it sees mistakes, it sees no mistake in rounding, and keeps what it finds."""

from __future__ import annotations

import runpy
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.exporting import building
from tests.exporting.building import needs_cc
from tests.fuzz import checks, coverage
from tests.fuzz.batches import Batch
from tests.fuzz.keep import kept
from tests.fuzz.programs import Broken, Input, Line, Program, programs
from tests.fuzz.steps import STEPS
from tests.fuzz.transforms import TRANSFORMS
from tests.fuzz.values import (
    Disagreement,
    Unfit,
    Value,
    evaluate,
    has_both_zeros,
    require_close,
    require_same,
)

RANDOM = np.random.default_rng(0)
X = Value(RANDOM.standard_normal((5, 7)).astype(np.float32))


def test_error_of_a_line_bounds_other_orders_of_summation() -> None:
    (total,) = evaluate("v1 = xp.sum(x, axis=0)", ["v1"], {"x": X}, False, True)
    other = np.zeros(7, np.float32)
    for row in X.numbers[::-1]:
        other += row
    require_close(other, total, "two orders")
    with pytest.raises(Disagreement, match="two orders differ at 1 of 7"):
        require_close(np.where(np.arange(7) == 3, other * 1.001, other), total, "two orders")


def test_errors_grow_from_line_to_line() -> None:
    values = {"x": X}
    for source in ("v1 = x * 3.1", "v2 = xp.exp(v1)", "v3 = v2 - v1"):
        values |= {source[:2]: evaluate(source, [source[:2]], values, False, True)[0]}
    relative = [np.median(values[n].error / np.abs(values[n].numbers)) for n in ("v1", "v2")]
    assert 1e-8 < relative[0] < relative[1] < 1e-4


@pytest.mark.parametrize("source", ["v1 = xp.tan(y)", "v1 = xp.sin(1e3 * y)", "v1 = 1e4 * y"])
def test_lines_that_depend_on_rounding_are_not_written(source: str) -> None:
    y = Value(np.float32([np.pi / 2, 3e3]), np.array([1e-2, 1e-1]))
    with pytest.raises(Unfit):
        evaluate(source, ["v1"], {"y": y}, False, True)


@pytest.mark.parametrize("numbers", [[1e-30, 1e-30, 8e3, 8e3], [8e3, 1e-4] * 10])
def test_products_that_may_leave_the_range_on_the_way_are_not_written(numbers: list[float]) -> None:
    """The order of the factors decides whether float32 holds them all."""
    values = {"y": Value(np.float32(numbers)), "z": Value(np.float64(numbers))}
    with pytest.raises(Unfit):
        evaluate("v1 = xp.prod(y)", ["v1"], values, False, False)
    evaluate("v1 = xp.prod(z)", ["v1"], values, False, False)


def test_wrong_oracles_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line(("v1",), "v1 = xp.sin(x)", by_numpy=True)
    program = Program({"x": Input("float32", (3,), "normal", 0)}, (line,), ("v1",))
    checks.check("line", program)
    wrong = replace(program, lines=(replace(line, source="v1 = lax.sin(x * 1.00001)"),))
    right = program.evaluated()
    with pytest.raises(Disagreement, match="jit and the oracle of v1 differ at 3 of 3"):
        checks.check("jit", replace(wrong, values=right))


@pytest.mark.parametrize(
    ("got", "expected"),
    [(0.0, -0.0), (np.nan, 1.0), (np.inf, -np.inf), (1.0, 1.0000001), (1j, -1j), (0j, -0j)],
)
def test_exact_values_have_the_same_bits(got: complex, expected: complex) -> None:
    dtype = np.complex64 if isinstance(got, complex) else np.float32
    a, b = np.array([got], dtype), np.array([expected], dtype)
    require_same(a, a.copy(), "itself")
    with pytest.raises(Disagreement):
        require_same(a, b, "two numbers")


def test_zeros_of_both_signs() -> None:
    def zeros(*numbers: float) -> Value:
        return Value(np.float32(numbers))

    assert has_both_zeros([zeros(0.0, 1.0), zeros(-0.0)])
    assert not has_both_zeros([zeros(-0.0, -1.0), zeros(-0.0, np.nan), Value(np.zeros(2, int))])


def test_programs_are_the_same_for_a_seed() -> None:
    def drawn() -> list[str]:
        sources: list[str] = []

        @seed(5)
        @settings(
            max_examples=5,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            database=None,
            derandomize=False,
        )
        @given(programs())
        def draw(program: Program) -> None:
            sources.append(program.source())

        draw()
        return sources

    assert drawn() == drawn()


def test_failures_are_shrunk_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def jit(program: Program) -> None:
        if any("xp." in line.source for line in program.lines):
            raise Disagreement("no numpy")

    monkeypatch.setattr(checks, "CHECKS", {"jit": checks.Check(jit, 100)})
    monkeypatch.setattr("tests.fuzz.batches.CHECKS", checks.CHECKS)
    monkeypatch.setattr("tests.fuzz.batches.SHRINK_SECONDS", 2)
    batch = Batch(float("inf"), tmp_path / "running")
    batch.run(0)
    assert batch.failure is not None
    name, program, message = batch.failure
    assert (name, len(program.lines), message) == ("jit", 1, "Disagreement: no numpy")
    assert not list((tmp_path / "running").iterdir())
    path = kept(tmp_path, name, program, message)
    tests = [f for n, f in runpy.run_path(str(path)).items() if n.startswith("test_")]
    with pytest.raises(Disagreement, match="no numpy"):
        tests[0]()


@needs_cc
def test_exported_c_of_some_programs_under_sanitizers(tmp_path: Path) -> None:
    batch = Batch(float("inf"), tmp_path, only="sanitize", most=6)
    batch.run(0)
    assert batch.failure is None, batch.failure
    assert batch.programs > 3


@needs_cc
def test_sanitizers_see_a_write_out_of_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line(("v1",), "v1 = x + 1")
    program = Program({"x": Input("float32", (3,), "normal", 0)}, (line,), ("v1",))
    checks.check("sanitize", program)
    write_behind = "((float *)args.out_0)[16] = 0; const int error"  # rooms are of 64 bytes
    monkeypatch.setattr(building, "MAIN", building.MAIN.replace("const int error", write_behind))
    with pytest.raises(AssertionError, match=r"AddressSanitizer|runtime error"):
        checks.check("sanitize", program)


def test_programs_that_cannot_be_exported_are_not_counted(tmp_path: Path) -> None:
    line = Line(("v1",), "v1 = xp.fft.fft(x).real")
    program = Program({"x": Input("float32", (3,), "normal", 0)}, (line,), ("v1",))
    with pytest.raises(checks.Inapplicable):
        checks.check("sanitize", program)


def test_broken_lines_are_programs_of_their_own() -> None:
    line = Line(("v3",), "v3 = xp.reshape(v2, (5,))")
    error = Broken(line, {"x": X, "v2": X}, ValueError("no"))
    assert list(error.program.inputs) == ["v2"]
    np.testing.assert_array_equal(error.program.inputs["v2"].numbers(), X.numbers)


@pytest.mark.parametrize(
    "step",
    [
        *("gather", "scatter", "scatter_max", "solve", "eigvalsh", "random.bits"),
        *("pure_callback", "io_callback"),
    ],
)
def test_rare_steps_are_drawn_and_agree(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = ("transpose", "cast to integer", "cast float")
    monkeypatch.setattr("tests.fuzz.programs.STEPS", {n: STEPS[n] for n in (step, *others)})
    batch = Batch(float("inf"), tmp_path, only="jit", most=16)
    batch.run(0)
    assert batch.failure is None, batch.failure
    assert batch.counts[step, "jit"]


@pytest.mark.parametrize("transform", ["custom_vjp", "custom_jvp"])
def test_custom_rules_are_drawn_and_agree(
    transform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = {name: TRANSFORMS[name] for name in (transform, "grad", "vmap")}
    monkeypatch.setattr("tests.fuzz.programs.TRANSFORMS", drawn)
    batch = Batch(float("inf"), tmp_path, only="jit", most=60)
    batch.run(0)
    assert batch.failure is None, batch.failure
    assert batch.counts[transform, "jit"]


def test_coverage_counts_steps_by_dtype_and_transform() -> None:
    program = Program({}, (), (), uses=(("exp", "float32", ("vmap",)), ("exp", "float32", ())))
    counts = coverage.counted(program, ("jit",))
    assert counts == Counter({("exp", c): 1 for c in ("float32", "vmap", "jit")})
    assert ("exp", "float16") in coverage.empty(counts)
    assert ("exp", "float32") not in coverage.empty(counts)
    assert coverage.excuse("exp", "int32") == "takes no such dtype"
    assert coverage.excuse("io_callback", "export") == "bytes hold no functions of Python"
    assert "no forward mode" in (coverage.excuse("custom_vjp", "jvp") or "")
    assert "cells: takes no such dtype" in str(coverage.table(counts).caption)
    assert coverage.table(counts).row_count == len(coverage.STEPS) + len(coverage.TRANSFORMS)
