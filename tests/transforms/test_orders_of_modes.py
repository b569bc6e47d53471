"""Second derivatives by each order of forward and reverse mode: all four are one number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tfn
from tests.covering import covering
from tfn import Array
from tfn import numpy as jnp
from tfn.scipy import special

INF = np.inf
CASES: dict[str, tuple[Callable[..., Any], tuple[float, ...], int, float]] = {
    # of mpmath at 40 digits
    "gammainc": (special.gammainc, (3.0, 40.0), 0, -2.6436405e-14),
    "hyp1f1": (special.hyp1f1, (1.5, 2.5, 0.5), 0, 0.037899108),
    "zeta": (special.zeta, (2.5, 1.5), 0, 0.60069571),
    # limits
    "dawsn": (special.dawsn, (-INF,), 0, 0.0),
    "erfcx": (special.erfcx, (INF,), 0, 0.0),
    "hypot at infinity": (jnp.hypot, (-INF, 1.0), 0, 0.0),
    "hypot beside infinity": (jnp.hypot, (1.0, -INF), 0, 0.0),
    "hypot of infinities": (jnp.hypot, (INF, -INF), 1, 0.0),
}


def forward(f: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda x: tfn.jvp(f, (x,), (jnp.ones_like(x),))[1]


@covering("name, first, second", CASES, [forward, tfn.grad], [forward, tfn.grad], pairs=[(1, 2)])
def test_second_derivatives_are_those_of_every_order(name: str, first: Any, second: Any) -> None:
    function, at, by, want = CASES[name]
    operands = [jnp.float32(x) for x in at]

    def alone(x: Array) -> Array:
        return function(*operands[:by], x, *operands[by + 1 :])

    found = second(first(alone))(operands[by])
    np.testing.assert_allclose(found, want, rtol=2e-5)


@pytest.mark.parametrize("f", [special.gammainc, special.gammaincc])
def test_gradients_of_gradients_by_the_shape_of_gamma(f: Any) -> None:
    a, x = jnp.float32(2.0), jnp.float32(3.0)
    wanted = forward(forward(lambda a: f(a, x)))(a)
    np.testing.assert_allclose(tfn.grad(tfn.grad(f))(a, x), wanted, rtol=1e-4)


def test_hypot_at_infinity_is_as_long_and_turns_as_its_operand() -> None:
    np.testing.assert_array_equal(jnp.hypot(INF, jnp.array([1.0, np.nan, -INF])), [INF] * 3)
    assert tfn.grad(jnp.hypot)(-INF, 1.0) == -1 and tfn.grad(jnp.hypot)(1.0, -INF) == 0
