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
    ShapeError,
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
        ("cumsum", (1,)),
        ("cumprod", ()),
        ("trace", ()),
        ("trace", (1,)),
        ("compress", (np.array([True, False, True]), 1)),
    ]:
        got, want = getattr(a, name)(*arguments), getattr(x, name)(*arguments)
        close(np.asarray(got), np.asarray(want, getattr(got, "dtype", None)), 8)
    close(a.sort(), np.sort(x))
    close(a.argsort(), np.argsort(x).astype(np.int32))
    assert [p.tolist() for p in (a > 2).nonzero()] == [p.tolist() for p in (x > 2).nonzero()]
    close(a.ptp(0), np.ptp(x, 0))
    close(a.sort()[0].searchsorted(2.5), np.int32(2))
    close(a.take(tnp.array([0, 2]), 1), x.take([0, 2], 1))
    close(a.astype("int8"), x.astype("int8"))
    close(a.at[0].set(0).at[1, 0].add(5), np.float32([[0, 0, 0], [14, 7, 8]]))


def test_methods_take_the_options_of_their_functions():
    x = tnp.array([[3.0, 1.0, 2.0], [9.0, 7.0, 8.0]])
    assert tfn.jit(lambda x: x.trace(offset=1, axis1=1, axis2=0, dtype="float64"))(x).item() == 9
    assert x[0].argpartition(0)[0] == 1 and x.is_ready() and x.on_device_size_in_bytes() == 24
    assert tnp.array([1, 0]).choose(x[:, :2]).tolist() == [9, 1]
    assert x.compress(tnp.array([True, True]), 0, size=1).shape == (1, 3)
    assert x[0].repeat(tnp.array([1, 0, 2]), total_repeat_length=4).shape == (4,)
    assert x.take(tnp.array([5, 9]), mode="fill", fill_value=-1).tolist() == [8, -1]
    assert x.sort(stable=True)[0, 0] == 1 and x.argsort(0, stable=False)[0, 0] == 0
    assert 9.0 in x and 5 not in x and np.float32(7) in x
    assert x.tobytes() == np.asarray(x).tobytes()


@pytest.mark.parametrize("name", ["fill", "put", "partition", "resize"])
def test_methods_that_would_write_say_what_gives_a_new_array(name):
    with pytest.raises(ImmutableError, match=f"{name} is not a method") as caught:
        getattr(X, name)
    assert "x = " in caught.value.hint and not hasattr(X, name)


@pytest.mark.parametrize("before", ["float32", "int32", "uint8", "int16"])
@pytest.mark.parametrize("after", ["float32", "uint32", "uint8", "int16"])
def test_views_are_those_of_numpy(before, after):
    x = np.arange(24).reshape(3, 8).astype(before)
    got = np.asarray(tnp.asarray(x).view(after))
    assert got.tobytes() == x.tobytes() and got.shape == x.view(after).shape
    assert got.dtype == after


def test_no_view_of_parts_of_elements():
    with pytest.raises(ShapeError, match="no whole elements"):
        tnp.arange(3, dtype="uint8").view("int32")
    with pytest.raises(ShapeError, match="no whole elements"):
        tnp.float32(1).view("uint8")


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
    for writable in (lambda: view.setflags(write=True), lambda: view[1:].setflags(write=True)):
        with pytest.raises(ValueError, match="cannot set WRITEABLE"):
            writable()
    assert memoryview(view).readonly
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        tfn.device_get(x).flags.writeable = True
    assert np.asarray(x, np.float64).dtype == np.float64 and np.array(x).flags.writeable
    del x
    gc.collect()
    assert view.tolist() == [0, 1, 2, 3, 4]


def test_an_array_for_numpy_is_copied_as_asked():
    x = tnp.arange(5)
    assert np.shares_memory(np.asarray(x, copy=False), np.asarray(x))
    assert np.asarray(x, copy=True).flags.writeable
    assert not np.shares_memory(np.array(x), np.asarray(x))
    with pytest.raises(ValueError, match="copy"):
        np.asarray(x, np.float64, copy=False)


