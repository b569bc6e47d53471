"""Einstein summation against NumPy."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.numpy.test_contraction import make
from tests.numpy.values import close
from tfn.errors import ArgumentError, ShapeError
from tfn.numpy import einstein_summation

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
        monkeypatch.setattr(
            einstein_summation, "_path", lambda names, *rest: (tuple(range(len(names))),)
        )
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


SUBLISTS = [
    ([0, 1], [1, 2], [0, 2]),
    ([0, 1], [1, 2]),
    ((1, 0), (0, 1), ()),
    ([26, 3], [3, 0]),
    ([51, 0], [0, 25]),
    ([..., 0], [0, ...], [...]),
    ([..., 0], [..., 1]),
    (np.array([4, 7]), range(7, 9)),
]


@pytest.mark.parametrize("first, second, out", [(a, b, out) for a, b, *out in SUBLISTS])
def test_einsum_of_sublists(first, second, out):
    x, y = make(3, 3), make(3, 3, seed=1)
    close(tnp.einsum(x, first, y, second, *out), np.einsum(x, first, y, second, *out), 32)
    jitted = tfn.jit(lambda x, y: tnp.einsum(x, first, y, second, *out))
    close(jitted(x, y), np.einsum(x, first, y, second, *out), 32)
    path = tnp.einsum_path(x, first, y, second, *out, optimize=False)[0]
    assert path == np.einsum_path(x, first, y, second, *out, optimize=False)[0][1:]


def test_einsum_of_one_operand_with_a_sublist():
    x = make(3, 3)
    for sublists in ([[0, 0]], [[0, 0], [0]], [[1, 0]], [[1, 0], [1]]):
        close(tnp.einsum(x, *sublists), np.einsum(x, *sublists), 32)


@pytest.mark.parametrize("function", [tnp.einsum, tnp.einsum_path])
@pytest.mark.parametrize(
    "sublists",
    [([0, 1], 2), ([0, 1], [-1]), ([0, 52], [0]), ([0, 1.0],), (["i", "j"],), ([True, 1],)],
)
def test_einsum_of_sublists_that_are_none(function, sublists):
    with pytest.raises(ArgumentError, match=f"{function.__name__} needs a sublist of axes"):
        function(np.ones((2, 2)), *sublists)


@pytest.mark.parametrize("sublists", [([0],), ([0, 1], [2]), ([0, 1], [0, 0]), ([0, 1, 2],)])
def test_einsum_of_sublists_that_do_not_fit(sublists):
    with pytest.raises(ArgumentError, match="einsum '"):
        tnp.einsum(np.ones((2, 2)), *sublists)


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
        ("i.->i", 1),
        ("i-->i", 1),
    ],
)
def test_einsum_errors(spec, count):
    with pytest.raises(ArgumentError, match="einsum"):
        tnp.einsum(spec, *[tnp.ones((2, 2) if "..." not in spec else (2, 2, 2))] * count)


@pytest.mark.parametrize("label", ["1", "_", "@", "\u00e9", "\u03b1"])
def test_einsum_takes_any_character_as_a_label(label):
    """As JAX does; flax writes digits."""
    x, y = make(2, 3, 4), make(2, 4, 5, seed=1)
    got = tnp.einsum(f"...{label}j,...jk->...k{label}", x, y)
    close(got, np.einsum("...aj,...jk->...ka", x, y), 256)
    close(tnp.einsum(f"{label}{label}b", make(3, 3, 4)), np.einsum("aab", make(3, 3, 4)), 256)


def test_einsum_names_the_axis_whose_sizes_differ():
    with pytest.raises(ShapeError, match="einsum 'ij,jk->ik' got two sizes for axis 'j'"):
        tnp.einsum("ij,jk->ik", tnp.ones((2, 3)), tnp.ones((4, 5)))


def test_the_path_of_a_contraction_is_that_of_numpy():
    a, b, c = np.ones((2, 9)), np.ones((9, 3)), np.ones((3, 4))
    for optimize in ("greedy", "optimal", False):
        path, text = tnp.einsum_path("ij,jk,kl", a, b, c, optimize=optimize)
        assert path == np.einsum_path("ij,jk,kl", a, b, c, optimize=optimize)[0][1:]
        assert "Naive FLOP count" in text
    assert tnp.einsum_path("ij,jk", a, b, optimize=[(0, 1)])[0] == [(0, 1)]
    with pytest.raises(ArgumentError):
        tnp.einsum_path("ij,jk", a, a)
