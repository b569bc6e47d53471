"""Stores of one and of several folders: what was acknowledged is there, and is what was written."""

from __future__ import annotations

import itertools
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfn import numpy as jnp
from tfn.dtypes import ALL
from tfn.errors import ArgumentError, DamagedError, StateError
from tfn.nn.store import Store, Stored, located, upkeep
from tfn.nn.store.folder import Item
from tfn.nn.store.trees import Leaf, Part, Tree

RNG = np.random.default_rng(0)
ARRAYS = {
    "large": RNG.normal(size=(50, 90)),
    "small": np.arange(7, dtype=np.int8),
    "scalar": np.float32(3),
    "empty": np.zeros((0, 4)),
    "strided": np.arange(24).reshape(4, 6)[:, ::2],
}


def several(tmp_path: Path, count: int, replicas: int) -> Store:
    folders = [tmp_path / str(i) for i in range(count)]
    return Store(folders, replicas=replicas, block_bytes=1000)


def same(found: dict[str, Any], expected: dict[str, Any] = ARRAYS) -> None:
    assert found.keys() == expected.keys()
    for name, x in expected.items():
        np.testing.assert_array_equal(found[name], x)
        assert found[name].dtype == np.asarray(x).dtype


def blocks(store: Store) -> list[Path]:
    return [f.root / item.path for f in store.folders() for item in f.items("blocks")]


@pytest.mark.parametrize("block_bytes", [1, 64, 1000, 1 << 22])
def test_arrays_come_back(block_bytes: int, tmp_path: Path) -> None:
    arrays = ARRAYS if block_bytes > 1 else {"small": ARRAYS["small"], "empty": ARRAYS["empty"]}
    store = Store(tmp_path / "s", block_bytes=block_bytes)
    store.put("a/b", arrays, metadata={"k": "v"})
    same(Store(tmp_path / "s").get("a/b"), arrays)
    assert store.tree("a/b").metadata == {"k": "v"}


def test_arrays_of_all_dtypes_come_back(tmp_path: Path) -> None:
    arrays = {str(dtype): np.asarray(jnp.ones(3, dtype)) for dtype in ALL}
    store = Store(tmp_path)
    store.put("all", arrays)
    same(store.get("all"), arrays)


def test_what_is_there_is_not_written_again(tmp_path: Path) -> None:
    store = Store(tmp_path, block_bytes=1000)
    assert store.put("run-1/1", ARRAYS) == store.put("run-2/1", ARRAYS)
    before = {path: path.stat().st_ino for path in blocks(store)}
    changed = ARRAYS | {"large": np.concatenate([ARRAYS["large"][:25], np.ones((25, 90))])}
    store.put("run-1/2", changed)
    same(store.get("run-1/2"), changed)
    new = [path for path in blocks(store) if path.stat().st_ino != before.get(path)]
    assert sum(path.stat().st_size for path in new) < 0.6 * ARRAYS["large"].nbytes + 4000


def test_names(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for name in ("run/2", "run/1", "run-2/1", "other"):
        store.put(name, {"x": np.ones(1)})
    assert store.ls() == ["other", "run-2/1", "run/1", "run/2"]
    assert store.ls("run/") == ["run/1", "run/2"]
    assert store.ls("run/2") == ["run/2"]
    assert store.ls(after="other", limit=2) == ["run-2/1", "run/1"]
    store.pin("run/1")
    store.put("run/1", {"x": np.zeros(1)})  # is still pinned
    with pytest.raises(StateError, match="pinned"):
        store.delete("run/1")
    store.pin("run/1", False)
    store.delete("run/1")
    store.delete("run/1")
    assert store.ls("run/") == ["run/2"]
    for call in (store.tree, store.get, store.pin):
        with pytest.raises(StateError, match="the store has no run/1"):
            call("run/1")


@pytest.mark.parametrize("name", ["", "../x", "a//b", ".a", "a/", "a b"])
def test_wrong_names_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError):
        Store(tmp_path).put(name, {"x": np.ones(1)})