def aligned(size):
    """Numbers where memory can be shared, and refilled."""
    raw = np.zeros(size + 16, np.float32)
    start = -raw.ctypes.data % 64 // 4
    return raw[start : start + size]


MAKERS = {
    "asarray": tnp.asarray,
    "array": tnp.array,
    "array None": lambda x: tnp.array(x, copy=None),
    "frombuffer": lambda x: tnp.frombuffer(x, "float32"),
    "from_dlpack": tnp.from_dlpack,
    "device_put": tfn.device_put,
    "jit": tfn.jit(lambda x: x),
    "jit reshape": tfn.jit(lambda x: x.reshape(1, -1)),
    "jit tree": lambda x: tfn.jit(lambda t: t)({"x": x})["x"],
    "captured": lambda x: tfn.jit(lambda y: y * x)(tnp.ones(x.shape)),
    "tree": lambda x: tfn.tree.map(tnp.asarray, [x])[0],
    "reshape": lambda x: tnp.reshape(x, (1, -1)),
    "__array__": lambda x: tnp.asarray(Exporter(x)),
}


class Exporter:
    def __init__(self, x):
        self.x = x

    def __array__(self, dtype=None, copy=None):
        return self.x


@pytest.mark.parametrize("maker", MAKERS)
def test_no_array_sees_what_is_written_later_to_that_of_numpy(maker):
    """Whatever its size and its place in memory."""
    make = MAKERS[maker]
    for size in (1, 16, 100, 100, 5000):
        for source in (aligned(size), aligned(size + 1)[1:]):
            first = make(source)
            again = make(source)  # when all is compiled
            source[:] = 1
            expected = np.zeros(size)
            assert (np.asarray(first).reshape(-1) == expected).all()
            assert (np.asarray(again).reshape(-1) == expected).all()


def test_a_captured_array_of_numpy_is_that_of_the_trace():
    source = aligned(1000)
    add = tfn.jit(lambda x: x + source)
    add(tnp.zeros(1000))
    source[:] = 1
    assert float(add(tnp.zeros(1000)).sum()) == 0


@pytest.mark.parametrize("make", [tnp.asarray, tnp.array, tnp.from_dlpack])
def test_array_shares_memory_with_copy_false_or_refuses(make):
    for size in (1, 100, 5000):
        source = aligned(size)
        x = make(source, copy=False)
        assert np.shares_memory(np.asarray(x), source)
        source[:] = 1
        assert float(x.sum()) == size
        y = tfn.jit(lambda x: x + 1, donate_argnums=0)(x)  # never written by us
        assert x.is_deleted() and float(y[0]) == 2 and source[0] == 1
    for refused in (aligned(100)[1:], aligned(100)[::2]):
        with pytest.raises(ArgumentError, match="cannot be shared, which copy=False asks for"):
            make(refused, copy=False)
    with pytest.raises(ArgumentError, match=r"cannot be shared|needs a copy"):
        tnp.asarray(np.zeros(64, ">f4"), copy=False)
    x = tnp.ones(3)
    assert make(x, copy=False) is x and tnp.from_dlpack(x) is x
    assert not np.shares_memory(np.asarray(make(x, copy=True)), np.asarray(x))


def test_exchange_by_dlpack():
    x = tnp.arange(6).reshape(2, 3)
    shared = np.from_dlpack(x)
    close(shared, np.asarray(x))
    with pytest.raises(ValueError, match=r"read-only|cannot set WRITEABLE"):
        shared.flags.writeable = True
    assert x.__dlpack_device__() == (1, 0) and x.__array_namespace__() is tnp
    with pytest.raises(ArgumentError, match="a library that speaks DLPack"):
        tnp.from_dlpack(3)


