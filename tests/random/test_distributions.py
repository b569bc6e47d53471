"""Bits and numbers: the values that jax 0.10 gives for ``key(7)``, and laws of distributions."""

import numpy as np
import pytest

import tfn
from tfn import random
from tfn.errors import DTypeError, ShapeError

KEY = random.key(7)
# fmt: off
BITS = {
    "uint8": [[11, 0], [170, 48]],
    "uint16": [[10507, 32256], [10666, 17712]],
    "uint32": [[2895194379, 4185947648], [1300703658, 1906787632]],
}
FLOATS = {
    "uniform": {
        "float16": [0.16015625, 0.4921875, 0.162109375],
        "bfloat16": [0.0390625, 0.0, 0.6640625],
        "float32": [0.6740899085998535, 0.9746168851852417, 0.3028435707092285],
    },
    "normal": {
        "float16": [-0.99267578125, -0.0189666748046875, -0.984375],
        "bfloat16": [-1.734375, -2.890625, 0.427734375],
        "float32": [0.4512351453304291, 1.9534509181976318, -0.5162394642829895],
    },
    "gumbel": {
        "float16": [-0.60546875, 0.343994140625, -0.5986328125],
        "bfloat16": [-1.1796875, -4.46875, 0.890625],
        "float32": [0.9304105043411255, 3.6608431339263916, -0.17776018381118774],
    },
    "exponential": {
        "float16": [0.174560546875, 0.677734375, 0.1768798828125],
        "bfloat16": [0.039794921875, 0.0, 1.09375],
        "float32": [1.121133804321289, 3.673671007156372, 0.36074545979499817],
    },
    "laplace": {
        "float16": [1.13671875, 0.01525115966796875, 1.125],
        "bfloat16": [2.5, 5.53125, -0.404296875],
        "float32": [-0.42798662185668945, -2.980525016784668, 0.501391589641571],
    },
}
TRUNCATED = {
    "float16": [-0.79736328125, 0.037322998046875, -0.79150390625],
    "bfloat16": [-1.2734375, -1.4921875, 0.4453125],
    "float32": [0.46917420625686646, 1.6863933801651, -0.4055710732936859],
}
INTEGERS = [
    ("int8", -3, 5, [4, 3, 1, 2]), ("uint8", 0, 256, [31, 102, 124, 237]),
    ("int16", 0, 1000, [799, 622, 100, 637]), ("int32", 0, 10, [9, 2, 0, 7]),
    ("int32", -(2**31), 2**31 - 1, [752193311, 1400917350, -455323268, -325042195]),
    ("uint32", 5, 100, [49, 47, 80, 77]), ("int32", 7, 2, [7, 7, 7, 7]),
]
WIDE_BITS = [15571024786774969728, 837714335556982463]
WIDE_UNIFORM = [0.8441069450823528, 0.04541258512665647]
WIDE_NORMAL = [1.0114813355590866, -1.6910609087906374]
WIDE_INTEGERS = [565873535173, 705619275709, 908980097410]
# fmt: on
TOLERANCE = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 2e-6}


@pytest.mark.parametrize("dtype", BITS)
def test_bits(dtype: str) -> None:
    out = random.bits(KEY, (2, 2), dtype)
    assert (out.dtype, out.tolist()) == (np.dtype(dtype), BITS[dtype])


def test_wide_numbers() -> None:
    assert random.bits(KEY, (2,), "uint64").tolist() == WIDE_BITS
    np.testing.assert_allclose(random.uniform(KEY, (2,), "float64"), WIDE_UNIFORM, rtol=1e-15)
    np.testing.assert_allclose(random.normal(KEY, (2,), "float64"), WIDE_NORMAL, rtol=1e-13)
    assert random.randint(KEY, (3,), 0, 10**12, "int64").tolist() == WIDE_INTEGERS


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", FLOATS)
def test_floats(name: str, dtype: str) -> None:
    out = getattr(random, name)(KEY, (3,), dtype)
    assert str(out.dtype) == dtype
    np.testing.assert_allclose(
        np.asarray(out).astype(np.float32), FLOATS[name][dtype], rtol=TOLERANCE[dtype]
    )


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_truncated_normal(dtype: str) -> None:
    out = random.truncated_normal(KEY, -1.5, 2.0, (3,), dtype)
    np.testing.assert_allclose(
        np.asarray(out).astype(np.float32), TRUNCATED[dtype], rtol=TOLERANCE[dtype]
    )


def test_truncated_normal_stays_inside() -> None:
    low = np.array([0.0, -1e-3, 4.0], np.float32)
    x = np.asarray(random.truncated_normal(KEY, low, low + np.float32(1e-3), (200, 3)))
    assert (x > low).all()
    assert (x < low + np.float32(1e-3)).all()
    assert random.truncated_normal(KEY, low, 5.0).shape == (3,)