def test_stores_are_found_by_paths(tmp_path: Path) -> None:
    Store(tmp_path / "s")
    assert located(tmp_path / "s" / "run" / "1") == (str(tmp_path / "s"), "run/1")
    assert located(tmp_path / "s") == (str(tmp_path / "s"), "")
    assert located(tmp_path) is None
    with pytest.raises(StateError, match="no store"):
        Store(tmp_path / "none", create=False)


def test_every_changed_bit_is_found(tmp_path: Path) -> None:
    store = Store(tmp_path, block_bytes=100)
    store.put("a", {"x": np.arange(30), "y": np.arange(5)})
    for path in [*blocks(store), tmp_path / "refs" / "a"]:
        raw = path.read_bytes()
        for at in range(0, len(raw), 7):
            path.write_bytes(raw[:at] + bytes([raw[at] ^ 1 << at % 8]) + raw[at + 1 :])
            with pytest.raises(DamagedError):
                Store(tmp_path).get("a")
            assert [damage.file for damage in upkeep.verify(store)] == [str(path)]
        path.write_bytes(raw)


def test_truncated_swapped_and_lost_blocks_are_found(tmp_path: Path) -> None:
    store = Store(tmp_path, block_bytes=100)
    store.put("a", {"x": np.arange(30)})
    first, second, *_ = [tmp_path / block.path for block in store.tree("a").blocks()]
    raw, other = first.read_bytes(), second.read_bytes()
    for bad in (raw[:-1], b"", other, raw + b"0"):
        first.write_bytes(bad)
        with pytest.raises(DamagedError, match="a: x bytes 0:100"):
            store.get("a")
    first.unlink()
    with pytest.raises(DamagedError, match="gone"):
        store.get("a")


def test_a_damaged_copy_is_named_and_mended_while_it_is_read(tmp_path: Path) -> None:
    store = several(tmp_path, 3, 2)
    store.put("a", ARRAYS)
    firsts = [p for p in blocks(store) if store.ranked(p.name)[0].address == str(p.parents[2])]
    for path in firsts[::5]:
        raw = path.read_bytes()
        path.write_bytes(b"!" + raw[1:])
        with pytest.warns(UserWarning, match=r"was damaged: a: "):
            same(Store(tmp_path / "0").get("a"))
        assert path.read_bytes() == raw


@pytest.mark.parametrize("lost", range(3))
def test_a_lost_folder_costs_nothing_that_has_a_copy(lost: int, tmp_path: Path) -> None:
    store = several(tmp_path, 3, 2)
    store.put("a", ARRAYS)
    shutil.rmtree(tmp_path / str(lost))
    again = Store(tmp_path / str((lost + 1) % 3))
    same(again.get("a"))
    again.put("b", ARRAYS)
    same(again.get("b"))
    assert not (tmp_path / str(lost)).exists()  # it may be a disk that comes back


def test_a_folder_that_comes_back_does_not_bring_back_old_names(tmp_path: Path) -> None:
    store = several(tmp_path, 3, 2)
    for name in ("a", "b"):
        store.put(name, {"x": np.zeros(3)})
    away = tmp_path / "1"
    away.rename(tmp_path / "away")
    store.put("a", {"x": np.ones(3)})
    store.delete("b")
    (tmp_path / "away").rename(away)
    assert Store(tmp_path / "0").get("a")["x"].tolist() == [1, 1, 1]
    assert Store(tmp_path / "1").ls() == ["a"]


def test_a_host_that_is_lost_in_the_middle_of_a_list_hides_no_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = several(tmp_path, 3, 1)
    for i in range(9):
        store.put(f"run/{i}", {"x": np.ones(1)})
    whole = store.places[1].items

    def items(kind: str, after: str = "") -> Iterator[Item]:
        yield from itertools.islice(whole(kind, after), 4)
        raise ConnectionError("lost")

    monkeypatch.setattr(store.places[1], "items", items)
    assert store.ls() == [f"run/{i}" for i in range(9)]
    with pytest.raises(StateError, match="cannot be asked for names"):
        upkeep.gc(store, age_seconds=0)
    for place in store.places:
        monkeypatch.setattr(place, "items", items)
    with pytest.raises(ConnectionError):
        store.ls()


