"""Rows of arrays in stores, and batches of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.nn.store.test_server import served
from tfn import random
from tfn.errors import ArgumentError, DamagedError, StateError
from tfn.nn.data import Batches
from tfn.nn.store import Store, Stored
from tfn.nn.store.trees import Leaf, Part, Tree

X = np.arange(70 * 6, dtype=np.int16).reshape(70, 2, 3)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    found = Store(tmp_path / "s", block_bytes=100)
    found.put("data", {"x": X, "y": np.arange(70), "text": X.reshape(-1), "flat": X.reshape(70, 6)})
    return found


@pytest.mark.parametrize(
    "rows", [3, -1, slice(None), slice(5, 60, 7), [4, 4, 0], [[1, 2], [69, 3]], []], ids=str
)
def test_rows_are_those_of_the_array(store: Store, rows: Any) -> None:
    index: Any = np.asarray(rows, int) if isinstance(rows, list) else rows
    for name, x in {"x": X, "flat": X.reshape(70, 6), "y": np.arange(70)}.items():
        found = Stored(store, "data", name)
        assert (len(found), found.shape, found.dtype) == (70, x.shape, x.dtype)
        np.testing.assert_array_equal(found[index], x[index])


def test_windows_of_a_text(store: Store) -> None:
    windows = np.lib.stride_tricks.sliding_window_view(X.reshape(-1), 60)
    found = Stored(store, "data", "text", window=60)
    assert found.shape == windows.shape
    np.testing.assert_array_equal(found[[0, 360, 17]], windows[[0, 360, 17]])


def test_arrays_in_parts_of_several_hosts(store: Store) -> None:
    boxes = [((0, 0, 0), (30, 2, 3)), ((30, 0, 0), (40, 1, 3)), ((30, 1, 0), (40, 1, 3))]
    pieces = [
        np.ascontiguousarray(X[tuple(slice(a, a + n) for a, n in zip(*box, strict=True))])
        for box in boxes
    ]
    parts = [Part(*b, *extent) for b, extent in zip(boxes, store.put_data(pieces), strict=True)]
    store.put_tree("parts", Tree({"x": Leaf("I16", X.shape, ((), (), ()), tuple(parts))}, {}))
    rows = [65, 0, 31, 29]
    np.testing.assert_array_equal(Stored(store, "parts", "x")[rows], X[rows])
    np.testing.assert_array_equal(store.get("parts")["x"], X)


def test_what_is_not_there_is_refused(store: Store) -> None:
    with pytest.raises(StateError, match="no array z"):
        Stored(store, "data", "z")
    with pytest.raises(ArgumentError, match="windows those of one axis"):
        Stored(store, "data", "x", window=3)


def test_batches_stream_from_any_position(store: Store, uncompiled: None) -> None:
    arrays = {"x": Stored(store, "data", "x"), "y": Stored(store, "data", "y")}
    expected = Batches({"x": X, "y": np.arange(70)}, 8, random.key(1))
    batches = Batches(arrays, 8, random.key(1))
    with batches.stream(epochs=1) as stream, expected.stream(epochs=1, ahead=0) as others:
        for _ in range(3):
            a, b = next(stream), next(others)
            assert a["x"].tolist() == b["x"].tolist() and a["y"].tolist() == b["y"].tolist()
        position = stream.position
        with batches.stream(position, epochs=1, ahead=0) as again:
            assert [x["y"].tolist() for x in again] == [x["y"].tolist() for x in others]


def test_rows_of_another_host_are_fetched(tmp_path: Path) -> None:
    Store(tmp_path / "b", block_bytes=100).put("data", {"x": X})
    with served(tmp_path / "b") as url:
        far = Store(url)
        np.testing.assert_array_equal(Stored(far, "data", "x")[::3], X[::3])


def test_a_damaged_block_is_found_when_its_rows_are_read(store: Store) -> None:
    block = [*store.tree("data").blocks()][1]
    path = store.folders()[0].root / block.path
    path.write_bytes(b"!" + path.read_bytes()[1:])
    with pytest.raises(DamagedError, match="is damaged"):
        Stored(store, "data", "flat")[:]
