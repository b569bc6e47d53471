"""Derivatives checked against finite differences."""

from functools import partial

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.compat.test_util import check_grads, check_jvp, check_vjp


def test_right_derivatives_pass():
    x = np.float32([0.3, 1.2])
    check_grads(lambda x, w: tnp.sin(x) * w["w"], (x, {"w": x}), order=2)
    check_grads(tnp.exp, (1.5,), order=1, modes=["rev"], eps=1e-2)
    check_grads(lambda z: z * z, (np.complex64(1 + 2j),), order=1, rtol={np.complex64: 1e-2})


def test_wrong_derivatives_are_found():
    @tfn.custom_jvp
    def f(x):
        return x * x

    f.defjvp(lambda xs, dxs: (f(*xs), 3 * xs[0] * dxs[0]))
    with pytest.raises(AssertionError, match="tangent"):
        check_jvp(f, partial(tfn.jvp, f), (np.array(2.0),))
    with pytest.raises(AssertionError, match="cotangent"):
        check_vjp(f, partial(tfn.vjp, f), (np.array(2.0),))
    with pytest.raises(AssertionError):
        check_grads(f, (2.0,), order=1)