class Capsule:
    """What a consumer gets, for NumPy to look into."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **options):
        return self.capsule

    def __dlpack_device__(self):
        return (1, 0)


def test_dlpack_shares_no_memory_that_could_be_written():
    """A consumer of an old version cannot be told that memory is read-only: it gets a copy."""
    x = tnp.arange(6)
    new, old = (1, 0), (0, 8)
    for options in ({}, {"copy": True}, {"max_version": old}, {"copy": True, "max_version": new}):
        got = np.from_dlpack(Capsule(x.__dlpack__(**options)))
        assert not np.shares_memory(got, np.asarray(x)) and got.tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(BufferError, match="must not be written"):
        x.__dlpack__(copy=False)


def test_exports_outlive_the_array():
    """Views, capsules and memoryviews of what was deleted, donated or collected."""
    give = tfn.jit(lambda x: x * 2, donate_argnums=0)
    ends = [lambda x: x.delete(), lambda x: give(x), lambda x: None]
    exports = [np.asarray, memoryview, np.from_dlpack, lambda x: np.asarray(x)[1:].T]
    for end in ends:
        for export in exports:
            x = tnp.arange(3000.0)
            kept = export(np.asarray(x) if export is memoryview else x)
            end(x)
            del x
            others = [tnp.full(3000, -1.0) for _ in range(3)]
            gc.collect()
            found = np.asarray(kept)
            assert found.tolist() == list(range(3000))[-len(found) :], (end, export)
            del others


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


NAMES = (
    "shape",
    "dtype",
    "weak_type",
    "kind",
    "buffer",
    "uop",
    "owner",
    "known",
    "trace",
    "T",
    "at",
    "ndim",
    "__class__",
    "__dict__",
    "mine",
)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_an_array_can_be_set(name):
    """Neither of a concrete nor of a traced one: another shape would be read beyond its memory."""
    x = tnp.arange(6.0)

    def attempts(x):
        for attempt in (
            lambda: setattr(x, name, (1 << 30,)),
            lambda: setattr(x, name, getattr(x, name, None)),
            lambda: delattr(x, name),
        ):
            with pytest.raises(ImmutableError, match=f"its {name} cannot be") as caught:
                attempt()
            assert isinstance(caught.value, AttributeError)
            assert caught.value.hint.endswith("gives a new array")
        return x

    attempts(x)
    tfn.jit(attempts)(x)
    attempts(tfn.jit(lambda x: x + 1)(x))
    assert x.shape == (6,) and x.tolist() == [0, 1, 2, 3, 4, 5]


def test_the_hint_names_the_function_that_is_meant():
    for name, words in (("shape", ".reshape(shape)"), ("dtype", ".astype(dtype)")):
        with pytest.raises(ImmutableError) as caught:
            setattr(X, name, None)
        assert words in caught.value.hint
    with pytest.raises(AttributeError, match="immutable"):
        X.kind.shape = (1 << 30,)


def test_an_array_cannot_be_made_or_made_again_by_its_class():
    for make in (lambda: tfn.Array([1.0]), lambda: tfn.Array(X.buffer, (1 << 30,), X.dtype)):
        with pytest.raises(ArgumentError, match=r"tfn\.numpy\.array\(values\) makes one"):
            make()
    X.__init__(X.buffer, (1 << 30,), X.dtype)  # that of object, which does nothing
    assert X.shape == (2, 2) and X.tolist() == [[1, 2], [3, 4]]


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
def test_concretization_errors_have_hints(use, error, hint):
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


def test_an_address_does_not_keep_an_array_from_being_donated():
    x = tnp.zeros(1000)
    address = x.unsafe_buffer_pointer()
    y = tfn.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert x.is_deleted() and y.unsafe_buffer_pointer() == address
    with pytest.raises(ConcretizationTypeError):
        tfn.jit(lambda x: x.unsafe_buffer_pointer())(y)


def test_repr_breaks_lines_where_numpy_does():
    x = np.arange(50, dtype="float32") / 7
    lines = repr(tnp.array(x)).splitlines()
    body = np.array2string(x, separator=", ", prefix="Array(", suffix=",").splitlines()
    assert lines[:-1] == ["Array(" + body[0], *body[1:-1], body[-1] + ","]
    assert lines[-1] == "      dtype=float32)"
    assert repr(tnp.array(x[:11])).endswith("]," + " dtype=float32)")
