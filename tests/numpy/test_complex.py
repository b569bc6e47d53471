"""Complex numbers: values of NumPy, dtypes of JAX, and operations that they do not have."""

import operator
import pickle

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.errors import DTypeError

RNG = np.random.default_rng(4)
DTYPES = ["complex64", "complex128"]


def sample(shape, dtype="complex64"):
    return np.asarray(RNG.normal(size=shape) + 1j * RNG.normal(size=shape), dtype)


def close(got, want, digits=1e-5):
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape and got.dtype.kind == want.dtype.kind
    np.testing.assert_allclose(got, want, rtol=digits, atol=digits)


def test_parts():
    z = sample((3, 4))
    x = tnp.array(z)
    for name in ("real", "imag", "conj", "conjugate", "angle", "isreal", "iscomplex"):
        close(getattr(tnp, name)(x), getattr(np, name)(z))
        close(getattr(tnp, name)(x.real), getattr(np, name)(z.real))
    close(tnp.angle(x, deg=True), np.angle(z, deg=True))
    close(x.real + 1j * x.imag, z)
    assert x.real.dtype == x.imag.dtype == np.float32
    assert tnp.real(x.real) is not None and x.real.real.dtype == np.float32
    close(x.conj(), z.conj())
    assert tnp.iscomplexobj(x) and tnp.iscomplexobj([1, 2j]) and not tnp.iscomplexobj(1.0)
    assert tnp.isrealobj(np.ones(2)) and not tnp.isrealobj(1j)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (3, 5)], ids=str)
def test_arithmetic(shape, dtype):
    z, w = sample(shape, dtype), sample(shape, dtype)
    x, y = tnp.array(z), tnp.array(w)
    for op in (
        operator.add,
        operator.sub,
        operator.mul,
        operator.truediv,
        operator.eq,
        operator.ne,
    ):
        close(op(x, y), op(z, w))
        close(tfn.jit(op)(x, 2.5), op(z, 2.5))
        close(op(1 - 2j, x), op(1 - 2j, z))
    close(x**2, z**2)
    close(x**-3, z**-3)
    close(abs(-x), abs(z))
    assert (x + y).dtype == dtype and abs(x).dtype == dtypes_of(dtype)


def dtypes_of(dtype):
    return {"complex64": "float32", "complex128": "float64"}[dtype]


FUNCTIONS = """
    exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan arcsin arccos arctan sinh cosh tanh
    arcsinh arccosh arctanh sinc square reciprocal sign round rint sum prod mean var std
    cumsum cumprod any all count_nonzero diff sort ravel conj isfinite isnan isinf nan_to_num trace
    nansum nanmean nanstd average
""".split()  # noqa: SIM905


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    z = sample((3, 4))
    if name == "sort":
        z = z.round()
    want = getattr(np, name)(z)
    close(getattr(tnp, name)(tnp.array(z)), want, 2e-5)
    close(tfn.jit(getattr(tnp, name))(z), want, 2e-5)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_reductions_along_an_axis(axis):
    z = sample((3, 5))
    for name in ("sum", "prod", "mean", "var", "std", "cumsum", "cumprod", "sort", "argsort"):
        close(getattr(tnp, name)(tnp.array(z), axis=axis), getattr(np, name)(z, axis=axis))
    close(tnp.sum(tnp.array(z), axis, where=z.real > 0), np.sum(z, axis, where=z.real > 0))
    assert tnp.var(tnp.array(z)).dtype == np.float32


def test_products():
    a, b = sample((3, 4)), sample((4, 2))
    x, y = tnp.array(a), tnp.array(b)
    close(x @ y, a @ b)
    close(tfn.jit(lambda x, y: (x @ y).conj() * 2j)(x, y), (a @ b).conj() * 2j)
    close(tnp.vdot(x, x), np.vdot(a, a))
    close(tnp.vecdot(x, x), np.vecdot(a, a))
    close(tnp.einsum("ij,kj->ik", x, x.conj()), np.einsum("ij,kj->ik", a, a.conj()))
    close(tnp.outer(x[0], y[0]), np.outer(a[0], b[0]))
    close(tnp.cov(x), np.cov(a))
    for n in (1, 17, 64):
        a, b = sample((n, n)), sample((n, n))
        close(tnp.array(a) @ tnp.array(b), a @ b, 1e-4)


def test_arrays_from_numbers():
    assert tnp.array([1, 2.5, 3j]).dtype == tnp.asarray(1j).dtype == np.complex64
    assert tnp.array(np.ones(2, complex)).dtype == np.complex128
    assert tnp.asarray(1j).weak_type and (1j * tnp.ones(2, "float64")).dtype == np.complex128
    assert (tnp.ones(2) + 1j).dtype == (tnp.arange(2) + 1j).dtype == np.complex64
    close(tnp.full(3, 1 + 2j), np.full(3, 1 + 2j))
    close(tnp.linspace(0, 1 + 1j, 5), np.linspace(0, 1 + 1j, 5))
    close(tnp.geomspace(1, 8j, 4), np.geomspace(1, 8j, 4))
    close(tnp.arange(4, dtype=complex), np.arange(4, dtype=complex))
    close(tnp.zeros(2, complex).at[0].set(1j).at[1].add(2 - 1j), [1j, 2 - 1j])
    close(tnp.interp(0.25, np.array([0.0, 1]), np.array([0, 4j])), 1j)
    with pytest.raises(DTypeError, match="complex numbers cannot be put into an array of real"):
        tnp.zeros(2).at[0].set(1j)


