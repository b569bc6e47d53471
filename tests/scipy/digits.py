"""Units in the last place between a function and SciPy's, and derivatives against differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tfn
from tfn.config import config


def digits(
    f: Callable[..., Any],
    g: Callable[..., Any],
    *operands: Any,
    ulps: float,
    scale: float = 0.0,
) -> None:
    """Compares in units of the last place of the result, or of `scale` where that is larger."""
    got = np.asarray(f(*operands))
    wide = [
        x.astype(np.result_type(x.dtype, np.float64)) if x.dtype.kind in "fc" else x
        for x in operands
    ]
    with np.errstate(all="ignore"):
        want = np.asarray(g(*wide))
    eps = np.finfo(got.dtype).eps
    size = np.maximum(abs(want), scale)
    known = np.isfinite(want) & (abs(want) < np.finfo(got.dtype).max) & (size > 1e-30)
    error = (abs(got - want) / np.where(known, size, 1) / eps)[known]
    worst = error.argmax()
    place = [np.broadcast_to(x, want.shape)[known][worst] for x in operands]
    assert error[worst] <= ulps, f"{error[worst]:.1f} ulps at {place}"
    compiled = tfn.jit(f)(*operands)
    np.testing.assert_allclose(compiled, got, rtol=ulps * eps * 4, atol=scale * eps * ulps)


def slopes(f: Callable[..., Any], x: Any, tolerance: float = 1e-6) -> None:
    """Forward and reverse derivatives by one operand, and batches, element by element."""
    before, config.device = config.device, "python"  # how it is compiled is the subject of `digits`
    try:
        _slopes(f, x, tolerance)
    finally:
        config.device = before


def _slopes(f: Callable[..., Any], x: Any, tolerance: float) -> None:
    step, value = 1e-6 * np.maximum(abs(x), 0.1), tfn.jit(f)  # which is traced once
    want = (np.asarray(value(x + step)) - np.asarray(value(x - step))) / (2 * step)
    found = tfn.grad(lambda x: f(x).sum())(x)
    np.testing.assert_allclose(found, want, rtol=tolerance, atol=tolerance)
    _, forward = tfn.jvp(f, (x,), (np.ones_like(x),))
    np.testing.assert_allclose(forward, found, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(tfn.vmap(f)(x), value(x), rtol=1e-12)
