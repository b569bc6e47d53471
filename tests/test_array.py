"""The public array: what Python, NumPy and users may ask of it, concrete and traced."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.numpy.values import ALL, close, sample
from tfn.errors import (
    ArgumentError,
    ConcretizationTypeError,
    DeletedArrayError,
    ImmutableError,
    NonConcreteBooleanIndexError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
)

X = tnp.array([[1.0, 2.0], [3.0, 4.0]])


def test_type():
    assert (X.shape, X.ndim, X.size, X.itemsize, X.nbytes) == ((2, 2), 2, 4, 4, 16)
    assert X.dtype == np.float32 and not X.weak_type and isinstance(X, tfn.Array)
    assert len(X) == 2 and not X.is_deleted() and X.block_until_ready() is X
    with pytest.raises(ArgumentError, match="0-d array has no length"):
        len(tnp.array(1))


OPERATORS = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
    "**": lambda x, y: x**y,
    "@": lambda x, y: x @ y,
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
}
BITS = {
    "&": lambda x, y: x & y,
    "|": lambda x, y: x | y,
    "^": lambda x, y: x ^ y,
    "<<": lambda x, y: x << y,
    ">>": lambda x, y: x >> y,
}


@pytest.mark.parametrize("sign", OPERATORS)
def test_operators_and_their_reflections(sign):
    f = OPERATORS[sign]
    x, y = np.float32([[1, 2], [3, 4]]), np.float32([[5, 0.5], [2, 3]])
    for a, b in [(tnp.asarray(x), tnp.asarray(y)), (tnp.asarray(x), y), (x, tnp.asarray(y))]:
        got = f(a, b)
        assert isinstance(got, tfn.Array)
        close(got, f(x, y), 8)
    if sign != "@":
        close(f(tnp.asarray(x), 2), f(x, np.float32(2)), 8)
        close(f(2.5, tnp.asarray(x)), f(np.float32(2.5), x), 8)


@pytest.mark.parametrize("sign", BITS)
def test_operators_of_bits(sign):
    f = BITS[sign]
    x, y = np.int32([5, -6, 7]), np.int32([1, 2, 3])
    close(f(tnp.asarray(x), y), f(x, y))
    close(f(x, tnp.asarray(y)), f(x, y))
    close(f(tnp.asarray(x), 3), f(x, np.int32(3)))
    close(f(3, tnp.asarray(y)), f(np.int32(3), y))


def test_unary_operators():
    x = tnp.array([-1.5, 2.5])
    close(-x, np.float32([1.5, -2.5]))
    close(+x, np.asarray(x))
    close(abs(x), np.float32([1.5, 2.5]))
    close(round(x), np.float32([-2, 2]))
    close(~tnp.array([0, 5]), np.int32([-1, -6]))


def test_unknown_operands_are_left_to_the_other_side():
    class Other:
        def __radd__(self, other):
            return "other"

    assert X + Other() == "other"
    with pytest.raises(TypeError, match="unsupported operand"):
        X + "text"
    assert X != "text"
    with pytest.raises(ArgumentError, match="add needs arrays, not a list"):
        tnp.add(X, [1, 2])
    with pytest.raises(ArgumentError, match="multiply needs arrays, not a list"):
        X * [1, 2]


def test_methods():
    x = np.float32([[3, 1, 2], [9, 7, 8]])
    a = tnp.asarray(x)
    for name, arguments in [
        ("sum", (0,)),
        ("mean", (1,)),
        ("max", ()),
        ("min", (0,)),
        ("prod", (1,)),
        ("var", (0,)),
        ("std", ()),
        ("all", ()),
        ("any", (0,)),
        ("argmax", (1,)),
        ("argmin", ()),
        ("ravel", ()),
        ("flatten", ()),
        ("squeeze", ()),
        ("swapaxes", (0, 1)),
        ("transpose", (1, 0)),
        ("reshape", (3, 2)),
        ("clip", (2, 8)),
        ("round", ()),
        ("repeat", (2,)),
        ("diagonal", ()),
        ("tolist", ()),
        ("item", (4,)),
        ("dot", (x.T,)),
    ]:
        got, want = getattr(a, name)(*arguments), getattr(x, name)(*arguments)
        close(np.asarray(got), np.asarray(want, getattr(got, "dtype", None)), 8)
    close(a.sort(), np.sort(x))
    close(a.argsort(), np.argsort(x).astype(np.int32))
    close(a.take(tnp.array([0, 2]), 1), x.take([0, 2], 1))
    close(a.astype("int8"), x.astype("int8"))
    close(a.at[0].set(0).at[1, 0].add(5), np.float32([[0, 0, 0], [14, 7, 8]]))


def test_conversions():
    assert bool(tnp.array(3)) and not bool(tnp.zeros((1, 1)))
    assert int(tnp.array(3.9)) == 3 and float(tnp.array(3)) == 3.0 and complex(X[0, 0]) == 1
    assert [10, 20, 30][tnp.array(1)] == 20 and list(range(tnp.array(2))) == [0, 1]
    assert tnp.array(2.5).item() == 2.5 and X.item(1, 0) == 3.0
    assert X.tolist() == [[1, 2], [3, 4]]
    assert [float(row.sum()) for row in X] == [3, 7]
    with pytest.raises(ArgumentError, match="its truth needs an array of one element"):
        bool(X)
    with pytest.raises(ArgumentError, match="only an integer scalar"):
        range(tnp.array(1.0))
    with pytest.raises(ArgumentError, match="cannot be iterated"):
        iter(tnp.array(1))


def test_representation():
    assert repr(tnp.array([1.0, 2.0])) == "Array([1., 2.], dtype=float32)"
    assert repr(tnp.asarray(1)) == "Array(1, dtype=int32, weak_type=True)"
    assert repr(tnp.zeros((0, 3))) == "Array([], shape=(0, 3), dtype=float32)"
    assert repr(tnp.array([1.5], "bfloat16")) == "Array([1.5], dtype=bfloat16)"
    assert repr(X) == "Array([[1., 2.],\n       [3., 4.]], dtype=float32)"
    assert str(X[0]) == "[1. 2.]" and f"{X[0, 1]:.3f}" == "2.000" and f"{X[0]}" == "[1. 2.]"


def test_numpy_sees_the_memory_read_only():
    x = tnp.arange(5)
    view = np.asarray(x)
    assert view.base is not None and np.shares_memory(view, np.asarray(x))
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    assert np.asarray(x, np.float64).dtype == np.float64 and np.array(x).flags.writeable
    del x
    gc.collect()
    assert view.tolist() == [0, 1, 2, 3, 4]


def test_memory_of_numpy_is_shared_where_aligned():
    raw = np.zeros(1 << 16, np.float32)
    start = -raw.ctypes.data % 64 // 4
    aligned = raw[start : start + 60000]
    assert np.shares_memory(np.asarray(tnp.asarray(aligned)), aligned)
    other = raw[start + 1 : start + 60000]
    assert not np.shares_memory(np.asarray(tnp.asarray(other)), other)


def test_exchange_by_dlpack():
    x = tnp.arange(6).reshape(2, 3)
    close(np.from_dlpack(x), np.asarray(x))
    assert x.__dlpack_device__() == (1, 0) and x.__array_namespace__() is tnp


@pytest.mark.parametrize("name", ALL)
def test_pickle_and_copies(name):
    x = tnp.asarray(sample(name, (3, 4)))
    for again in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x), x.copy()):
        assert again.dtype == x.dtype
        close(again, np.asarray(x))
    assert pickle.loads(pickle.dumps(tnp.asarray(1.0))).weak_type
    assert not np.shares_memory(np.asarray(copy.deepcopy(x)), np.asarray(x))


def test_immutability():
    with pytest.raises(ImmutableError) as caught:
        X[0] = 1
    assert "x = x.at[index].set(value)" in caught.value.hint
    with pytest.raises(TypeError, match="unhashable"):
        hash(X)
    x = y = tnp.ones(2)
    x += 1
    close(y, np.ones(2, np.float32))


def test_deletion():
    x = tnp.ones(3)
    x.delete()
    assert x.is_deleted() and repr(x) == "Array(deleted, f32[3])"
    for use in (lambda: x + 1, lambda: np.asarray(x), lambda: x.reshape(3, 1), lambda: float(x[0])):
        with pytest.raises(DeletedArrayError, match=r"this array has been deleted: f32\[3\]"):
            use()


def test_arrays_can_be_referred_to_weakly():
    x = tnp.ones(3)
    reference = weakref.ref(x)
    del x
    gc.collect()
    assert reference() is None


# Traced values.

USES = [
    (lambda x: 1 if x[0] > 0 else 2, TracerBoolConversionError, "tfn.numpy.where or tfn.lax.cond"),
    (lambda x: float(x[0]), ConcretizationTypeError, ".astype"),
    (lambda x: range(x.astype(int)[0]), TracerIntegerConversionError, "fori_loop"),
    (lambda x: np.sin(x), TracerArrayConversionError, "the function of tfn.numpy"),
    (lambda x: x.tolist(), ConcretizationTypeError, "static_argnums"),
    (lambda x: x[0].item(), ConcretizationTypeError, ".astype"),
    (lambda x: f"{x[0]:.2f}", ConcretizationTypeError, "return it"),
    (lambda x: pickle.dumps(x), ConcretizationTypeError, "static_argnums"),
    (lambda x: x[x > 0], NonConcreteBooleanIndexError, "tfn.numpy.where"),
]


@pytest.mark.parametrize("use, error, hint", USES)
def test_what_a_jitted_value_cannot_do_says_so_and_how_to_mend_it(use, error, hint):
    def loss(x):
        return use(x)

    with pytest.raises(error) as caught:
        tfn.jit(loss)(tnp.ones(3))
    assert hint in caught.value.hint
    assert "of loss" in caught.value.got
    if error is not NonConcreteBooleanIndexError:
        assert "which depends on x" in caught.value.got


def test_the_message_of_a_branch():
    @tfn.jit
    def loss(x, y):
        return x if (x * y).sum() > 0 else y

    with pytest.raises(TracerBoolConversionError) as caught:
        loss(tnp.ones(3), tnp.ones(3))
    assert caught.value.what == (
        "its truth is needed, but while loss is being traced only the shape and dtype of this "
        "value are known"
    )
    assert caught.value.got == "Traced<bool[] of loss>, which depends on x, y"
    assert caught.value.where.endswith("return x if (x * y).sum() > 0 else y")


@pytest.mark.parametrize("transform", [tfn.grad, lambda f: lambda x: tfn.jvp(f, (x,), (x,))[1]])
def test_values_under_grad_are_known(transform):
    def loss(x):
        assert repr(x).startswith("Traced<f32[3] of")
        scale = float(x[0]) + int(x[1]) + np.asarray(x).sum() + x.tolist()[2]
        return (x * x).sum() * scale if x[0] > 0 else x.sum()

    x = tnp.array([1.0, 2.0, 3.0])
    assert np.isfinite(np.asarray(transform(loss)(x))).all()


def test_traced_values_copy_to_themselves():
    tfn.jit(lambda x: copy.deepcopy(x) + copy.copy(x))(X)
