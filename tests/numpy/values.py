"""Arrays that find mistakes: odd sizes, borders of the dtypes, NaN and infinities."""

import numpy as np

from tfn import dtypes

SHAPES = [(), (0,), (1,), (7,), (2, 3), (3, 1, 5)]
FLOATS = ["bfloat16", "float16", "float32", "float64"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
NUMBERS = INTEGERS + FLOATS
ALL = ["bool", *NUMBERS]


def kind(name):
    return dtypes.canonical(name)


def sample(name, shape=(17,), seed=0, special=True):
    """Values of a dtype: ordinary ones, and special ones if asked for and the size allows it."""
    dtype = kind(name)
    random = np.random.default_rng(seed)
    if dtype.kind == "b":
        return random.random(shape) < 0.5
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        x = random.integers(max(info.min, -9), 9, shape).astype(dtype)
        border = [info.min, info.max, 0, 1]
    else:
        x = (random.standard_normal(shape) * 2).astype(dtype)
        border = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0]
    if special and x.size > len(border):
        x.flat[: len(border)] = [border[i] for i in random.permutation(len(border))]
    return x


def close(got, want, ulps=2):
    """Equal shapes, and values within some units in the last place; NaN equals NaN."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, (got.shape, want.shape)
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want)
        return
    eps = float(dtypes.finfo(got.dtype).eps)
    tiny = float(dtypes.finfo(got.dtype).tiny)
    wide = np.result_type(got.dtype, np.float64) if got.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(
        got.astype(wide),
        want.astype(got.dtype).astype(wide),
        rtol=ulps * eps,
        atol=tiny,
    )
