"""The fuzzer itself: it sees mistakes, it sees no mistake in rounding, and keeps what it finds."""

from __future__ import annotations

import runpy
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import ml_dtypes
import numpy as np
import pytest

from tests import covering
from tests.exporting import building
from tests.exporting.building import needs_cc
from tests.fuzz import checks, coverage, jobs, ledger
from tests.fuzz.batches import run
from tests.fuzz.choices import Choices, smallest
from tests.fuzz.keep import kept
from tests.fuzz.programs import Broken, Input, Line, Program, drawn, program
from tests.fuzz.steps import STEPS
from tests.fuzz.transforms import TRANSFORMS
from tests.fuzz.values import (
    DTYPES,
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


def test_both_parts_of_complex_operands_are_moved() -> None:
    """An imaginary part may be a small difference of large numbers, too."""
    z = Value(np.complex64([1 + 1j] * 9), np.full(9, 1e-3))
    (part,) = evaluate("v1 = xp.imag(z)", ["v1"], {"z": z}, False, True)
    assert np.all(part.error > 5e-4)


def test_functions_that_may_round_onto_a_pole_are_not_written() -> None:
    source = "def g1(p1):\n    return lax.digamma(p1 * 3)\nv1 = tfn.call(g1)(x)"
    near = Value(np.array([-0.333984375], ml_dtypes.bfloat16))  # times 3 it is rounded to -1
    with pytest.raises(Unfit):
        evaluate(source, ["v1"], {"x": near}, False, False, ulp=2**-7)


def test_errors_of_two_operands_do_not_cancel_in_all_samples() -> None:
    values = {name: Value(np.full(99, -1.0059627847383756)) for name in ("x", "y")}
    (total,) = evaluate("v1 = xp.logaddexp2(x, y)", ["v1"], values, False, True)
    assert np.all(total.error > 1e-17)


def test_functions_that_round_a_step_before_a_pole_are_not_written() -> None:
    """Near the pole at -1 rounding of the sine decides about all digits two steps later."""
    source = "def g1(p1):\n    return lax.digamma(xp.sin(p1))\nv1 = tfn.call(g1)(g1(x))"
    with pytest.raises(Unfit):
        evaluate(source, ["v1"], {"x": Value(np.float32([-1.5948765]))}, False, False, ulp=1e-7)
    wrong = "v1 = xp.sin(x) * (1 + 1e-3 * (x.dtype.itemsize == 4))"
    with pytest.raises(Disagreement):
        evaluate(wrong, ["v1"], {"x": Value(np.float32([0.5]))}, False, False, ulp=1e-7)


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


def test_programs_are_the_same_for_a_number() -> None:
    def sources() -> list[str]:
        return [program(drawn(5, number)).source() for number in range(5)]

    assert sources() == sources()
    assert len(set(sources())) == 5


def test_choices_that_are_given_come_first_and_then_zeros() -> None:
    choices = Choices(given=(3, 9))
    assert [choices.below(5) for _ in range(3)] == [3, 4, 0]
    assert choices.permutation(3) == (0, 1, 2)
    assert choices.made == [3, 4, 0, 0, 0, 0]


def test_choices_shrink_to_the_fewest_and_smallest_that_fail() -> None:
    def numbers(choices: Choices) -> list[int]:
        made = []
        for _ in range(20):
            with choices.span():
                if choices.below(9) == 0:
                    break
                made.append(choices.below(1000) + choices.below(7))
        return made

    def failing(choices: Choices) -> bool:
        return max(numbers(choices), default=0) > 150

    start = Choices(Random("7"))
    assert failing(start)
    least = smallest(start, failing)
    assert numbers(Choices(given=least.made)) == [151]
    assert least.made[0] == 1


def test_failures_are_shrunk_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def jit(program: Program) -> None:
        if any("xp." in line.source for line in program.lines):
            raise Disagreement("no numpy")

    monkeypatch.setattr(checks, "CHECKS", {"jit": checks.Check(jit, 100)})
    monkeypatch.setattr("tests.fuzz.batches.CHECKS", checks.CHECKS)
    monkeypatch.setattr("tests.fuzz.batches.SHRINK_SECONDS", 5)
    stages: list[tuple[int, str]] = []
    report = run(0, range(8), begin=lambda number, stage: stages.append((number, stage)))
    assert (7, "line") in stages and (7, "jit") in stages
    assert report.failures and report.programs + len(report.failures) == 8
    failure = report.failures[0]
    assert failure.program is not None
    assert (failure.check, len(failure.program.lines)) == ("jit", 1)
    assert failure.message == "Disagreement: no numpy"
    path = kept(tmp_path, failure.check, failure.program, failure.message)
    tests = [f for n, f in runpy.run_path(str(path)).items() if n.startswith("test_")]
    with pytest.raises(Disagreement, match="no numpy"):
        tests[0]()


def test_programs_that_do_not_end_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def jit(program: Program) -> None:
        while True:
            pass

    monkeypatch.setattr("tests.fuzz.batches.CHECKS", {"jit": checks.Check(jit, 100)})
    monkeypatch.setattr("tests.fuzz.batches.CHECK_SECONDS", 0.2)
    monkeypatch.setattr("tests.fuzz.batches.SHRINK_SECONDS", 0)
    (failure,) = run(0, range(1)).failures
    assert (failure.kind, failure.message) == ("TooLong", "TooLong: no end after 0 s")


def job_of(plan: jobs.Plan, first: int, ending: str) -> jobs.Job:
    """A job of this process, with another process in its place that ended in some way."""
    job = object.__new__(jobs.Job)
    job.plan, job.status = plan, [first, jobs.STAGES.index("jit"), time.monotonic()]
    job.process = subprocess.Popen([sys.executable, "-c", ending])  # type: ignore[assignment]
    job.process.exitcode = job.process.wait()  # type: ignore[attr-defined]
    return job


def test_programs_that_end_their_process_are_failures() -> None:
    plan = jobs.Plan(seed=5, deadline=0, programs=9, jobs=1)
    failure = job_of(plan, 3, "import os; os.abort()").failure(hung=False)
    assert failure.check == "jit" and failure.program is not None
    assert failure.message == "program 3 of seed 5 ended the process, code -6"
    assert failure.program.source() == program(drawn(5, 3)).source()


def test_jobs_that_are_killed_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = jobs.Plan(seed=5, deadline=time.monotonic() + 60, programs=4, jobs=1, only="oracle")
    begun: list[int] = []

    class Job(jobs.Job):
        def __init__(self, plan: jobs.Plan, first: int) -> None:
            super().__init__(plan, first)
            begun.append(first)
            if first == 0:
                self.process.kill()

    monkeypatch.setattr(jobs, "Job", Job)
    reports = [report for report, _ in jobs.follow(plan, lambda: None)]
    assert begun == [0, 1]
    assert [failure.kind for report in reports for failure in report.failures] == ["crash"]
    assert sum(report.programs for report in reports) == 3


def test_ledgers_add_up_the_runs_of_a_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, report = tmp_path / "folder" / "ledger.json", run(0, range(4), only="oracle")
    ledger.check_fresh(file, 1)
    for seed in (1, 2, 2):  # a run writes itself again and again
        ledger.write(file, seed, report, largest_bytes=seed)
    (version,) = ledger.versions(file)
    assert version == ledger.version()
    total, runs, failures, largest_bytes = ledger.read(file, version)
    assert (runs, failures, largest_bytes) == (2, [], 2)
    assert total.programs == 2 * report.programs == 8
    assert total.checks == Counter({"oracle": 8})
    assert total.counts["where", "bool"] == 2 * report.counts["where", "bool"]
    assert sum(total.counts.values()) == 2 * sum(report.counts.values())
    with pytest.raises(SystemExit, match="take another seed"):
        ledger.check_fresh(file, 2)
    ledger.check_fresh(file, 3)
    monkeypatch.setattr(ledger, "version", lambda: "another")
    ledger.check_fresh(file, 2)
    assert [table.row_count for table in ledger.tables(total)] == [
        len(DTYPES),
        len(TRANSFORMS),
        len(checks.CHECKS),
    ]


@needs_cc
def test_sanitizers_see_a_write_out_of_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line(("v1",), "v1 = x + 1")
    program = Program({"x": Input("float32", (3,), "normal", 0)}, (line,), ("v1",))
    checks.check("sanitize", program)
    write_behind = "((float *)args.out_0)[16] = 0; const int error"  # rooms are of 64 bytes
    monkeypatch.setattr(building, "MAIN", building.MAIN.replace("const int error", write_behind))
    with pytest.raises(AssertionError, match=r"AddressSanitizer|runtime error"):
        checks.check("sanitize", program)


def test_programs_that_cannot_be_exported_are_not_counted() -> None:
    call = "tfn.pure_callback(lambda q: np.flip(np.asarray(q)), tfn.ShapeDtypeStruct((3,), 'f'), x)"
    line = Line(("v1",), f"v1 = {call}")
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
def test_rare_steps_are_drawn_and_agree(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    others = ("transpose", "cast to integer", "cast float")
    monkeypatch.setattr("tests.fuzz.programs.STEPS", {n: STEPS[n] for n in (step, *others)})
    report = run(0, range(10 if covering.exhaustive else 5), only="jit")
    assert not report.failures, report.failures
    assert report.counts[step, "jit"]


@pytest.mark.parametrize("transform", ["custom_vjp", "custom_jvp"])
def test_custom_rules_are_drawn_and_agree(transform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = {name: TRANSFORMS[name] for name in (transform, "grad", "vmap")}
    monkeypatch.setattr("tests.fuzz.programs.TRANSFORMS", drawn)
    report = run(0, range(12), only="jit")
    assert not report.failures, report.failures
    assert report.counts[transform, "jit"]


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
