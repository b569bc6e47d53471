"""Element types: the promotion lattice against a record of JAX's, names, limits."""

import itertools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.covering import together
from tfn import dtypes, random
from tfn.errors import DTypeError

# What jax 0.10.2 gives for each pair, of 32-bit types as by default, of 64-bit types with x64 on;
# so is the result of uint32 with signed integers, which only int64 can hold.  i*, f* and c* are
# weak, as Python's numbers are.
# fmt: off
NAMES = "b1 u1 u2 u4 u8 i1 i2 i4 i8 bf f2 f4 f8 c8 c16 i* f* c*".split()  # noqa: SIM905
TABLE = """
    b1 b1 u1 u2 u4 u8 i1 i2 i4 i8 bf f2 f4 f8 c8 c16 i* f* c*
    u1 u1 u1 u2 u4 u8 i2 i2 i4 i8 bf f2 f4 f8 c8 c16 u1 f* c*
    u2 u2 u2 u2 u4 u8 i4 i4 i4 i8 bf f2 f4 f8 c8 c16 u2 f* c*
    u4 u4 u4 u4 u4 u8 i8 i8 i8 i8 bf f2 f4 f8 c8 c16 u4 f* c*
    u8 u8 u8 u8 u8 u8 f* f* f* f* bf f2 f4 f8 c8 c16 u8 f* c*
    i1 i1 i2 i4 i8 f* i1 i2 i4 i8 bf f2 f4 f8 c8 c16 i1 f* c*
    i2 i2 i2 i4 i8 f* i2 i2 i4 i8 bf f2 f4 f8 c8 c16 i2 f* c*
    i4 i4 i4 i4 i8 f* i4 i4 i4 i8 bf f2 f4 f8 c8 c16 i4 f* c*
    i8 i8 i8 i8 i8 f* i8 i8 i8 i8 bf f2 f4 f8 c8 c16 i8 f* c*
    bf bf bf bf bf bf bf bf bf bf bf f4 f4 f8 c8 c16 bf bf c8
    f2 f2 f2 f2 f2 f2 f2 f2 f2 f2 f4 f2 f4 f8 c8 c16 f2 f2 c8
    f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f8 c8 c16 f4 f4 c8
    f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 c16 c16 f8 f8 c16
    c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c16 c8 c16 c8 c8 c8
    c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16
    i* i* u1 u2 u4 u8 i1 i2 i4 i8 bf f2 f4 f8 c8 c16 i* f* c*
    f* f* f* f* f* f* f* f* f* f* bf f2 f4 f8 c8 c16 f* f* c*
    c* c* c* c* c* c* c* c* c* c* c8 c8 c8 c16 c8 c16 c* c* c*
"""
# fmt: on
WEAK = {"i*": (dtypes.INT32, True), "f*": (dtypes.FLOAT32, True), "c*": (dtypes.COMPLEX64, True)}


def kind(name):
    if name in WEAK:
        return WEAK[name]
    return (np.dtype(ml_dtypes.bfloat16) if name == "bf" else np.dtype(name), False)


def rows():
    for line in TABLE.strip().splitlines():
        first, *results = line.split()
        yield from ((first, second, result) for second, result in zip(NAMES, results, strict=True))


@together("first, second, result", list(rows()))
def test_promotion_of_pairs_is_that_of_jax(first, second, result):
    assert dtypes.promote((kind(first), kind(second))) == kind(result)


def test_promotion_is_commutative_and_associative():
    names = [n for n in NAMES if n != "u8"]  # whose joins with signed types are weak floats
    for a, b, c in itertools.product(names, repeat=3):
        both = dtypes.promote((kind(a), kind(b)))
        assert both == dtypes.promote((kind(b), kind(a)))
        left = dtypes.promote((both, kind(c)))
        right = dtypes.promote((kind(a), dtypes.promote((kind(b), kind(c)))))
        assert left == right == dtypes.promote((kind(a), kind(b), kind(c)))


@pytest.mark.parametrize("first, second, result", list(rows())[::3])
def test_arrays_promote_so(first, second, result):
    def value(name):
        return {"i*": 1, "f*": 1.0, "c*": 1j}.get(name) or tnp.ones((), kind(name)[0])

    got = tnp.add(value(first), value(second))
    assert (got.dtype, got.weak_type) == kind(result)


def test_canonical():
    assert [dtypes.canonical(t) for t in (bool, int, float)] == ["bool", "int32", "float32"]
    assert dtypes.canonical("int64") == np.int64 == dtypes.canonical(np.int64)
    assert dtypes.canonical(dtypes.bfloat16) == ml_dtypes.bfloat16
    assert dtypes.canonical(complex) == "complex64"
    with pytest.raises(DTypeError, match="tfn has no arrays of datetime64"):
        dtypes.canonical("datetime64[s]")
    with pytest.raises(DTypeError, match="'nonsense' is not a dtype"):
        dtypes.canonical("nonsense")


