"""Values between elements, against SciPy where it has the modes."""

import numpy as np
import pytest
import scipy.ndimage

import tfn
from tests.covering import in_turn
from tests.numpy.values import sample
from tfn import numpy as jnp
from tfn.errors import ArgumentError, DTypeError, ShapeError
from tfn.scipy.ndimage import map_coordinates

# Ours, and SciPy's name for it.
MODES = {
    "constant": "grid-constant",
    "wrap": "grid-wrap",
    "nearest": "nearest",
    "mirror": "mirror",
    "reflect": "reflect",
}
SHAPES = [(7,), (5, 3), (2, 4, 3), (1, 3)]
AT = np.ones(2)


def places(shape, count=(4, 5), seed=0):
    """Places on all sides of an array, not half way between two elements."""
    random = np.random.default_rng(seed)
    return list(random.uniform(-2.3, 3.3, (len(shape), *count)) * np.reshape(shape, (-1, 1, 1)))


def near(got, want, eps=1e-12):
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, atol=eps * max(1, np.abs(want).max(initial=0)))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("mode", MODES)
def test_as_scipy(mode, order, shape):
    x, at = sample("float64", shape, special=False), places(shape)
    got = map_coordinates(x, at, order, mode, 2.5)
    if mode == "mirror" and shape[0] == 1:
        at[0] = at[0] * 0  # SciPy shows nothing in a mirror of one element
    want = scipy.ndimage.map_coordinates(x, at, order=order, mode=MODES[mode], cval=2.5)
    near(got, want)
    near(tfn.jit(lambda x, at: map_coordinates(x, at, order, mode, 2.5))(x, at), got)
    near(map_coordinates(x, jnp.stack(at), order, mode, 2.5), got)


def test_half_way_is_away_from_zero():
    """As jax.scipy: SciPy takes the larger one."""
    at = np.float32([-1.5, -0.5, 0.5, 1.5, 2.5])
    got = map_coordinates(np.arange(5), [at], 0, cval=9)
    assert got.tolist() == [9, 9, 1, 2, 3]
    assert map_coordinates(np.arange(5), [at], 0, "wrap").tolist() == [3, 4, 1, 2, 3]


def test_values_at_borders_are_interpolated_with_those_beyond():
    at = [np.float32([-0.25, 1.5, 2.5])]
    x = np.float32([4, 8])
    assert map_coordinates(x, at, 1).tolist() == [3, 4, 0]
    assert map_coordinates(x, at, 1, cval=16).tolist() == [7, 12, 16]
    assert map_coordinates(x, at, 1, "wrap").tolist() == [5, 6, 6]


@pytest.mark.parametrize("mode", in_turn(2, MODES))
@pytest.mark.parametrize(
    "name", ["int8", "uint8", "int32", "bool", "float16", "bfloat16", "complex64", "complex128"]
)
def test_dtypes(name, mode):
    x, at = sample(name, (5, 3), special=False), places((5, 3))
    wide = x.astype(complex if x.dtype.kind == "c" else float)
    for order in (0, 1):
        got = map_coordinates(x, at, order, mode, 2)
        assert got.dtype == x.dtype
        want = np.asarray(map_coordinates(wide, at, order, mode, bool(2) if name == "bool" else 2))
        if x.dtype.kind in "iu":
            want = np.trunc(want + np.copysign(0.5, want))  # no place is exactly between two
        eps = float(tfn.dtypes.finfo(name).eps) if x.dtype.kind not in "biu" else 0
        near(np.asarray(got).astype(wide.dtype), want.astype(x.dtype).astype(wide.dtype), 2 * eps)


def test_integer_coordinates():
    x = sample("int32", (5, 3), special=False) + 2**30
    at = [np.int32([0, 4, -1, 7]), np.int8([2, 0, 1, 1])]
    for order in (0, 1):
        got = map_coordinates(x, at, order, "constant", 3)
        assert got.tolist() == [x[0, 2], x[4, 0], 3, 3]  # exact, as no float32 would be
        near(map_coordinates(x, at, order, "nearest"), x[[0, 4, 0, 4], [2, 0, 1, 1]])


def test_shapes_of_places():
    x = sample("float64", (4, 3), special=False)
    rows, columns = np.array([[0.5], [1.25]]), np.array([0.0, 1.5, 2.0])
    want = scipy.ndimage.map_coordinates(x, np.broadcast_arrays(rows, columns), order=1)
    near(map_coordinates(x, [rows, columns], 1), want)
    near(map_coordinates(x, [1.0, 2], 1), x[1, 2])
    assert map_coordinates(x, [np.zeros((0, 2)), np.zeros((0, 2))], 1).shape == (0, 2)


@pytest.mark.parametrize("mode", MODES)
def test_gradients(mode):
    x, at = jnp.asarray(sample("float64", (5, 3), special=False)), jnp.asarray(places((5, 3)))

    def loss(x, at):
        return (map_coordinates(x, at, 1, mode, 0.5) ** 2).sum()

    slopes = tfn.grad(loss, (0, 1))(x, at)
    for i, given in enumerate((x, at)):
        way = jnp.asarray(sample("float64", given.shape, 3, special=False))
        values = [
            loss(*(v + h * way if j == i else v for j, v in enumerate((x, at)))).item()
            for h in (-1e-6, 1e-6)
        ]
        near((values[1] - values[0]) / 2e-6, (slopes[i] * way).sum(), 1e-6)
    none = tfn.grad(lambda at: map_coordinates(x, at, 0, mode).sum())(at)
    near(none, np.zeros(at.shape))


def test_vmap_is_a_stack():
    xs = jnp.asarray(sample("float32", (3, 5, 4), special=False))
    at = jnp.asarray(np.stack([places((5, 4), seed=i) for i in range(3)]).astype(np.float32))
    for mode in MODES:

        def f(x, at):
            return map_coordinates(x, at, 1, mode)  # noqa: B023

        near(tfn.vmap(f)(xs, at), [np.asarray(f(x, a)) for x, a in zip(xs, at)], 1e-6)
        near(tfn.vmap(f, (None, 0))(xs[0], at), [np.asarray(f(xs[0], a)) for a in at], 1e-6)


def test_places_far_away():
    x, at = np.float32([1, 2, 3]), [np.float32([1e9, -1e9])]
    assert map_coordinates(x, at, 1, "nearest").tolist() == [3, 1]
    assert map_coordinates(x, at, 1).tolist() == [0, 0]


@pytest.mark.parametrize(
    "error, words, call",
    [
        (ShapeError, "for each axis", lambda: map_coordinates(np.ones((2, 2)), [np.ones(3)], 1)),
        (ShapeError, "an element", lambda: map_coordinates(np.ones(0), [np.ones(3)], 1)),
        (ShapeError, "for each axis", lambda: map_coordinates(1.0, [], 1)),
        (ShapeError, "broadcast", lambda: map_coordinates(np.ones((2, 2)), [np.ones(3), AT], 1)),
        (ArgumentError, "orders 0 and 1", lambda: map_coordinates(np.ones(2), [np.ones(3)], 3)),
        (ArgumentError, "no such mode", lambda: map_coordinates(np.ones(2), [1.0], 1, "grid-wrap")),
        (DTypeError, "real numbers", lambda: map_coordinates(np.ones(2), [1j], 1)),
    ],
)
def test_errors(error, words, call):
    with pytest.raises(error, match=words):
        call()