def test_casts():
    z = sample(5)
    x = tnp.array(z)
    close(x.astype("float32"), z.real)
    close(x.astype("complex128"), z.astype("complex128"))
    close(x.real.astype(complex), z.real.astype(complex))
    assert tnp.array([0j, 1j]).astype(bool).tolist() == [False, True]
    assert bool(tnp.array(1j)) and not tnp.array(0j)


@pytest.mark.parametrize("name", ["less", "less_equal", "greater", "maximum", "minimum"])
def test_complex_numbers_are_ordered_by_real_parts_first(name):
    draw = np.random.RandomState(0)
    x, y = (draw.randint(0, 3, (5, 6)) + 1j * draw.randint(0, 3, (5, 6)) for _ in range(2))
    np.testing.assert_array_equal(getattr(tnp, name)(x, y), getattr(np, name)(x, y))


@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_of_complex_numbers(name):
    draw = np.random.RandomState(1)
    x = draw.randint(0, 3, (5, 6)) + 1j * draw.randint(0, 3, (5, 6))
    ours, theirs = getattr(tnp, name), getattr(np, name)
    for axis in (None, 0, 1):
        np.testing.assert_array_equal(ours(x, axis=axis), theirs(x, axis=axis))
    options = {"axis": 1, "initial": 1 + 1j, "where": x.real > 0, "keepdims": True}
    np.testing.assert_array_equal(ours(x, **options), theirs(x, **options))
    x[0, 0] = np.nan
    assert np.isnan(ours(x, axis=0)).tolist() == [True] + [False] * 5


def test_order_of_complex_numbers_is_refused():
    x = tnp.array([1j, 2.0])
    for f in (
        lambda: x // 2,
        lambda: x % 2,
        lambda: tnp.floor(x),
        x.argmax,
    ):
        with pytest.raises(DTypeError, match=r"real numbers|floating values|integers"):
            f()


def test_loops_under_jit():
    c = sample((4, 5)) * np.float32(0.1)

    def orbit(c):
        return tfn.lax.fori_loop(0, 10, lambda i, z: z * z + c, tnp.zeros_like(c))

    want = np.zeros_like(c)
    for _ in range(10):
        want = want * want + c
    close(tfn.jit(orbit)(c), want)
    last, stack = tfn.lax.scan(lambda z, x: (z * x, z + x), 1j, tnp.array(c[:, 0]))
    close(last, 1j * np.prod(c[:, 0]))
    assert stack.shape == (4,)
    grown = tfn.lax.while_loop(lambda z: abs(z) < 10, lambda z: z * (1 + 1j), 1j)
    assert grown.tolist() == 8 + 8j


def test_gradients_are_those_of_jax():
    z = tnp.array([1 + 2j, -0.5 + 0.3j, 0.2 - 1.5j])
    norm = tfn.grad(lambda z: (abs(z) ** 2).sum())(z)
    close(norm, 2 * np.conj(z))
    assert tfn.grad(lambda z: z.real)(1 + 2j) == 1 and tfn.grad(lambda z: z.imag)(1 + 2j) == -1j
    assert tfn.grad(abs)(0j) == 0
    # Recorded from jax 0.10.2.
    (ct,) = tfn.vjp(tnp.exp, z)[1](z)
    close(ct, [-6.0746574 + 0.20931792j, -0.34349307 + 0.08421124j, -1.8102349 - 0.37326655j])
    loop = tfn.grad(lambda z: tfn.lax.scan(lambda c, x: (c * x, c + x), 1 + 0j, z)[0].real)
    close(loop(z), [0.35 + 0.81j, 3.2 - 1.1j, -1.1 - 0.7j])
    per_lane = tfn.vmap(tfn.grad(lambda z: (z * z.conj()).real))(z)
    close(per_lane, 2 * np.conj(z))


def test_native_calls_take_complex_scalars():
    f = tfn.jit(lambda x, s: x * s)
    x = tnp.ones(3, complex)
    for s in (2j, 1 - 1j, 3.0, 2):
        close(f(x, s), np.ones(3) * s + 0j)


def test_scalars_and_memory():
    x = tnp.array([1 + 2j, 3])
    assert complex(x[0]) == x[0].item() == 1 + 2j and x.tolist() == [1 + 2j, 3]
    assert repr(x) == "Array([1.+2.j, 3.+0.j], dtype=complex64)" and f"{x[0]}" == "(1+2j)"
    assert complex(tnp.array(2.5)) == 2.5
    for convert in (int, float):
        with pytest.raises(DTypeError, match="needs a real number"):
            convert(x[0])
    close(np.from_dlpack(x), np.asarray(x))
    close(tnp.from_dlpack(np.array([1j])), [1j])
    close(pickle.loads(pickle.dumps(x)), np.asarray(x))
    assert tfn.eval_shape(abs, x).dtype == np.float32
    like = tfn.ShapeDtypeStruct((2,), "complex64")
    doubled = tfn.jit(lambda z: tfn.pure_callback(lambda z: np.asarray(z) * 2, like, z * 1j))
    close(doubled(x), 2j * np.asarray(x))