@pytest.mark.parametrize("text", ["f4,(", "i4,,", ("f4", -1), "\ud800", "a"])
def test_texts_that_numpy_cannot_parse_are_no_dtypes(text):
    with pytest.raises(DTypeError, match="dtype"):
        dtypes.canonical(text)


def test_names_equal_their_dtypes():
    assert tnp.float32 == np.dtype("float32") == tnp.float32
    assert np.dtype("float32") == tnp.float32 and tnp.ones(1).dtype == tnp.float32
    assert tnp.float32 != np.float64 and tnp.float32 != "no dtype"
    assert np.dtype(tnp.bfloat16) == ml_dtypes.bfloat16
    assert {tnp.int8: 1}[dtypes.canonical("int8")] == 1
    assert repr(tnp.bfloat16) == "tfn.bfloat16"


def test_kinds_of_dtypes():
    assert tnp.issubdtype(tnp.bfloat16, tnp.floating) and tnp.issubdtype("uint8", tnp.integer)
    assert not tnp.issubdtype("uint8", tnp.signedinteger) and tnp.issubdtype("int8", tnp.number)
    assert tnp.issubdtype(bool, np.bool_) and not tnp.issubdtype(bool, tnp.number)
    assert tnp.issubdtype(tnp.float32, "float32")
    assert tnp.issubdtype(complex, tnp.complexfloating) and tnp.issubdtype(complex, tnp.inexact)
    assert not tnp.issubdtype(tnp.complex128, tnp.floating)
    assert dtypes.part(dtypes.COMPLEX128) == np.float64 == dtypes.part(dtypes.FLOAT64)
    assert dtypes.complex_of(dtypes.BFLOAT16) == np.complex64


def test_limits():
    assert tnp.finfo("bfloat16").eps == 0.0078125 and tnp.finfo(float).bits == 32
    assert tnp.finfo(tnp.complex128).eps == np.finfo(float).eps
    assert tnp.iinfo("uint8").max == 255
    assert dtypes.lowest(dtypes.INT32) == -(2**31) and dtypes.highest(dtypes.FLOAT16) == np.inf
    assert dtypes.lowest(dtypes.BOOL) is False and dtypes.highest(dtypes.BOOL) is True


def test_result_types():
    assert tnp.promote_types("uint8", "int8") == np.int16
    assert tnp.result_type(1.0, np.int8(1)) == np.float32
    assert tnp.result_type(tnp.ones(1, "float16"), 1.0, np.int64) == np.float16


def test_types_of_keys_and_abstract_types():
    kind = random.key(0).dtype
    assert dtypes.issubdtype(kind, dtypes.prng_key) and dtypes.issubdtype(kind, dtypes.extended)
    assert not dtypes.issubdtype(kind, np.floating) and not dtypes.issubdtype(kind, "uint32")
    assert not dtypes.issubdtype("float32", dtypes.prng_key)
    assert dtypes.issubdtype(np.floating, np.inexact) and not dtypes.issubdtype(
        np.inexact, np.int32
    )


