"""Triangular systems by blocks, against SciPy and as programs of grids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

import tfn
import tfn.numpy as tnp
from tests.covering import cover
from tests.hw.cuda.devices import default, device_of
from tests.hw.cuda.simulator import SimulatedCuda
from tfn.config import config
from tfn.numpy.linalg.block_triangular import MAX_BLOCK_ROWS, trsm

RNG = np.random.default_rng(0)
SIZES = ((1, 1, ()), (3, 2, (5,)), (MAX_BLOCK_ROWS, 3, ()), (MAX_BLOCK_ROWS + 1, 1, (2, 1)))


def systems(n: int, m: int, batch: tuple[int, ...], dtype: str = "float32") -> Any:
    a = RNG.normal(size=(*batch, n, n)) / n**0.5 + 2 * np.eye(n)
    return a.astype(dtype), RNG.normal(size=(*batch, n, m)).astype(dtype)


def turned(x: Any) -> Any:
    return np.ascontiguousarray(np.swapaxes(x, -1, -2))


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_solutions_are_those_of_lapack(sizes: Any) -> None:
    a, b = systems(*sizes)
    n, m, _ = sizes
    for triangle, transposed, diagonal in cover("UL", "NT", "UN", pairs=[(0, 1), (0, 2), (1, 2)]):
        flags = triangle + transposed + diagonal
        solve = tfn.jit(lambda lines, right, flags=flags: trsm(flags, lines, right))
        x = solve(turned(a), turned(b))
        got = turned(np.asarray(x)).reshape(-1, n, m)
        for one, right, y in zip(a.reshape(-1, n, n), b.reshape(-1, n, m), got, strict=True):
            options = {"lower": triangle == "L", "unit_diagonal": diagonal == "U"}
            want = scipy.linalg.solve_triangular(one, right, trans=transposed, **options)
            np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_empty_systems(shape: tuple[int, int]) -> None:
    n, m = shape
    assert trsm("LNN", tnp.ones((n, n)), tnp.ones((m, n))).shape == (m, n)


def test_on_a_grid_a_system_with_its_gradients_never_leaves_the_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(config, "disk_cache", False)
    a, b = systems(6, 2, (2,))

    def solve(a: Any, b: Any) -> Any:
        return tfn.lax.linalg.triangular_solve(a, b, left_side=True, lower=True)

    def results() -> list[Any]:
        grad = tfn.grad(lambda a, b: (solve(a, b) ** 2).sum(), (0, 1))
        given = tnp.array(a), tnp.array(b)
        return [tfn.jit(solve)(*given), *tfn.jit(grad)(*given)]

    want = [np.asarray(x) for x in results()]
    simulated = SimulatedCuda()
    with default(device_of(simulated, native=True)):
        given = tnp.array(a), tnp.array(b)
        before = simulated.calls["cuMemcpyDtoHAsync"]
        tfn.jit(solve)(*given).block_until_ready()
        assert simulated.calls["cuMemcpyDtoHAsync"] == before
        assert simulated.calls["cuGraphLaunch"] == 1  # no call of the host divides the program
        for x, y in zip(want, results(), strict=True):
            np.testing.assert_allclose(np.asarray(y), x, rtol=1e-4, atol=1e-5)
        wide = tnp.array(a[0].astype("complex64") * (1 + 0.5j)), tnp.array(b[0])
        got = np.asarray(solve(*wide))
        singular = solve(tnp.zeros((2, 2)), tnp.ones((2, 1)))
        assert np.isnan(np.asarray(singular)).all()
    np.testing.assert_allclose(got, want[0][0] / (1 + 0.5j), rtol=1e-4, atol=1e-5)


def test_on_a_processor_systems_stay_with_lapack() -> None:
    a, b = systems(9, 2, ())
    jaxpr = tfn.make_jaxpr(lambda a, b: tfn.lax.linalg.triangular_solve(a, b, left_side=True))
    assert "trsm" in str(jaxpr(a, b))