def test_uniform_between() -> None:
    out = random.uniform(KEY, (2, 2), minval=-3.0, maxval=2.5)
    expected = [
        [0.7074944972991943, 2.3603928089141846],
        [-1.3343603610992432, -0.5582281351089478],
    ]
    np.testing.assert_allclose(out, expected, rtol=2e-6)
    bounds = np.array([[1.0], [2.0]], np.float32)
    out = np.asarray(random.uniform(KEY, (2, 50), minval=bounds, maxval=bounds + 1))
    assert ((out >= bounds) & (out < bounds + 1)).all()


@pytest.mark.parametrize(("dtype", "low", "high", "expected"), INTEGERS)
def test_randint(dtype: str, low: int, high: int, expected: list[int]) -> None:
    out = random.randint(KEY, (4,), low, high, dtype)
    assert (out.dtype, out.tolist()) == (np.dtype(dtype), expected)


def test_randint_refuses_bounds_that_do_not_broadcast_to_its_shape() -> None:
    for shape in ((), (1,), (2,)):
        with pytest.raises(ShapeError):
            random.randint(KEY, shape, 0, np.array([1, 2, 3]))


def test_randint_between_arrays() -> None:
    low, high = np.array([[0], [-4]], np.int32), np.array([5, 100, -2], np.int8)
    assert random.randint(KEY, (2, 3), low, high).tolist() == [[4, 22, 0], [3, 58, -4]]
    whole = random.randint(KEY, (4,), -(2**31), 2**31)
    assert len(set(whole.tolist())) == 4


def test_bernoulli_and_rademacher() -> None:
    assert random.rademacher(KEY, (8,)).tolist() == [-1, -1, 1, 1, -1, -1, 1, 1]
    p = np.array([0.0, 0.25, 1.0], np.float32)
    mean = np.asarray(random.bernoulli(KEY, p, (4000, 3))).mean(0)
    np.testing.assert_allclose(mean, p, atol=0.03)
    assert random.bernoulli(KEY, p).shape == (3,)
    assert random.bernoulli(KEY).shape == ()


@pytest.mark.parametrize(
    ("name", "mean", "variance"),
    [
        ("uniform", 0.5, 1 / 12),
        ("normal", 0.0, 1.0),
        ("gumbel", 0.5772, np.pi**2 / 6),
        ("exponential", 1.0, 1.0),
        ("laplace", 0.0, 2.0),
    ],
)
def test_moments(name: str, mean: float, variance: float) -> None:
    x = np.asarray(getattr(random, name)(random.key(11), (4000,)), np.float64)
    assert abs(x.mean() - mean) < 5 * (variance / len(x)) ** 0.5
    assert abs(x.var() / variance - 1) < 0.2


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (5, 7, 3)])
def test_shapes(shape: tuple[int, ...]) -> None:
    whole = np.asarray(random.bits(KEY, shape))
    assert whole.shape == shape
    flat = np.asarray(random.bits(KEY, (int(np.prod(shape)),)))
    np.testing.assert_array_equal(whole.ravel(), flat)  # an element depends on its place alone


def test_refusals() -> None:
    with pytest.raises(DTypeError, match="unsigned"):
        random.bits(KEY, (), "int32")
    with pytest.raises(DTypeError, match="normal needs a floating dtype"):
        random.normal(KEY, (), "int32")
    assert random.randint(KEY, (4,), np.float32(0), np.full(4, 7.9, "float32")).tolist() == (
        random.randint(KEY, (4,), np.zeros(4, "int32"), np.full(4, 7, "int32")).tolist()
    )
    with pytest.raises(DTypeError, match="randint needs an integer dtype"):
        random.randint(KEY, (), 0, 2, "float32")
    with pytest.raises(DTypeError, match="integer bounds"):
        random.randint(KEY, (), 0.5, 2)
    with pytest.raises(DTypeError, match="floating probability"):
        random.bernoulli(KEY, 1)
    with pytest.raises(DTypeError, match="signed dtype"):
        random.rademacher(KEY, (), "uint8")
    with pytest.raises(ShapeError, match="broadcast to its shape"):
        random.uniform(KEY, (2,), minval=np.zeros((3, 2), np.float32))


def test_gradients_reach_the_bounds() -> None:
    def draw(low: tfn.Array, high: tfn.Array) -> tfn.Array:
        return random.uniform(KEY, (), minval=low, maxval=high)

    u = random.uniform(KEY).item()
    low, high = tfn.grad(draw, argnums=(0, 1))(2.0, 5.0)
    np.testing.assert_allclose([low, high], [1 - u, u], rtol=1e-5)
    slope = tfn.grad(lambda upper: random.truncated_normal(KEY, -1.0, upper))(1.0)
    assert np.isfinite(slope.item())
    assert slope.item() > 0
