"""New arrays against NumPy, and their JAX-like dtypes."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.numpy.values import ALL, close, kind, sample
from tfn.errors import ArgumentError, DTypeError, ShapeError


def test_python_numbers_and_lists_become_32_bits():
    assert tnp.array(1).dtype == np.int32 and tnp.array(1).weak_type
    assert tnp.array([1, 2]).dtype == np.int32 and not tnp.array([1, 2]).weak_type
    assert tnp.array([1, 2.5]).dtype == np.float32
    assert tnp.array([True]).dtype == bool and tnp.array([]).dtype == np.float32
    assert tnp.array([[1], [2]], dtype="int8").dtype == np.int8
    assert tnp.array([np.int16(3)]).dtype == np.int16


@pytest.mark.parametrize("name", ALL)
def test_numpy_arrays_keep_their_dtype(name):
    x = sample(name, (2, 5))
    got = tnp.asarray(x)
    assert got.dtype == kind(name) and not got.weak_type
    close(got, x)
    close(tnp.array(x, dtype="float64"), x.astype(np.float64))


def test_lists_of_arrays_are_stacked():
    x = tnp.arange(3)
    close(tnp.array([x, x + 1]), np.array([[0, 1, 2], [1, 2, 3]], np.int32))
    close(tnp.array([[1.5, x[1]], [x[2], 0]]), np.array([[1.5, 1], [2, 0]], np.float32))


def test_array_copies_and_asarray_shares():
    source = np.zeros(4096, np.float32)  # large enough that NumPy may align it
    copied = tnp.array(source)
    source[0] = 1
    assert copied[0] == 0
    x = tnp.ones(3)
    assert tnp.asarray(x) is x and tnp.array(x) is not x


@pytest.mark.parametrize("bad", [[[1, 2], [3]], ["a"], [None], object(), "text"])
def test_what_is_no_array(bad):
    with pytest.raises(ArgumentError):
        tnp.array(bad)


def test_integers_that_do_not_fit():
    with pytest.raises(ArgumentError, match="do not fit into int32"):
        tnp.array([2**40])
    assert tnp.array([2**40], dtype="int64")[0] == 2**40
    with pytest.raises(ArgumentError):
        tnp.array(2**40)


def test_filled():
    for made, want in [
        (tnp.zeros((2, 3)), np.zeros((2, 3), np.float32)),
        (tnp.ones(4, "int8"), np.ones(4, np.int8)),
        (tnp.full((2,), 7), np.full(2, 7, np.int32)),
        (tnp.full((2, 2), tnp.array([1.5, 2])), np.full((2, 2), [1.5, 2], np.float32)),
        (tnp.full((), np.nan, "bfloat16"), np.full((), np.nan, kind("bfloat16"))),
        (tnp.empty((0, 2)), np.zeros((0, 2), np.float32)),
        (tnp.zeros_like(np.ones((2, 1), np.int16)), np.zeros((2, 1), np.int16)),
        (tnp.ones_like(tnp.zeros(2), shape=3, dtype=bool), np.ones(3, bool)),
        (tnp.full_like(np.ones(2, np.float64), 3), np.full(2, 3.0)),
    ]:
        assert made.dtype == want.dtype
        close(made, want)


def test_bad_shapes():
    with pytest.raises(ShapeError, match="zeros needs sizes that are not negative"):
        tnp.zeros((2, -1))
    with pytest.raises(ArgumentError, match="zeros needs a shape of integers"):
        tnp.zeros(2.5)
    with pytest.raises(DTypeError, match="complex64"):
        tnp.zeros(2, "complex64")


@pytest.mark.parametrize(
    "arguments",
    [
        (5,),
        (2, 9),
        (2, 9, 3),
        (9, 2, -2),
        (5, 5),
        (0, -3),
        (0.0, 1.0, 0.25),
        (3.5,),
        (1, 2, 0.1),
        (10.0, 0.0, -2.5),
    ],
)
def test_arange(arguments):
    got = tnp.arange(*arguments)
    want = np.arange(*arguments)
    assert got.dtype == (np.int32 if want.dtype.kind == "i" else np.float32)
    close(got, want.astype(got.dtype))


def test_arange_of_a_dtype():
    for name in ("int8", "int64", "uint8", "bfloat16", "float64"):
        close(tnp.arange(100, dtype=name), np.arange(100).astype(kind(name)))
    close(tnp.arange(2**31, 2**31 + 3, dtype="int64"), np.arange(2**31, 2**31 + 3))
    assert tnp.arange(np.int64(3)).dtype == np.int64
    with pytest.raises(ArgumentError, match="step"):
        tnp.arange(1, 2, 0)


@pytest.mark.parametrize("num", [0, 1, 2, 7, 50])
@pytest.mark.parametrize("endpoint", [True, False])
def test_linspace(num, endpoint):
    got = tnp.linspace(-1.5, 4, num, endpoint)
    close(got, np.linspace(-1.5, 4, num, endpoint, dtype=np.float32), 32)
    low, high = np.float32([0, 1]), np.float32([2, 5])
    close(
        tnp.linspace(low, high, num, endpoint, axis=1),
        np.linspace(low, high, num, endpoint, axis=1),
        32,
    )


def test_linspace_ends_and_steps():
    line, step = tnp.linspace(0, 1, 5, retstep=True)
    assert line[-1] == 1 and step == 0.25
    close(tnp.linspace(0, 10, 4, dtype="int32"), np.linspace(0, 10, 4, dtype=np.int32))
    close(tnp.logspace(0, 3, 4), np.logspace(0, 3, 4).astype(np.float32), 8)


@pytest.mark.parametrize("k", [-3, -1, 0, 2, 5])
def test_diagonals(k):
    for shape in [(3, 4), (4, 3), (1, 1), (0, 2)]:
        close(tnp.eye(*shape, k=k), np.eye(*shape, k=k, dtype=np.float32))
        close(tnp.tri(*shape, k=k, dtype=int), np.tri(*shape, k=k, dtype=np.int32))
    x = sample("float32", (2, 3, 4))
    close(tnp.tril(x, k), np.tril(x, k))
    close(tnp.triu(x, k), np.triu(x, k))
    with pytest.raises(ShapeError, match="tril needs at least two axes"):
        tnp.tril(tnp.ones(3))


@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("sparse", [False, True])
def test_meshgrid(indexing, sparse):
    for lines in (
        [np.arange(3)],
        [np.arange(2), np.arange(3)],
        [np.arange(2), np.ones(1), np.ones(4)],
    ):
        got = tnp.meshgrid(*lines, indexing=indexing, sparse=sparse)
        for a, b in zip(got, np.meshgrid(*lines, indexing=indexing, sparse=sparse), strict=True):
            close(a, b)


def test_astype():
    x = np.float32([-1.7, 0, 2.9, np.nan, 1e10])
    close(tnp.asarray(x).astype("int32"), np.int32([-1, 0, 2, 0, 2**31 - 1]))
    close(tnp.asarray(x).astype(bool), x.astype(bool))
    close(tnp.asarray(x).astype("uint8"), np.uint8([0, 0, 2, 0, 255]))
    weak = tnp.asarray(1.0)
    assert weak.weak_type and not weak.astype("float32").weak_type
    assert tnp.ones(2).astype(float).dtype == np.float32


def test_names_of_dtypes_make_arrays():
    x = tnp.int8([1, 2])
    assert x.dtype == tnp.int8 and tnp.float64(1).dtype == np.float64
    assert not tnp.float32(1).weak_type and tnp.bool_(1).dtype == bool


def test_constants_inside_a_trace_belong_to_it():
    jaxpr = tfn.make_jaxpr(lambda x: x + tnp.zeros(3) + tnp.arange(3) + 2)(tnp.ones(3))
    assert len(jaxpr.params) == 1


def test_from_another_library():
    x = np.arange(5, dtype=np.float32)
    close(tnp.from_dlpack(x), x)
