"""Arrays in NumPy's files, there and back; and files that are damaged."""

import io
import os

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.numpy.values import close
from tfn.dtypes import ALL, NARROW, width_bits
from tfn.errors import ArgumentError, DTypeError, StateError


def test_there_and_back(tmp_path):
    x = tnp.arange(6.0).reshape(2, 3)
    tnp.save(tmp_path / "x.npy", x)
    close(tnp.load(tmp_path / "x.npy"), x)
    close(np.load(tmp_path / "x.npy"), x)
    file = io.BytesIO()
    tnp.savez(file, x, y=x + 1)
    file.seek(0)
    found = tnp.load(file)
    close(found["arr_0"], x)
    close(found["y"], x + 1)


def test_suffixes_are_those_of_numpy(tmp_path):
    tnp.save(str(tmp_path / "x"), tnp.ones(3))
    tnp.savez(str(tmp_path / "x"), tnp.ones(2))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.npy", "x.npz"]
    assert np.load(tmp_path / "x.npz")["arr_0"].shape == (2,)


@pytest.mark.parametrize("dtype", sorted(ALL, key=str), ids=str)
def test_every_dtype(dtype, tmp_path):
    for x in (tnp.asarray(np.array([0, 1, 5]).astype(dtype)), tnp.zeros((0, 2), dtype)):
        tnp.save(tmp_path / "x.npy", x)
        tnp.savez(tmp_path / "x.npz", x, y=x)
        for found in (tnp.load(tmp_path / "x.npy"), *tnp.load(tmp_path / "x.npz").values()):
            assert (found.shape, found.dtype) == (x.shape, x.dtype)
            assert np.asarray(found).tobytes() == np.asarray(x).tobytes()


@pytest.mark.parametrize("dtype", sorted(NARROW, key=str), ids=str)
def test_numpy_reads_narrow_dtypes_as_bits_in_a_field_of_their_name(dtype, tmp_path):
    """Bits that mean nothing, of types of less than 8, are zeros."""
    x = np.arange(256, dtype=np.uint8).reshape(2, 1, 128).view(dtype).swapaxes(0, 2)
    tnp.save(tmp_path / "x.npy", x)
    bits = np.load(tmp_path / "x.npy", allow_pickle=False)[dtype.name]
    np.testing.assert_array_equal(bits, x.view(np.uint8) & (2 ** width_bits(dtype) - 1))
    found = tnp.load(tmp_path / "x.npy")
    assert found.dtype == dtype
    np.testing.assert_array_equal(np.asarray(found).view(np.uint8), bits)


def test_several_arrays_in_one_open_file():
    file = io.BytesIO()
    tnp.save(file, tnp.ones(2))
    tnp.save(file, tnp.zeros(3))
    file.seek(0)
    assert (tnp.load(file).shape, tnp.load(file).shape) == ((2,), (3,))


def test_no_array_is_lost_by_its_name(tmp_path):
    path = tmp_path / "x.npz"
    names = ("allow_pickle", "", "a/../b", "x.npy")
    odd = {name: tnp.ones(n) for n, name in enumerate(names)}
    tnp.savez(path, **odd)
    assert {name: x.size for name, x in tnp.load(path).items()} == {
        name: x.size for name, x in odd.items()
    }
    path.unlink()
    for wrong in ("arr_0", "a\0b", "\ud800"):
        with pytest.raises(ArgumentError, match="one name for each"):
            tnp.savez(path, tnp.ones(1), **{wrong: tnp.ones(2)})
    assert not path.exists()


def written(save, *args, **kwargs):
    file = io.BytesIO()
    save(file, *args, **kwargs)
    return file.getvalue()


X = np.arange(6, dtype=np.float32).reshape(2, 3)
FILES = {
    "npy": written(np.save, X),
    "npz": written(np.savez, a=X, b=np.ones(2, bool)),
    "compressed": written(np.savez_compressed, a=np.arange(60) % 7),
}


def readable(raw, path):
    """The content of a file as text, read by its name and open; None if it is refused."""
    found = []
    for file in (path, io.BytesIO(raw)):
        try:
            found.append(repr(tfn.device_get(tnp.load(file))))
        except StateError:
            found.append(None)
    return found


def changed(raw, masks, path):
    """For each byte, and each of some masks, what can be read of a file with that byte changed."""
    path.write_bytes(raw)
    with open(path, "r+b", buffering=0) as file:  # in place, which is faster
        for at, byte in enumerate(raw):
            for mask in masks:
                os.pwrite(file.fileno(), bytes([byte ^ mask]), at)
                yield at, readable(raw[:at] + bytes([byte ^ mask]) + raw[at + 1 :], path)
            os.pwrite(file.fileno(), bytes([byte]), at)


@pytest.mark.parametrize("kind", FILES)
def test_every_truncated_file_is_refused(kind, tmp_path):
    raw, path = FILES[kind], tmp_path / "x"
    path.write_bytes(raw)
    for length in range(len(raw) - 1, -1, -1):
        os.truncate(path, length)
        assert readable(raw[:length], path) == [None, None], length


@pytest.mark.parametrize("kind", ["npz", "compressed"])
def test_every_changed_byte_is_refused_or_does_not_matter(kind, tmp_path):
    (tmp_path / "x").write_bytes(FILES[kind])
    good = readable(FILES[kind], tmp_path / "x")
    for at, found in changed(FILES[kind], (1, 0x10, 0x80), tmp_path / "x"):
        assert all(x in (None, want) for x, want in zip(found, good, strict=True)), at


def test_a_changed_byte_of_an_npy_gives_an_array_or_is_refused(tmp_path):
    for at, (by_name, opened) in changed(FILES["npy"], [1 << n for n in range(8)], tmp_path / "x"):
        assert by_name in (None, opened), at


def test_other_contents_are_refused(tmp_path):
    objects, path = np.array([1, "a"], object), tmp_path / "x.npy"
    np.save(path, objects, allow_pickle=True)
    with pytest.raises(StateError, match="allow_pickle"):
        tnp.load(path)
    path.write_bytes(FILES["npy"] + b"x")
    with pytest.raises(StateError, match="goes on after its array"):
        tnp.load(path)
    np.save(path, np.array(["text"]))
    with pytest.raises(DTypeError, match="no arrays of str"):
        tnp.load(path)
    np.save(path, np.array([2], np.uint8).view(bool))
    with pytest.raises(StateError, match="neither False nor True"):
        tnp.load(path)
    np.save(path, np.array([(16,)], [("int4", "u1")]))
    with pytest.raises(StateError, match="elements of dtype int4 that have 5 bits"):
        tnp.load(path)
    for names in ([("int4", "i4")], [("int4", "u1"), ("int2", "u1")], [("other", "u1")], "V1"):
        np.save(path, np.zeros(2, names))
        with pytest.raises(DTypeError, match="does not tell the dtype"):
            tnp.load(path)
    with pytest.raises(FileNotFoundError):
        tnp.load(tmp_path / "missing.npy")
    with pytest.raises(FileNotFoundError):
        tnp.save(tmp_path / "no" / "folder.npy", X)


def test_a_size_that_would_fill_the_memory(tmp_path):
    raw = FILES["npy"].replace(b"(2, 3), }                ", b"(2, 30000000000000000), }")
    assert len(raw) == len(FILES["npy"])
    (tmp_path / "x").write_bytes(raw)
    for file in (tmp_path / "x", io.BytesIO(raw)):
        with pytest.raises((StateError, MemoryError)) as caught:
            tnp.load(file)
        assert isinstance(caught.value, tfn.errors.TfnError)
