"""Operands of lax: one shape, one dtype, Python scalars that take it."""

from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
import tfn.scipy.special
from tfn import lax
from tfn.errors import AxisError, DTypeError, ShapeError


def test_a_python_scalar_takes_dtype_and_shape() -> None:
    x = np.arange(3, dtype=np.float16)
    out = lax.mul(2, lax.add(x, 1.5))
    assert out.dtype == np.float16
    np.testing.assert_array_equal(out, (x + 1.5) * 2)


def test_a_scalar_array_is_repeated() -> None:
    out = lax.sub(np.float32(1), np.arange(4, dtype=np.float32))
    np.testing.assert_array_equal(out, [1, 0, -1, -2])


def test_nothing_is_promoted() -> None:
    with pytest.raises(DTypeError, match=r"f32\[2\].*i32\[2\]"):
        lax.add(np.ones(2, np.float32), np.ones(2, np.int32))
    with pytest.raises(DTypeError, match=r"1\.5 has no value in int32"):
        lax.add(np.ones(2, np.int32), 1.5)
    with pytest.raises(DTypeError, match="1 has no value in bool"):
        lax.bitwise_and(np.ones(2, bool), 1)


def test_axes_are_not_added() -> None:
    with pytest.raises(ShapeError, match="one shape"):
        lax.add(np.ones(2, np.float32), np.ones((1, 2), np.float32))


def test_axes_are_checked() -> None:
    with pytest.raises(AxisError, match="axis 2 of an array that has 2 axes"):
        lax.reduce_sum(np.ones((2, 2), np.float32), (2,))
    with pytest.raises(AxisError, match="the same axis twice"):
        lax.reduce_sum(np.ones((2, 2), np.float32), (1, -1))


def test_python_scalars_alone() -> None:
    assert lax.add(1, 2.5).dtype == np.float32
    assert lax.add(1, 2).dtype == np.int32
    assert isinstance(lax.add(1, 2), tfn.Array)


WEAK_AS_THEIR_OPERANDS = [
    lambda x: lax.add(x, 2.0),
    lambda x: lax.rem(x, 2.0),
    lambda x: lax.clamp(0.0, x, 1.0),
    lambda x: lax.reshape(x, (2, 2)),
    lambda x: lax.rev(x, (0,)),
    lambda x: lax.pad(x, 0.0, [(1, 0, 0)]),
    lambda x: lax.slice_in_dim(x, 1, 3),
    lambda x: lax.concatenate([x, x], 0),
    lambda x: lax.broadcast_in_dim(x, (3, 4), (1,)),
    lambda x: lax.reduce(x, 0.0, lax.add, (0,)),
    lambda x: lax.dot(x, x),
    lambda x: lax.sort(x),
    lambda x: lax.top_k(x, 2)[0],
    lambda x: lax.dynamic_slice(x, (1,), (2,)),
    lambda x: lax.nextafter(x, x),
    lambda x: lax.optimization_barrier(x),
    lambda x: tnp.interp(x, x, x),
    lambda x: tnp.convolve(x, x),
    lambda x: tfn.scipy.special.erf(x),
]


@pytest.mark.parametrize("function", WEAK_AS_THEIR_OPERANDS)
@pytest.mark.parametrize("run", [lambda f: f, tfn.jit])
def test_results_are_weak_if_all_operands_are(function: Any, run: Any) -> None:
    """As in JAX, so that a Python number that has passed through still takes another's dtype."""
    x = tnp.full((4,), 0.5, "float32")
    weak = tnp.where(x > 0, 0.5, 0.25)
    assert weak.weak_type and not x.weak_type
    assert run(function)(weak).weak_type and not run(function)(x).weak_type
    half = tnp.ones((), "bfloat16")
    assert (run(function)(weak) * half).dtype == "bfloat16"


@pytest.mark.parametrize("name", ["log2", "log10", "deg2rad", "sinc", "nan_to_num"])
def test_results_of_some_functions_are_never_weak(name: str) -> None:
    assert not getattr(tnp, name)(0.5).weak_type
    assert not tnp.hypot(3.0, 4.0).weak_type and not tfn.nn.gelu(0.5).weak_type
