"""Images of other sizes: against values of jax.image, and what any method has to keep."""

import numpy as np
import pytest

import tfn
from tests.numpy.values import sample
from tfn import image
from tfn import numpy as jnp
from tfn.errors import ArgumentError, AxisError, ShapeError
from tfn.image import ResizeMethod

METHODS = ["linear", "cubic", "lanczos3", "lanczos5", "cubic-pytorch", "area"]
IMAGE = (np.arange(20) * 7 % 11).reshape(4, 5).astype(np.float32)

# fmt: off
LARGER = {  # column 1 of an image of 6 by 5
    "linear": [7.0, 8.0, 7.5, 1.5, 1.0, 2.0],
    "cubic": [6.86842, 8.47059, 8.00926, 0.99074, 0.52941, 2.13158],
    "lanczos3": [6.55923, 8.84597, 7.96779, 1.03221, 0.15403, 2.44077],
    "lanczos5": [6.41386, 8.84332, 8.03372, 0.96628, 0.15668, 2.58614],
    "area": [7.0, 8.0, 9.0, 0.0, 1.0, 2.0],
}
SMALLER = {  # row 1 of an image of 4 by 3, smoothed first or not
    ("linear", True): [5.0, 5.0, 5.0], ("linear", False): [4.33333, 5.0, 5.66667],
    ("cubic", True): [5.15385, 5.0, 4.84616], ("cubic", False): [4.06896, 5.0, 5.93103],
    ("lanczos3", True): [5.43396, 5.0, 4.56604], ("lanczos3", False): [4.1366, 5.0, 5.8634],
    ("lanczos5", True): [5.63999, 5.0, 4.36001], ("lanczos5", False): [3.95348, 5.0, 6.04652],
    ("area", True): [4.8, 5.0, 5.2], ("area", False): [4.8, 5.0, 5.2],
    ("cubic-pytorch", False): [4.42593, 5.0, 5.57407],
}
MOVED = {  # 3 by 6, by (0.75, 1.3), to (0.4, -0.6): the last row
    "linear": [3.39593, 1.70437, 6.92308, 5.0905, 4.93364, 6.60784],
    "cubic": [3.36036, 1.08346, 7.43525, 4.95819, 4.64887, 6.9018],
}
# fmt: on


def near(got, want, ulps=64):
    """Equal at the precision of the dtype, by the size of the largest."""
    x, y = np.asarray(got), np.asarray(want)
    assert x.shape == y.shape
    size = max(1.0, float(np.abs(y).max(initial=0)))
    eps = float(tfn.dtypes.finfo(x.dtype).eps) if x.dtype.kind not in "biu" else 0
    wide = complex if x.dtype.kind == "c" else float
    np.testing.assert_allclose(x.astype(wide), y.astype(wide), rtol=0, atol=ulps * eps * size)


@pytest.mark.parametrize("method", LARGER)
def test_larger_as_jax(method):
    for antialias in (True, False):
        got = image.resize(IMAGE, (6, 5), method, antialias)
        np.testing.assert_allclose(got[:, 1], LARGER[method], atol=2e-5)


@pytest.mark.parametrize("method, antialias", SMALLER)
def test_smaller_as_jax(method, antialias):
    got = image.resize(IMAGE, (4, 3), method, antialias)
    np.testing.assert_allclose(got[1], SMALLER[method, antialias], atol=2e-5)


@pytest.mark.parametrize("method", MOVED)
def test_moved_as_jax(method):
    scale, translation = np.float32([0.75, 1.3]), np.float32([0.4, -0.6])
    got = image.scale_and_translate(IMAGE, (3, 6), (0, 1), scale, translation, method)
    np.testing.assert_allclose(got[2], MOVED[method], atol=2e-5)