def test_names_that_are_not_asked_for_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, read = Store(tmp_path), list[str]()
    for name in ("a/1", "b/1", "b/2", *(f"c/{i}" for i in range(30))):
        store.put(name, {"x": np.ones(1)})
    items = store.places[0].items
    listed = lambda kind, after: (read.append(x.path) or x for x in items(kind, after))
    monkeypatch.setattr(store.places[0], "items", listed)
    assert store.ls("b/") == ["b/1", "b/2"]
    assert [*dict.fromkeys(read)] == ["refs/b/1", "refs/b/2", "refs/c/0"]


def test_the_last_writer_wins_whatever_its_clock_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = several(tmp_path, 2, 2)
    with monkeypatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: 1 << 62)  # of a host that is ahead
        store.put("a", {"x": np.zeros(1)})
        store.pin("a")
    away = tmp_path / "1"
    away.rename(tmp_path / "away")
    with pytest.warns(UserWarning, match="fewer copies"):
        store.put("a", {"x": np.ones(1)})
    (tmp_path / "away").rename(away)
    assert Store(tmp_path / "1").get("a")["x"].tolist() == [1]
    store.pin("a", False)
    store.delete("a")
    assert store.ls() == [] and store.ref("a") is None
    store.put("a", {"x": np.ones(2)})
    assert store.get("a")["x"].tolist() == [1, 1]


@pytest.mark.parametrize("count", [1, 3])
def test_a_name_that_is_damaged_is_deleted_or_written_anew(count: int, tmp_path: Path) -> None:
    store = several(tmp_path, count, 1)
    for name in "ab":
        store.put(name, ARRAYS)
        for path in tmp_path.glob(f"*/refs/{name}"):
            path.write_bytes(b"")
    with pytest.raises(StateError, match="delete these names"):
        upkeep.gc(store, age_seconds=0)
    store.delete("a")
    store.put("b", {"x": np.ones(1)})
    assert store.ls() == ["b"] and upkeep.verify(store) == []
    assert upkeep.gc(store, age_seconds=0)[0] > 30


def test_a_tree_that_lies_of_the_size_of_a_block_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    block = store.put_block(b"x" * 10)._replace(size_bytes=1000)
    part = Part((0,), (1000,), 0, (block,))
    store.put_tree("a", Tree({"x": Leaf("U8", (1000,), ((),), (part,))}, {}))
    for read in (lambda: store.get("a"), lambda: Stored(store, "a", "x")[:]):
        with pytest.raises(DamagedError, match="is damaged"):
            read()


def test_two_writers_of_one_store(tmp_path: Path) -> None:
    errors: list[BaseException] = []

    def write(i: int) -> None:
        try:
            store = Store(tmp_path / "s", block_bytes=1000)
            for j in range(5):
                store.put(f"own-{i}/{j}", ARRAYS)
                store.put("both", ARRAYS | {"i": np.asarray(i)})
        except BaseException as error:
            errors.append(error)

    Store(tmp_path / "s")
    threads = [threading.Thread(target=write, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store = Store(tmp_path / "s")
    assert not errors
    assert len(store.ls()) == 16
    same({k: v for k, v in store.get("both").items() if k != "i"})
    assert upkeep.verify(store) == []


def test_a_put_that_fails_leaves_the_name_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path, block_bytes=1000)
    store.put("a", ARRAYS)
    for moment in range(6):
        count = iter(range(100))

        def write(*_: Any, count: Any = count, moment: int = moment, **__: Any) -> None:
            if next(count) >= moment:
                raise OSError("full")

        with monkeypatch.context() as patch:
            patch.setattr(store.places[0], "write", write)
            with pytest.raises(OSError, match="full"):
                store.put("a", {"x": np.arange(500.0)})
        same(store.get("a"))


def test_copies_need_places(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="replicas=3, 2 places"):
        Store([tmp_path / "a", tmp_path / "b"], replicas=3)
