"""The neural equation: the solver beside exact solutions, gradients, and a tiny training."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import neural_ode as ode
import numpy as np
import pytest
from rich.console import Console

import tfn
from tfn import numpy as jnp

TIMES = np.array([0.0, 0.3, 1.0, 4.0])


def turning(y: tfn.Array) -> tfn.Array:
    return jnp.stack([y[1], -y[0]])


@pytest.mark.parametrize("tolerance", [1e-3, 1e-6, 1e-9])
def test_errors_are_as_small_as_asked(tolerance: float) -> None:
    solver = ode.Solver(tolerance, tolerance, 200)
    start = jnp.array([0.0, 1.0], dtype=jnp.float64)
    found = ode.solve(turning, start, jnp.asarray(TIMES), solver)
    want = np.stack([np.sin(TIMES), np.cos(TIMES)], 1)
    assert found.dtype == jnp.float64
    assert abs(found - want).max() < 20 * tolerance


def test_the_rule_is_of_fifth_order() -> None:
    for row, weights in enumerate(ode.STAGES):
        assert len(weights) == row + 1
    np.testing.assert_allclose(sum(ode.STAGES[-1]), 1)
    np.testing.assert_allclose(sum(ode.ERROR), 0, atol=1e-15)
    nodes = np.array([0.0, *map(sum, ode.STAGES[:-1])])
    for power in range(5):  # integrals of powers are exact
        assert np.dot(ode.STAGES[-1], nodes**power) == pytest.approx(1 / (power + 1))


def test_too_few_steps_give_nan() -> None:
    solver = ode.Solver(1e-8, 1e-8, 3)
    found = ode.solve(turning, jnp.array([0.0, 1.0]), jnp.array([0.0, 1.0, 50.0]), solver)
    assert bool(jnp.isnan(found[2]).all())
    assert not bool(jnp.isnan(found[0]).any())


def test_gradients_of_exact_solutions() -> None:
    solver = ode.Solver(1e-9, 1e-9, 100)

    def end(rate: tfn.Array, start: tfn.Array) -> tfn.Array:
        times = jnp.array([0.0, 1.0, 2.0], dtype=jnp.float64)
        return ode.solve(lambda y: rate * y, start, times, solver)[-1].sum()

    rate, start = jnp.array(0.7, dtype=jnp.float64), jnp.array([1.5], dtype=jnp.float64)
    slopes = tfn.grad(end, argnums=(0, 1))(rate, start)
    assert float(slopes[0]) == pytest.approx(2 * 1.5 * np.exp(1.4), rel=1e-6)
    assert float(slopes[1][0]) == pytest.approx(np.exp(1.4), rel=1e-6)


def test_lanes_that_need_different_numbers_of_steps() -> None:
    def end(rate: Any) -> tfn.Array:
        times = jnp.array([0.0, 1.0])
        return ode.solve(lambda y: rate * y, jnp.array([1.0]), times)[-1, 0]

    rates = jnp.array([0.1, 1.0, -20.0])
    np.testing.assert_allclose(tfn.vmap(end)(rates), np.exp(rates), rtol=2e-3, atol=1e-4)
    each = [tfn.grad(end)(rate) for rate in rates]
    np.testing.assert_allclose(tfn.vmap(tfn.grad(end))(rates), each, rtol=1e-4, atol=1e-6)


def test_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert ode.check(Console()) < 1e-6
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_populations() -> None:
    known = ode.populations()
    assert known.shape == (21, 2)
    np.testing.assert_allclose(known[: ode.LEARNED].mean(0), 0, atol=1e-6)
    assert ode.factor(np.log(2) ** 2) == pytest.approx(2)


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def make(*options: str) -> list[str]:
        assert ode.main(["--smoke", "--checkpoints", str(tmp_path), *options]) == 0
        return capsys.readouterr().out.splitlines()

    return make


def test_it_learns_reports_and_resumes(run: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="an extra")
    lines = run("--plot", str(tmp_path / "found.png"))
    before, after = (float(line.split()[-1]) for line in lines[:2])
    assert after < before < 2
    end = r"neural_ode: later years are missed by a factor of [\d.]+, 3.57 if .*, 20 steps, loss .*"
    assert re.fullmatch(end, lines[-1])
    assert (tmp_path / "found.png").exists()
    again = run("--quiet", "--resume")
    assert again == [lines[-1].split(", loss")[0]]
