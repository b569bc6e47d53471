"""New arrays against NumPy, and their JAX-like dtypes."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.numpy.values import ALL, close, kind, sample
from tfn import lax
from tfn.errors import ArgumentError, DeviceError, DTypeError, NumberError, ShapeError


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
def test_values_that_are_no_arrays_are_refused(bad):
    with pytest.raises(ArgumentError):
        tnp.array(bad)


def test_integers_that_do_not_fit():
    for given in (2**40, [2**40], [2**70], [2**63, -1], 10**400, -(2**31) - 1):
        with pytest.raises(NumberError, match="does not fit into int32"):
            tnp.array(given)
    assert tnp.array([2**40], dtype="int64")[0] == 2**40
    assert tnp.array([2**63 + 1, 5], dtype="uint64").tolist() == [2**63 + 1, 5]
    close(tnp.array([2**70, 1], "float64"), np.float64([2.0**70, 1]))
    with pytest.raises(NumberError, match="2147483648 does not fit into int32"):
        tnp.arange(2**31, 2**31 + 3)
    assert tnp.arange(2**31, 2**31 + 3, dtype="int64")[2] == 2**31 + 2


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (300, "uint8"),
        (-1, "uint8"),
        (2**31, "int32"),
        (float("nan"), "int32"),
        (float("inf"), "int64"),
        (1e10, "int32"),
        (-2.7, "uint8"),
        (1j, "int32"),
        (1j, "float32"),
        (10**400, "float64"),
    ],
    ids=lambda given: str(given)[:12],
)
def test_numbers_that_a_dtype_does_not_have(value, dtype):
    x = tnp.zeros((2, 3), dtype)
    calls = {
        "array": lambda: tnp.array(value, dtype),
        "array of a list": lambda: tnp.array([[0, value]], dtype),
        "asarray": lambda: tnp.asarray(value, dtype),
        "name of a dtype": lambda: getattr(tnp, dtype)(value),
        "full": lambda: tnp.full(2, value, dtype),
        "full_like": lambda: tnp.full_like(x, value),
        "lax.full": lambda: lax.full((2,), value, dtype),
        "insert": lambda: tnp.insert(x[0], 1, value),
        "ediff1d": lambda: tnp.ediff1d(x[0], to_end=value),
        "fill_diagonal": lambda: tnp.fill_diagonal(x, value, inplace=False),
        "piecewise": lambda: tnp.piecewise(x, [x > 0], [value, 0]),
        "pad": lambda: tnp.pad(x, 1, constant_values=value),
        "in jit": lambda: tfn.jit(lambda x: tnp.full_like(x, value))(x),
    }
    if type(value) is int and dtype != "float64":
        calls |= {
            "add": lambda: x + value,
            "where": lambda: tnp.where(x > 0, x, value),
            "clip": lambda: tnp.clip(x, 0, value),
            "at": lambda: x.at[0].set(value),
            "put": lambda: tnp.put(x, 0, value, inplace=False),
            "place": lambda: tnp.place(x, np.ones((2, 3), bool), value, inplace=False),
            "stack": lambda: tnp.stack([x[0, 0], value]),
            "initial": lambda: tnp.max(x, initial=value),
        }
    if type(value) is int:
        calls["add"] = lambda: x + value
    for name, call in calls.items():
        with pytest.raises(NumberError, match="does not fit into"):
            pytest.fail(f"{name} gave {call()}")


def test_numbers_that_a_dtype_has():
    assert tnp.array(2.7, "int8") == 2 and tnp.full(1, -2.7, "int8").tolist() == [-2]
    assert tnp.array(1j, "bool") and tnp.array(float("nan"), "bool") and tnp.array(2**70, "bool")
    assert tnp.array(2**64 - 1, "uint64") == np.uint64(2**64 - 1)
    assert tnp.array(True, "uint8") == 1 and tnp.array(1e300, "bfloat16") == np.inf
    assert tnp.full(1, 3, "complex64").tolist() == [3]


def test_arrays_are_converted_as_astype_does():
    wide = np.array([300, -1, 2**40])
    close(tnp.array(wide, "uint8"), wide.astype("uint8"))
    close(tnp.array(tnp.array(wide), "uint8"), wide.astype("uint8"))
    close(tnp.full(3, tnp.array(wide), "uint8"), wide.astype("uint8"))
    close(tnp.array(np.array([np.nan, 1e10]), "int32"), np.int32([0, 2**31 - 1]))
    close(tnp.array(np.array([2 + 1j]), "float32"), np.float32([2]))


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
    with pytest.raises(DTypeError, match="datetime64"):
        tnp.zeros(2, "datetime64")


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


def test_copies_that_are_forbidden():
    x = tnp.ones(2)
    assert tnp.asarray(x, copy=False) is x
    with pytest.raises(ArgumentError, match="copy=False forbids"):
        tnp.asarray([1.0], copy=False)
    with pytest.raises(ArgumentError, match="copy=False forbids"):
        tnp.asarray(x, "int8", copy=False)


def test_devices_by_name():
    x = tnp.zeros(2)
    for make in (tnp.zeros, tnp.ones, tnp.empty):
        assert make(2, device=x.device).device == x.device
    assert x.to_device(x.device).device == x.device
    with pytest.raises(DeviceError, match="no device 'moon'"):
        tnp.full(2, 1, device="moon")


def test_from_bytes_and_iterables():
    close(tnp.frombuffer(b"\1\2\3\4", "int8", 2, 1), np.int8([2, 3]))
    close(tnp.fromiter((i * i for i in range(4)), "int32"), np.int32([0, 1, 4, 9]))


def test_numbers_of_files_and_texts(tmp_path):
    path = tmp_path / "numbers"
    x = np.arange(6, dtype="int16")
    x.tofile(path)
    assert tnp.fromfile(path, "int16").tolist() == x.tolist()
    assert tnp.fromfile(path, "int16", 2).tolist() == [0, 1]
    path.write_text("1.5, 2.5")
    assert tnp.fromfile(path, float, sep=",").tolist() == [1.5, 2.5]
    assert tnp.fromstring("3 4 5", "int32", 2, sep=" ").tolist() == [3, 4]
    for call in (
        lambda: tnp.fromstring("3 x", "int32", sep=" "),
        lambda: tnp.fromstring("3", "int32", sep=""),
        lambda: tnp.fromfile(path, "int32", sep=","),
    ):
        with pytest.raises(ArgumentError):
            call()


def test_likes_of_a_weak_value_are_weak():
    for like in (tnp.zeros_like, tnp.ones_like):
        assert like(1.0).weak_type and like(tnp.asarray(2)).weak_type
        assert not like(1.0, "float32").weak_type and not like(True).weak_type
        assert not like(np.ones(2, "float32")).weak_type


@pytest.mark.parametrize(
    ("listed", "dtype"),
    [
        ([np.int8(1), 2], "int8"),
        ([[np.float32(1), 2.0], [3, 4]], "float32"),
        ([np.float16(1), np.int32(2)], "float16"),
        ([np.uint8(1), np.int8(2)], "int16"),
        ([np.int32(1), 2.5], "float32"),
        ([np.bool_(True), 2], "int32"),
        ([np.complex64(1), 2.5], "complex64"),
    ],
)
def test_numbers_beside_numpys_scalars_are_weak(listed, dtype):
    x = tnp.array(listed)
    assert x.dtype == dtype and x.tolist() == np.array(listed).tolist()


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float16", "float32", "float64", "complex128"])
def test_kernels_read_shared_memory_at_multiples_of_16_bytes(dtype: str, compiled: None) -> None:
    raw = np.zeros(64 * 33 * 16 + 128, np.uint8)
    begin = -raw.ctypes.data % 64 + 16
    x = raw[begin : begin + 64 * 33 * 16].view(dtype)[: 64 * 33].reshape(64, 33)
    x[...] = np.arange(x.size).reshape(x.shape) % 7
    shared = tnp.asarray(x, copy=False)
    assert np.array_equal(tfn.jit(lambda a: (a.T @ a) + a.sum())(shared), x.T @ x + x.sum())
    assert np.array_equal(shared + shared[::-1], x + x[::-1])
    x[0, 0] = 9
    assert shared[0, 0] == 9


def test_ranges_are_lists():
    assert tnp.asarray(range(1, 7, 2)).tolist() == [1, 3, 5]
    assert tnp.array([range(2), [3, 4]]).dtype == "int32"
    assert tnp.array([range(2), tnp.arange(2.0)]).tolist() == [[0, 1], [0, 1]]
    assert tnp.asarray(range(0)).shape == (0,)