X, TRUTHS = np.float32([3, 1, 2]), np.array([True, False, True])
KEY = random.key(0)
UNSAID = {
    "int64": [
        lambda: [tnp.argmax(X), tnp.argmin(X, 0, keepdims=True), tnp.nanargmax(X), tnp.argsort(X)],
        lambda: [tnp.lexsort((X, X)), tnp.argwhere(X)],
        lambda: [tnp.nonzero(X), tnp.nonzero(X, size=2), tnp.argwhere(X)],
        lambda: [tnp.flatnonzero(X), tnp.where(TRUTHS), tnp.unique_inverse(X)[1]],
        lambda: [tnp.unique(X, return_index=True, return_inverse=True, return_counts=True)[1:]],
        lambda: [tnp.intersect1d(X, X, return_indices=True)[1:], tnp.count_nonzero(X)],
        lambda: [
            tnp.sum(TRUTHS),
            tnp.cumsum(TRUTHS),
            tnp.prod(np.int8([2])),
            tnp.trace(TRUTHS[:, None]),
        ],
        lambda: [tnp.arange(3), tnp.arange(1, 3), tnp.linspace(0, 1, 3, dtype=int), tnp.full(2, 1)],
        lambda: [
            tnp.indices((2, 2)),
            tnp.tril_indices(2),
            tnp.triu_indices(2),
            tnp.diag_indices(2),
        ],
        lambda: [tnp.unravel_index(3, (2, 2)), tnp.ravel_multi_index((1, 1), (2, 2))],
        lambda: [tnp.bincount(np.int8([1, 2])), tnp.linalg.matrix_rank(tnp.eye(2)), tnp.int_(1)],
        lambda: [tnp.linalg.lstsq(tnp.eye(2), tnp.ones(2))[2], tnp.asarray([1, 2]), tnp.mgrid[0:2]],
        lambda: [random.randint(KEY, (2,), 0, 9), tfn.random.choice(KEY, 9, (2,))],
        lambda: [
            random.choice(KEY, 2, (2,), True, X[:2]),
            random.choice(KEY, 2, (1,), False, X[:2]),
        ],
        lambda: [random.permutation(KEY, 4), tfn.random.categorical(KEY, X)],
        lambda: [
            random.poisson(KEY, 3.0),
            random.rademacher(KEY),
            random.geometric(KEY, 0.5),
        ],
    ],
    "uint64": [lambda: [random.bits(KEY), tnp.uint(1)]],
    "float64": [
        lambda: [tnp.zeros(2), tnp.eye(2), tnp.linspace(0, 1, 3), tnp.hanning(3), tnp.float_(1)],
        lambda: [
            tnp.mean(tnp.arange(2)),
            tnp.sin(1),
            tnp.arange(2) / 2,
            tnp.fft.fftfreq(3),
        ],
        lambda: [tnp.frombuffer(b"01234567"), random.normal(KEY), tfn.random.gamma(KEY, 2.0)],
        lambda: [tfn.nn.initializers.normal()(KEY, (2,)), tfn.grad(lambda x: x * x)(1.0)],
    ],
    "complex128": [lambda: [tnp.asarray(1j), tfn.scipy.linalg.dft(2), tnp.complex_(1)]],
    "float32": [
        lambda: [tnp.exp(np.int32([1])), np.int8([1]) / tnp.int8(2), tnp.mean(TRUTHS), tnp.tri(2)],
        lambda: [tnp.sum(X), tnp.mean(X), tnp.sin(X), X * tnp.asarray(X), tnp.median(X)],
    ],
    "int32": [
        lambda: [tfn.lax.top_k(X, 2)[1], tnp.frexp(X)[1], tnp.argpartition(X, 1)],
        lambda: [tnp.searchsorted(X, X), tnp.digitize(X, X[:1])],
        lambda: [random.categorical(KEY, X, shape=(2,), replace=False)],
    ],
}


@pytest.mark.parametrize(
    ("name", "make"), [(name, make) for name, makers in UNSAID.items() for make in makers]
)
def test_what_nothing_says_has_the_bits_of_a_setting(
    name: str, make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = {"complex128": "complex64"}.get(name, name.replace("64", "32"))
    monkeypatch.setattr(tfn.config.config, "key_reuse", True)
    for x64, expected in ((True, name), (False, narrow), (True, name)):
        monkeypatch.setattr(tfn.config.config, "x64", x64)
        assert {x.dtype.name for x in tfn.tree.leaves(make())} == {expected}


def test_each_setting_of_defaults_has_its_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    f = tfn.jit(lambda x: (x * 2.0, tnp.argmax(x), tnp.zeros(1)))
    for x64, bits in ((False, 4), (True, 8), (False, 4), (True, 8)):
        monkeypatch.setattr(tfn.config.config, "x64", x64)
        assert [x.dtype.itemsize for x in f(X)] == [4, bits, bits]
    assert f.cache_info().misses == 2


def test_wide_types_can_be_narrowed() -> None:
    dtypes.narrow_types(True)
    try:
        assert dtypes.canonical("float64") == "float32" and dtypes.canonical(np.int64) == "int32"
    finally:
        dtypes.narrow_types(False)
    assert dtypes.canonical("float64") == "float64"


def test_a_name_of_a_dtype_has_a_name_as_classes_have() -> None:
    assert [t.__name__ for t in (dtypes.float32, dtypes.bfloat16, dtypes.bool_)] == [
        "float32",
        "bfloat16",
        "bool",
    ]


def test_the_type_of_keys_has_a_name():
    """By which jaxtyping tells keys from numbers."""
    assert dtypes.KeyType().type.__name__ == "prng_key"


def test_types_of_python_give_way_where_two_are_promoted():
    for a, b, expected in (
        (int, "int8", "int8"),
        (float, "bfloat16", "bfloat16"),
        (float, "int8", "float32"),
        (complex, "float16", "complex64"),
        (int, float, "float32"),
    ):
        assert dtypes.promote_types(a, b) == dtypes.promote_types(b, a) == expected
