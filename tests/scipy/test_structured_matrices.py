"""Matrices of a structure against SciPy's."""

import numpy as np
import pytest
import scipy.linalg

import tfn
from tfn.errors import TfnError
from tfn.scipy import linalg

RNG = np.random.default_rng(0)
C, D = RNG.standard_normal(5), RNG.standard_normal(4)
CALLS = {
    "circulant": [(C,), (np.arange(1),)],
    "companion": [(C,), (C[:2],)],
    "convolution_matrix": [(C, n, mode) for n in (2, 5, 8) for mode in ("full", "same", "valid")],
    "fiedler": [(C,), (C[:1],)],
    "fiedler_companion": [(RNG.standard_normal(n),) for n in range(3, 8)],
    "hadamard": [(1,), (8,)],
    "hankel": [(C,), (C, D)],
    "helmert": [(5,), (5, True)],
    "invhilbert": [(1,), (6,)],
    "invpascal": [(6, kind) for kind in ("symmetric", "lower", "upper")],
    "leslie": [(C, D)],
    "pascal": [(6, kind) for kind in ("symmetric", "lower", "upper")],
}


@pytest.mark.parametrize("name", CALLS)
def test_as_scipy(name):
    for args in CALLS[name]:
        got = getattr(linalg, name)(*args)
        want = getattr(scipy.linalg, name)(*args)
        np.testing.assert_allclose(got, want, rtol=1e-6 if got.dtype == "float32" else 1e-13)


@pytest.mark.parametrize("name", ["circulant", "companion", "fiedler", "fiedler_companion"])
def test_stacks_and_derivatives(name):
    f = getattr(linalg, name)
    lines = RNG.standard_normal((3, 5)) + 3
    stack = f(lines)
    for line, matrix in zip(lines, stack, strict=True):
        np.testing.assert_allclose(f(line), matrix, rtol=1e-14)
    np.testing.assert_array_equal(tfn.vmap(f)(lines), stack)
    direction, step = RNG.standard_normal(5), 1e-6
    _, slope = tfn.jvp(f, (lines[0],), (direction,))
    after, before = (np.asarray(f(lines[0] + h * direction)) for h in (step, -step))
    np.testing.assert_allclose(slope, (after - before) / (2 * step), atol=1e-8)


def test_wrong_calls():
    for call in (
        lambda: linalg.hadamard(6),
        lambda: linalg.companion(np.ones(1)),
        lambda: linalg.leslie(C, C),
        lambda: linalg.pascal(3, "other"),
        lambda: linalg.convolution_matrix(C, 0),
    ):
        with pytest.raises(TfnError):
            call()
