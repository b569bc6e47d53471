"""Products against NumPy, over shapes with and without batch axes."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.numpy.test_linalg import near
from tests.numpy.values import close, sample
from tfn import lax
from tfn.errors import ArgumentError, ShapeError
from tfn.numpy import contraction


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


SIZES = dict(zip("abcdefg", (2, 3, 5, 4, 1, 6, 2)))


@pytest.mark.parametrize(
    "spec",
    [
        "ab->ba",
        "ab->",
        "ab->b",
        "ab",
        "ba",
        "aa->a",
        "aa->",
        "aab->b",
        "aga->g",
        "ab,bc->ac",
        "ab,bc",
        "abc,abd->acd",
        "abc,cd,db->a",
        "ab,ab->ab",
        "ab,cd->abcd",
        "a,b,c->abc",
        "ab,ab->",
        "ab,b->a",
        "abc,ca->b",
        "ab,ac,ad->bcd",
        "...a->...",
        "...ab,...bc->...ac",
        "a...,a...->...",
        "...,...",
        "ab,bc,cd,de->ae",
        "a,a,a->",
        ",a->a",
        "aab,b->a",
    ],
)
def test_einsum(spec):
    operands = []
    for i, term in enumerate(spec.split("->")[0].split(",")):
        shape = tuple(
            n for c in term.replace("...", "!") for n in ((2, 3) if c == "!" else (SIZES[c],))
        )
        operands.append(make(*shape, seed=i))
    if spec == "...a->...":
        operands = [make(4, 2)]
    got = tnp.einsum(spec, *operands)
    close(got, np.einsum(spec, *operands), 256)


@pytest.mark.parametrize("path", [None, "all at once"])
def test_einsum_of_drawn_letters(path, monkeypatch):
    """Any letters anywhere; contracted pair by pair, or all operands in one step of the path."""
    if path:
        monkeypatch.setattr(contraction, "_path", lambda names, *rest: (tuple(range(len(names))),))
    rng = np.random.default_rng(0)
    sizes = dict(zip("abcdef", (2, 3, 1, 4, 2, 3), strict=True))
    for _ in range(60):
        terms = ["".join(rng.choice([*sizes], n)) for n in rng.integers(0, 4, rng.integers(1, 5))]
        letters = sorted(set("".join(terms)))
        out = rng.choice(letters, rng.integers(0, len(letters) + 1), replace=False)
        spec = ",".join(terms) + "->" + "".join(out)
        operands = [rng.normal(size=[sizes[c] for c in term]) for term in terms]
        want = np.einsum(spec, *operands)
        np.testing.assert_allclose(tnp.einsum(spec, *operands), want, 1e-9, 1e-9, err_msg=spec)


def test_einsum_of_three_that_share_letters_in_a_ring():
    x, y, z = make(8, 9, 10), make(10, 11, 12), make(12, 13, 8)
    spec = "abc,cde,efa->bdf"
    want = np.einsum(spec, x, y, z)
    np.testing.assert_allclose(tnp.einsum(spec, x, y, z), want, 1e-6, 1e-6 * abs(want).max())


def test_einsum_broadcasts_under_dots():
    x, y = make(1, 2, 3), make(4, 3, 5)
    y = make(4, 3, 5)
    close(tnp.einsum("...ij,...jk->...ik", x, y), np.einsum("...ij,...jk->...ik", x, y), 32)
    close(
        tnp.einsum("...ij,jk", make(2, 2, 3), make(3, 5)),
        np.einsum("...ij,jk", make(2, 2, 3), make(3, 5)),
        32,
    )


def test_einsum_sums_what_is_under_dots_unless_the_result_has_them():
    x, y = make(2, 3, 4), make(2, 3, 4)
    close(tnp.einsum("i...->i", x), np.einsum("ijk->i", x), 32)
    close(tnp.einsum("i...,i...->i", x, y), np.einsum("ijk,ijk->i", x, y), 32)


def test_einsum_dtypes():
    x = make(3, 4, name="int8")
    assert tnp.einsum("ij->i", x).dtype == np.int8
    b = x > 0
    close(tnp.einsum("ij,kj->ik", b, b), np.einsum("ij,kj->ik", b, b))
    assert tnp.einsum("ij,jk", x, x.T, preferred_element_type="int32").dtype == np.int32


@pytest.mark.parametrize(
    "spec, count",
    [
        ("ij,jk->ik", 1),
        ("ijk->i", 1),
        ("ij->ii", 1),
        ("ij->k", 1),
        ("i1->i", 1),
    ],
)
def test_einsum_errors(spec, count):
    with pytest.raises(ArgumentError, match="einsum"):
        tnp.einsum(spec, *[tnp.ones((2, 2) if "..." not in spec else (2, 2, 2))] * count)


def test_einsum_names_the_axis_whose_sizes_differ():
    with pytest.raises(ShapeError, match="einsum 'ij,jk->ik' got two sizes for axis 'j'"):
        tnp.einsum("ij,jk->ik", tnp.ones((2, 3)), tnp.ones((4, 5)))


def test_matrices_and_vectors():
    random = np.random.default_rng(0)
    a, x = random.standard_normal((2, 3, 4)), random.standard_normal((5, 1, 4)) + 1j
    near(tnp.matvec(a, x), np.matvec(a, x))
    near(tnp.vecmat(x[..., :3], a), np.vecmat(x[..., :3], a))
    near(tnp.vecdot(x, a[0, 0]), np.vecdot(x, a[0, 0]))


def test_the_path_of_a_contraction_is_that_of_numpy():
    a, b, c = np.ones((2, 9)), np.ones((9, 3)), np.ones((3, 4))
    for optimize in ("greedy", "optimal", False):
        path, text = tnp.einsum_path("ij,jk,kl", a, b, c, optimize=optimize)
        assert path == np.einsum_path("ij,jk,kl", a, b, c, optimize=optimize)[0][1:]
        assert "Naive FLOP count" in text
    assert tnp.einsum_path("ij,jk", a, b, optimize=[(0, 1)])[0] == [(0, 1)]
    with pytest.raises(ArgumentError):
        tnp.einsum_path("ij,jk", a, a)


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
        lax.dot(x, y, asked),
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
