"""The incomplete beta function at odd parameters; `test_special` has drawn ones and derivatives."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special as sp

import tfn
import tfn.numpy as tnp
from tfn import lax


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e4, 1e7])
def test_tails_and_centre_are_those_of_scipy(scale: float) -> None:
    a, b = scale * np.array([0.5, 1.0, 3.0]), scale * np.array([2.0, 1.0, 0.7])
    mean, width = a / (a + b), np.sqrt(a * b / (a + b + 1)) / (a + b)
    for steps in (-5, -1, 0, 1, 5):
        x = np.clip(mean + steps * width, 1e-12, 1 - 1e-12)
        np.testing.assert_allclose(lax.betainc(a, b, x), sp.betainc(a, b, x), rtol=1e-8)


def test_ends_are_zero_and_one_and_the_density_there_is_its_limit() -> None:
    a = tnp.array([0.5, 1.0, 2.0])
    assert lax.betainc(a, a, tnp.zeros(3)).tolist() == [0, 0, 0]
    assert lax.betainc(a, a, tnp.ones(3)).tolist() == [1, 1, 1]
    density = tfn.vmap(tfn.grad(lax.betainc, 2))
    assert density(a, a, tnp.zeros(3)).tolist() == [np.inf, 1, 0]
    assert density(a, a, tnp.ones(3)).tolist() == [np.inf, 1, 0]