@pytest.mark.parametrize("sizes", [(7, 5, 13, 11), (5, 7, 3, 2), (1, 1, 4, 1), (8, 4, 4, 8)])
def test_nearest_is_the_element_at_the_centre(sizes):
    m0, m1, n0, n1 = sizes
    for name in ("int8", "bool", "bfloat16", "float64", "complex64"):
        x = np.arange(m0 * m1).reshape(m0, m1).astype(tfn.dtypes.canonical(name))
        rows, columns = (((2 * np.arange(n) + 1) * m) // (2 * n) for m, n in ((m0, n0), (m1, n1)))
        got = image.resize(x, (n0, n1), "nearest")
        assert got.dtype == x.dtype
        np.testing.assert_array_equal(got, x[rows][:, columns])


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_invariants_of_every_method(method, antialias):
    ones = np.ones((3, 7))
    near(image.resize(ones, (11, 2), method, antialias), np.ones((11, 2)))
    x = sample("float64", (6, 5, 3), special=False)
    near(image.resize(x, (6, 5, 3), method, antialias), x, 0)
    got = image.resize(x, (4, 9, 3), method, antialias)
    upside = image.resize(x[::-1], (4, 9, 3), method, antialias)
    near(upside, np.asarray(got)[::-1])
    near(image.resize(x.swapaxes(0, 1), (9, 4, 3), method, antialias), got.swapaxes(0, 1))
    near(image.resize(x[..., :1], (4, 9, 1), method, antialias), got[..., :1])


def test_areas_are_means():
    x = sample("float64", (6, 4), special=False)
    near(image.resize(x, (3, 2), "area"), x.reshape(3, 2, 2, 2).mean((1, 3)))
    near(image.resize(x, (12, 4), "area"), np.repeat(x, 2, 0))


@pytest.mark.parametrize("method", ["linear", "cubic"])
def test_straight_lines_stay_straight(method):
    """Away from the borders; the other methods have no such property."""
    got = image.resize(np.arange(10.0), (30,), method)
    near(got[6:24], ((np.arange(30) + 0.5) / 3 - 0.5)[6:24])


@pytest.mark.parametrize("name", ["int32", "uint8", "bool", "float16", "bfloat16", "complex64"])
@pytest.mark.parametrize("method", ["linear", "lanczos3"])
def test_dtypes(name, method):
    x = sample(name, (7, 5), special=False)
    got = image.resize(x, (4, 9), method)
    want = image.resize(x.astype(complex if name == "complex64" else float), (4, 9), method)
    assert got.dtype == (np.float32 if x.dtype.kind in "biu" else x.dtype)
    near(got, want)


def test_sizes_of_nothing():
    assert image.resize(np.ones((3, 0)), (5, 0), "linear").shape == (5, 0)
    assert image.resize(np.ones((3, 2)), (0, 2), "cubic").shape == (0, 2)
    assert image.resize(np.ones((3, 2)), (0, 2), "nearest").shape == (0, 2)
    assert image.resize(np.float32(3), (), "linear").item() == 3
    x = np.ones((3, 2), np.int32)
    none = np.zeros(0, np.float32)
    near(image.scale_and_translate(x, (3, 2), (), none, none, "linear"), x.astype(np.float32))
    assert image.resize(x, (3, 2), "linear").dtype == np.float32


def test_corners_upon_corners():
    x = sample("float64", (5,), special=False)
    scale = np.array([8 / 4])
    got = image.scale_and_translate(x, (9,), (0,), scale, (1 - scale) / 2, "linear")
    near(got, np.interp(np.linspace(0, 4, 9), np.arange(5), x))
    assert image.scale_and_translate(x, (9,), (-1,), scale, scale + 20, "cubic").tolist() == [0] * 9


@pytest.mark.parametrize("method", METHODS)
def test_gradients(method):
    x = sample("float64", (4, 5), special=False)
    scale, translation = np.array([0.73, 1.6]), np.array([0.3, -0.45])

    def loss(x, scale, translation):
        moved = image.scale_and_translate(x, (5, 6), (0, 1), scale, translation, method)
        return (moved**2).sum()

    at = [jnp.asarray(v) for v in (x, scale, translation)]
    slopes = tfn.grad(loss, (0, 1, 2))(*at)
    for i, slope in enumerate(slopes):
        way = jnp.asarray(sample("float64", at[i].shape, 3, special=False))
        ends = [loss(*at[:i], at[i] + h * way, *at[i + 1 :]).item() for h in (-1e-6, 1e-6)]
        assert abs((ends[1] - ends[0]) / 2e-6 - (slope * way).sum().item()) < 1e-5


@pytest.mark.parametrize("method", [*METHODS, "nearest"])
def test_transforms(method):
    xs = jnp.asarray(sample("float32", (3, 4, 5), special=False))

    def f(x):
        return image.resize(x, (6, 3), method)

    each = np.stack([np.asarray(f(x)) for x in xs])
    near(tfn.jit(f)(xs[0]), each[0])
    near(tfn.vmap(f)(xs), each)
    near(image.resize(xs, (3, 6, 3), method), each)
    _, tangent = tfn.jvp(f, (xs[0],), (xs[1],))
    near(tangent, each[1])
    slope = tfn.grad(lambda x: (f(x) * each[0]).sum())(xs[2])
    near((slope * xs[1]).sum(), (each[0] * each[1]).sum(), 256)


def test_methods_have_names():
    assert ResizeMethod.from_string("trilinear") is ResizeMethod.LINEAR
    got = image.resize(IMAGE, (2, 2), ResizeMethod.LINEAR)
    near(got, image.resize(IMAGE, (2, 2), "triangle", precision="highest"), 0)


@pytest.mark.parametrize(
    "error, words, call",
    [
        (ArgumentError, "no method of resizing", lambda: image.resize(IMAGE, (2, 2), "best")),
        (ArgumentError, "a name or a ResizeMethod", lambda: image.resize(IMAGE, (2, 2), 3)),
        (ShapeError, "a size for each axis", lambda: image.resize(IMAGE, (2,), "linear")),
        (ShapeError, "not negative", lambda: image.resize(IMAGE, (2, -2), "linear")),
        (ShapeError, "is empty", lambda: image.resize(np.ones((0, 2)), (3, 2), "linear")),
        (ArgumentError, "cannot do 'nearest'", lambda: move(IMAGE, (0,), [1.0], "nearest")),
        (ShapeError, "for each axis", lambda: move(IMAGE, (0, 1), [1.0])),
        (AxisError, "axis 2", lambda: move(IMAGE, (2,), [1.0])),
        (AxisError, "twice", lambda: move(IMAGE, (1, -1), [1.0, 1.0])),
    ],
)
def test_errors(error, words, call):
    with pytest.raises(error, match=words):
        call()


def move(x, axes, scale, method="linear"):
    return image.scale_and_translate(x, (4, 5), axes, np.array(scale), np.zeros(1), method)
