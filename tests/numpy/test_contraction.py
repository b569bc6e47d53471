"""Products against NumPy, over shapes with and without batch axes."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.numpy.test_linalg import near
from tests.numpy.values import close, sample
from tfn import lax
from tfn.errors import ArgumentError, ShapeError


def make(*shape, name="float64", seed=0):
    return sample(name, shape, seed + len(shape), special=False)


@pytest.mark.parametrize(
    "shapes",
    [
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 4)),
        ((2, 3), (3, 4)),
        ((5, 2, 3), (3, 4)),
        ((2, 3), (5, 3, 4)),
        ((5, 2, 3), (5, 3, 4)),
        ((3,), (5, 3, 4)),
        ((5, 2, 3), (3,)),
        ((7, 1, 2, 3), (5, 3, 1)),
        ((0, 3), (3, 2)),
        ((2, 0), (0, 3)),
        ((1, 1), (1, 1)),
    ],
)
def test_matmul_and_dot(shapes):
    x, y = make(*shapes[0]), make(*shapes[1], seed=1)
    close(tnp.matmul(x, y), np.matmul(x, y), 32)
    close(tnp.asarray(x) @ y, x @ y, 32)
    close(x @ tnp.asarray(y), x @ y, 32)
    close(tnp.dot(x, y), np.dot(x, y), 32)
    if shapes[0][-1] == shapes[1][-1]:
        close(tnp.inner(x, y), np.inner(x, y), 32)


def test_scalars():
    close(tnp.dot(2.0, make(3)), 2 * make(3))
    close(tnp.inner(make(2, 2), 3), make(2, 2) * 3)
    with pytest.raises(ShapeError, match="matmul needs arrays, not scalars"):
        tnp.matmul(2.0, tnp.ones(2))


def test_errors_name_the_axes():
    with pytest.raises(ShapeError) as caught:
        tnp.ones((64, 128)) @ tnp.ones((64, 10))
    assert caught.value.got == "f32[64,128], f32[64,10]: 128 and 64"
    assert ".T" in caught.value.hint
    with pytest.raises(
        ShapeError, match=r"matmul got incompatible shapes for broadcasting: \(2,\)"
    ):
        tnp.ones((2, 3, 4)) @ tnp.ones((5, 4, 3))


@pytest.mark.parametrize("name", ["int8", "uint8", "bool", "bfloat16", "int64"])
def test_dtypes(name):
    x, y = make(4, 3, name=name), make(3, 5, name=name, seed=2)
    got = tnp.matmul(x, y)
    assert got.dtype == x.dtype
    wide = np.float64 if name == "bfloat16" else x.dtype
    close(got, (x.astype(wide) @ y.astype(wide)).astype(x.dtype))


def test_preferred_element_type():
    x = make(4, 300, name="bfloat16")
    got = tnp.matmul(x, x.T, preferred_element_type="float32")
    assert got.dtype == np.float32
    close(got, x.astype(np.float64) @ x.T.astype(np.float64), 64)
    assert tnp.matmul(np.ones((2, 2), np.int8), np.ones((2, 2), np.float32)).dtype == np.float32


@pytest.mark.parametrize("axes", [0, 1, 2, ([0], [1]), ((2, 0), (1, 2)), (-1, 0)])
def test_tensordot(axes):
    x = make(3, 4, 5)
    y = (
        {0: make(2), 1: make(5, 2), 2: make(4, 5, 2)}.get(axes)
        if isinstance(axes, int)
        else (
            {"([0], [1])": make(2, 3), "((2, 0), (1, 2))": make(2, 5, 3), "(-1, 0)": make(5, 2)}[
                str(axes)
            ]
        )
    )
    close(tnp.tensordot(x, y, axes), np.tensordot(x, y, axes), 32)


def test_other_products():
    x, y = make(2, 3), make(4, 5)
    close(tnp.outer(x, y), np.outer(x, y))
    close(tnp.vdot(x, x), np.vdot(x, x), 8)
    close(tnp.kron(x, y), np.kron(x, y))
    close(tnp.kron(x[0], y), np.kron(x[0], y))
    close(tnp.cross(make(4, 3), make(3)), np.cross(make(4, 3), make(3)), 64)
    close(tnp.vecdot(x, x[:1]), (x * x[:1]).sum(-1), 8)


def test_matrices_and_vectors():
    random = np.random.default_rng(0)
    a, x = random.standard_normal((2, 3, 4)), random.standard_normal((5, 1, 4)) + 1j
    near(tnp.matvec(a, x), np.matvec(a, x))
    near(tnp.vecmat(x[..., :3], a), np.vecmat(x[..., :3], a))
    near(tnp.vecdot(x, a[0, 0]), np.vecdot(x, a[0, 0]))


def test_cross_products_along_other_axes_and_in_a_plane():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((3, 4, 5)), rng.standard_normal((3, 4, 5))
    got = tnp.cross(x, y, axisa=0, axisb=0, axisc=1)
    np.testing.assert_allclose(got, np.cross(x, y, axisa=0, axisb=0, axisc=1))
    p, q, s = (rng.standard_normal((6, n)) for n in (2, 2, 3))
    in_space = [np.pad(u, [(0, 0), (0, 1)]) for u in (p, q)]
    np.testing.assert_allclose(tnp.cross(p, q), np.cross(*in_space)[:, 2])
    np.testing.assert_allclose(tnp.cross(p, s), np.cross(in_space[0], s))


def test_tensorfloat32_rounds_factors_of_float32_to_10_bits() -> None:
    """On every device: products are those of rounded factors, and so are derivatives."""
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(33, 33)).astype(np.float32) for _ in range(2))
    a, b = (np.asarray(lax.reduce_precision(v, 8, 10)) for v in (x, y))
    wanted, asked = a @ b, "tensorfloat32"
    for got in (
        tnp.matmul(x, y, precision=asked),
        tnp.dot(x, y, precision="TF32_TF32_F32"),
        tnp.tensordot(x, y, 1, precision=(asked, asked)),
        tnp.einsum("ij,jk->ik", x, y, precision=asked),
        lax.dot(x, y, precision=asked),
        lax.batch_matmul(x[None], y[None], asked)[0],
    ):
        np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-5, atol=1e-5)
    assert np.abs(wanted - x @ y).max() > 1e-4
    for exact in (None, "highest", "high", lax.Precision.DEFAULT, ("highest", asked)):
        got = np.asarray(tnp.matmul(x, y, precision=exact))
        np.testing.assert_allclose(got, x @ y, rtol=1e-5, atol=1e-5)
    ct = rng.normal(size=(33, 33)).astype(np.float32)
    gradient = tfn.grad(lambda x: (tnp.matmul(x, y, precision=asked) * ct).sum())(x)
    rounded = np.asarray(lax.reduce_precision(ct, 8, 10))
    np.testing.assert_allclose(np.asarray(gradient), rounded @ b.T, rtol=1e-5, atol=1e-5)
    batched = tfn.vmap(lambda x: tnp.matmul(x, y, precision=asked))(np.stack([x, x]))
    np.testing.assert_allclose(np.asarray(batched[1]), wanted, rtol=1e-5, atol=1e-5)


def test_tensorfloat32_keeps_what_has_fewer_bits_and_what_is_no_number() -> None:
    one = np.float32([[1.0]])
    for x, want in ((1 + 2**-10, 1 + 2**-10), (1 + 2**-11, 1.0), (1 + 3 * 2**-11, 1 + 2**-9)):
        rounded = tnp.matmul(np.float32([[x]]), one, precision="tensorfloat32")
        assert float(rounded[0, 0]) == want
    for x in (np.inf, -np.inf):
        assert float(tnp.matmul(np.float32([[x]]), one, precision="tensorfloat32")[0, 0]) == x
    wide = tnp.matmul(np.float64([[1 + 2**-40]]), np.float64([[1.0]]), precision="tensorfloat32")
    assert float(wide[0, 0]) == 1 + 2**-40


@pytest.mark.parametrize("name", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("sizes", [(64, 64, 64), (5, 40, 33), (17, 63, 24), (1, 300, 9)])
def test_products_of_extremes_are_exact_in_32_bits(name, sizes):
    """Pairs are multiplied and added by one instruction, which must not saturate."""
    rows, depth, columns = sizes
    limits = np.iinfo(name)
    random = np.random.default_rng(depth)
    for low in (limits.min, limits.max, None):
        a, b = (
            random.integers(limits.min, limits.max, s, endpoint=True).astype(name)
            if low is None
            else np.full(s, low, name)
            for s in ((rows, depth), (depth, columns))
        )
        want = (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)
        got = tnp.matmul(a, b, preferred_element_type="int32")
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "precision", ["bogus", "HIGHEST", 3, ("high", "high", "high"), ("high", "x")]
)
@pytest.mark.parametrize(
    "product",
    [
        tnp.matmul,
        tnp.dot,
        lambda x, y, **k: tnp.einsum("ij,jk", x, y, **k),
        lambda x, y, **k: lax.dot(x.astype("int32"), y.astype("int32"), **k),
        lambda x, y, **k: lax.conv(x[None, None], y[None, None], (1, 1), "VALID", **k),
    ],
)
def test_a_precision_that_is_none(precision, product):
    with pytest.raises(ArgumentError, match="a precision of products has a name"):
        product(tnp.ones((2, 2)), tnp.ones((2, 2)), precision=precision)
    for known in (None, "F32_F32_F32", ("highest", "default"), lax.Precision.HIGH):
        product(tnp.ones((2, 2)), tnp.ones((2, 2)), precision=known)
