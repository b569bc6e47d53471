"""Graphs: tensors in each way of writing, files of weights, files that contradict themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.onnx.building import NUMBERS, graph, model, node, tensor
from tfn.errors import OutOfMemoryError, StateError
from tfn.onnx.graph import SPARSE_LIMIT_BYTES, read
from tfn.onnx.schema import BITS, DTYPES

IDENTITY = [node("Identity", "c", "y")]


def constant(message: dict[str, Any], folder: Path | None = None) -> np.ndarray[Any, Any]:
    """The array that is read of a message of an initializer."""
    made = {
        "nodes": IDENTITY,
        "outputs": [{"name": "y"}],
        "initializers": [message | {"name": "c"}],
    }
    return read(memoryview(model(made)), folder).graph.constants["c"]


WHOLE = [dtype for number, dtype in DTYPES.items() if number not in BITS]


@pytest.mark.parametrize("dtype", WHOLE, ids=str)
def test_raw_bytes_are_a_view_of_any_dtype(dtype: np.dtype[Any]) -> None:
    want = np.array([[0, 1, 2]]).astype(dtype)
    got = constant(tensor(want))
    assert got.dtype == dtype and got.shape == (1, 3)
    assert got.tobytes() == want.tobytes() and not got.flags.writeable


@pytest.mark.parametrize(
    ("dtype", "field", "values", "want"),
    [
        (np.float32, "floats", [1.5, -2.0], [1.5, -2.0]),
        (np.float64, "doubles", [0.1], [0.1]),
        (np.int64, "int64s", [-(2**63)], [-(2**63)]),
        (np.uint64, "uint64s", [-1], [2**64 - 1]),
        (np.uint32, "uint64s", [2**32 - 1], [2**32 - 1]),
        (np.int8, "int32s", [-128, 127], [-128, 127]),
        (np.bool_, "int32s", [0, 1], [False, True]),
        (np.float16, "int32s", [0x3C00], [1.0]),
        (ml_dtypes.bfloat16, "int32s", [0x3F80], [1.0]),
        (np.complex64, "floats", [1.0, 2.0], [1 + 2j]),
    ],
)
def test_listed_numbers_are_an_array(dtype: Any, field: str, values: Any, want: Any) -> None:
    got = constant({"dims": [len(want)], "dtype": NUMBERS[np.dtype(dtype)], field: values})
    assert got.dtype == dtype and got.tolist() == want


def test_narrow_integers_share_bytes_the_first_lowest() -> None:
    number = NUMBERS[np.dtype(ml_dtypes.int4)]
    got = constant({"dims": [3], "dtype": number, "raw": b"\x2f\x08"})
    assert got.astype(int).tolist() == [-1, 2, -8]
    with pytest.raises(StateError, match="contradicts"):
        constant({"dims": [3], "dtype": number, "raw": b"\x2f"})


@pytest.mark.parametrize(
    "message",
    [
        {"dims": [3], "dtype": 1, "raw": b"1234"},
        {"dims": [-1], "dtype": 1, "raw": b""},
        {"dims": [1 << 40, 1 << 40], "dtype": 1, "floats": [1.0]},
        {"dims": [1], "dtype": 99, "raw": b"1"},
        {"dims": [1] * 65, "dtype": 1, "raw": b"1234"},
    ],
)
def test_shapes_that_do_not_fit_are_errors(message: dict[str, Any]) -> None:
    with pytest.raises(StateError, match="contradicts itself"):
        constant(message)


def outside(place: str, **more: str) -> dict[str, Any]:
    entries = [{"key": k, "value": v} for k, v in {"location": place, **more}.items()]
    return {"dims": [2], "dtype": 1, "location": 1, "external": entries}


def test_weights_in_a_file_beside_the_model(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"skip" + np.array([1, 2], np.float32).tobytes())
    place = outside("w.bin", offset="4", length="8")
    assert constant(place, tmp_path).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "message",
    [
        outside("../secret"),
        outside("/etc/passwd"),
        outside("w.bin", offset="8"),
        outside("w.bin", offset="-1"),
        outside("w.bin", length="99999999999999"),
        outside(""),
    ],
)
def test_places_of_weights_are_checked(message: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(12))
    folder = tmp_path / "inner" if "secret" in str(message) else tmp_path
    (tmp_path / "secret").write_bytes(bytes(8))
    with pytest.raises(StateError, match="contradicts itself"):
        constant(message, folder)


def test_weights_elsewhere_need_a_folder() -> None:
    with pytest.raises(StateError, match="contradicts itself"):
        constant(outside("w.bin"))


def sparse(dims: list[int], places: Any) -> bytes:
    message = {
        "values": tensor(np.array([5.0, 6.0], np.float32), "c"),
        "indices": tensor(np.array(places, np.int64)),
        "dims": dims,
    }
    return model({"nodes": IDENTITY, "outputs": [{"name": "y"}], "sparse_initializers": [message]})


def test_sparse_arrays_are_filled() -> None:
    for places in ([1, 5], [[0, 1], [1, 2]]):
        got = read(memoryview(sparse([2, 3], places)), None).graph.constants["c"]
        assert got.tolist() == [[0, 5, 0], [0, 0, 6]]
    with pytest.raises(StateError):
        read(memoryview(sparse([2, 3], [1, 6])), None)
    with pytest.raises(OutOfMemoryError):
        read(memoryview(sparse([SPARSE_LIMIT_BYTES], [1, 6])), None)


def test_names_are_defined_before_they_are_read() -> None:
    loop = [node("Add", "a b", "b"), node("Add", "b b", "y")]
    with pytest.raises(StateError, match="contradicts itself"):
        read(memoryview(model(graph(loop, ["a"], ["y"]))), None)
    with pytest.raises(StateError, match="contradicts itself"):
        read(memoryview(model(graph([], ["a"], ["y"]))), None)


def test_bytes_without_a_graph_are_no_model() -> None:
    for data in (b"", b"hello", b"\x08\x0a"):
        with pytest.raises(StateError):
            read(memoryview(data), None)
