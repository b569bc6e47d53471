"""Upkeep: damage is named and mended, copies go where they belong, garbage is deleted."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.nn.store.test_repository import ARRAYS, blocks, same, several
from tfn.errors import StateError
from tfn.nn.store import Store, du, gc, scrub, verify


def test_flipped_bits_truncated_and_swapped_blocks_are_named_and_mended(tmp_path: Path) -> None:
    store = several(tmp_path, 3, 2)
    store.put("a", ARRAYS)
    chance = np.random.default_rng(0)
    bad, raws = {}, {path: path.read_bytes() for path in blocks(store)}
    for i, path in enumerate(sorted(raws)):
        if path.name in {other.name for other in bad}:
            continue  # the other copy stays whole
        raw = bytearray(raws[path])
        if i % 3 == 0:
            at = int(chance.integers(len(raw)))
            raw[at] ^= 1 << int(chance.integers(8))
        bad[path] = [bytes(raw), bytes(raw[:-1]), raws[sorted(raws)[i - 1]]][i % 3]
        path.write_bytes(bad[path])
    found = verify(store)
    assert {damage.file for damage in found} == {*map(str, bad)}
    assert all(damage.what == "damaged" and not damage.mended for damage in found)
    assert {path: path.read_bytes() for path in bad} == bad  # nothing is written
    assert any(damage.holds[0].startswith("a: large bytes ") for damage in found)
    assert all(damage.mended for damage in scrub(store))
    assert {path: path.read_bytes() for path in raws} == raws
    assert verify(store) == []


def test_what_no_copy_has_is_named(tmp_path: Path) -> None:
    store = several(tmp_path, 2, 2)
    store.put("a", {"x": np.arange(300.0)})
    name = next(store.tree("a").blocks()).digest
    for path in blocks(store):
        if path.name == name:
            path.unlink()
    assert [(d.what, d.holds, d.mended) for d in scrub(store)] == [
        ("missing", ("a: x bytes 0:1,000",), False)
    ]


def test_a_place_that_comes_gets_its_share_and_the_others_lose_it(tmp_path: Path) -> None:
    store = several(tmp_path, 3, 2)
    store.put("a", ARRAYS)
    count = len(blocks(store))
    wide = Store([*[p.address for p in store.places], tmp_path / "3"], block_bytes=1000)
    assert wide.replicas == 2
    dry = scrub(wide, dry_run=True)
    assert {damage.what for damage in dry} == {"missing"}
    assert not [*(tmp_path / "3" / "blocks").glob("*/*")]
    scrub(wide)
    scrub(wide)
    assert verify(wide) == [] and len(blocks(wide)) == count
    assert [*(tmp_path / "3" / "blocks").glob("*/*")]
    same(Store(tmp_path / "3").get("a"))


def test_a_place_that_is_lost_for_ever_is_made_up_for(tmp_path: Path) -> None:
    store = several(tmp_path, 3, 2)
    store.put("a", ARRAYS)
    shutil.rmtree(tmp_path / "1")
    rest = Store([tmp_path / "0", tmp_path / "2"])
    assert all(damage.mended for damage in scrub(rest))
    shutil.rmtree(tmp_path / "2")
    same(Store(tmp_path / "0").get("a"))


def test_garbage_is_what_no_name_refers_to_and_is_old(tmp_path: Path) -> None:
    store = Store(tmp_path, block_bytes=1000)
    store.put("a", ARRAYS)
    store.put("b", ARRAYS | {"large": ARRAYS["large"] + 1})
    whole = len(blocks(store))
    store.delete("b")
    assert gc(store) == (0, 0)
    dry = gc(store, age_seconds=0, dry_run=True)
    assert dry[0] and len(blocks(store)) == whole
    assert gc(store, age_seconds=0) == dry
    assert len(blocks(store)) == whole - dry[0]
    same(store.get("a"))


def test_records_of_deleted_names_go_when_no_host_has_the_name(tmp_path: Path) -> None:
    store = several(tmp_path, 3, 2)
    for name in "ab":
        store.put(name, {"x": np.zeros(3)})
    away = tmp_path / "1"
    away.rename(tmp_path / "away")
    store.delete("a")
    (tmp_path / "away").rename(away)
    store.delete("b")
    gc(store, age_seconds=0)
    assert len([*tmp_path.glob("*/refs/a")]) == 3  # one of which says that it is there
    assert [*tmp_path.glob("*/refs/b")] == []
    assert [(damage.what, damage.mended) for damage in scrub(store)] == [("old", True)]
    gc(store, age_seconds=0)
    assert [*tmp_path.glob("*/refs/*")] == [] and blocks(store) == []


def test_a_store_goes_on_after_a_full_disk_and_a_collection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path, block_bytes=1000)
    with monkeypatch.context() as patch, pytest.raises(OSError, match="full"):
        patch.setattr(store, "sync", lambda: exec("raise OSError('full')"))
        store.put("a", ARRAYS)
    assert gc(store, age_seconds=0)[0] > 30
    store.put("a", ARRAYS)
    same(store.get("a"))


def test_nothing_is_deleted_while_somebody_writes_or_a_tree_is_unknown(tmp_path: Path) -> None:
    store = several(tmp_path, 2, 1)
    store.put("a", ARRAYS)
    with store.writing(), pytest.raises(StateError, match="being written"):
        gc(store, age_seconds=0)
    tree = store.ref("a")
    assert tree is not None and tree.tree is not None
    (path,) = [path for path in blocks(store) if path.name == tree.tree.digest]
    path.write_bytes(b"")
    with pytest.raises(StateError, match="may refer to any block"):
        gc(Store(tmp_path / "0"), age_seconds=0)
    shutil.move(tmp_path / "1", tmp_path / "away")
    with pytest.raises(StateError, match="cannot be asked"):
        gc(store, age_seconds=0)


def test_sizes_of_what_is_shared_and_of_its_own(tmp_path: Path) -> None:
    store = Store(tmp_path, block_bytes=1000)
    x = np.arange(500.0)
    store.put("a", {"x": x})
    store.put("b", {"x": x, "y": x + 1})
    a, b, whole = du(store)
    assert (a.size_bytes, a.stored_bytes, a.own_bytes) == (4000, 4000, 0)
    assert (b.size_bytes, b.stored_bytes, b.own_bytes) == (8000, 8000, 4000)
    assert whole == ("", 12_000, 8000, 8000)


def test_progress_is_told(tmp_path: Path) -> None:
    store = Store(tmp_path, block_bytes=1000)
    store.put("a", ARRAYS)
    told: list[tuple[int, int]] = []
    verify(store, progress=lambda count, size: told.append((count, size)))
    sizes = [path.stat().st_size for path in blocks(store)]
    assert told[-1] == (len(sizes), sum(sizes))
