"""Checkpoints in a store: the same as those in folders, and nothing twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfn
from tests.nn.store.test_repository import blocks
from tfn import numpy as jnp
from tfn.config import config
from tfn.errors import ArgumentError, DamagedError, StateError
from tfn.nn.checkpoint import Checkpoints, __main__, load, read, to_checkpoint, to_file, verify
from tfn.nn.data import Position
from tfn.nn.hosts import Hosts
from tfn.nn.store import Store
from tfn.random import key
from tfn.sharding import NamedSharding
from tfn.sharding import PartitionSpec as P


@pytest.fixture(autouse=True)
def _devices() -> Iterator[None]:
    before = config.devices
    yield
    config.devices = before


def tree_of(step: int) -> dict[str, Any]:
    large = np.arange(3000.0)
    return {
        "fixed": large,
        "w": large + step,
        "b": {"n": step, "s": np.ones(2) * step},
        "k": key(1),
    }


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_newest_are_kept_and_the_rest_is_garbage(asynchronous: bool, tmp_path: Path) -> None:
    store = Store(tmp_path, block_bytes=1000)
    with Checkpoints("run", keep=2, asynchronous=asynchronous, store=store, timeout_s=0.0) as run:
        assert run.resume({"n": 0}) == (0, {"n": 0})
        for step in (10, 20, 30, 40):
            run.save(step, tree_of(step), metadata={"k": "v"})
    assert run.steps() == [30, 40] == Checkpoints("run", store=tmp_path).steps()
    step, found = Checkpoints("run", store=tmp_path).resume(tree_of(0))
    assert step == 40 and found["b"]["n"] == 40
    np.testing.assert_array_equal(found["w"], tree_of(40)["w"])
    assert len(blocks(store)) == 24 + 2 * (24 + 2)  # garbage of the first is gone
    run.clear()
    assert store.ls() == []


def test_what_has_not_changed_is_a_reference(tmp_path: Path) -> None:
    store = Store(tmp_path)
    layers = {str(i): np.random.default_rng(i).normal(size=40_000) for i in range(8)}
    first = Checkpoints("first", store=store)
    first.save(1, layers)
    size = lambda: sum(path.stat().st_size for path in blocks(store))
    total, before = sum(x.nbytes for x in layers.values()), size()
    first.save(2, layers)
    Checkpoints("second", store=store).save(9, layers)
    assert size() - before < 0.01 * total
    before = size()
    first.save(3, layers | {str(i): layers[str(i)] + 1 for i in range(4)})
    assert 0.5 * total < size() - before < 0.51 * total


@pytest.mark.parametrize("in_store", [False, True])
def test_some_steps_are_kept_for_ever(in_store: bool, tmp_path: Path) -> None:
    where = {"folder": "run", "store": tmp_path} if in_store else {"folder": tmp_path}
    run = Checkpoints(**where, keep=2, keep_every=20)  # type: ignore[arg-type]
    for step in range(10, 80, 10):
        run.save(step, tree_of(step))
    assert run.steps() == [20, 40, 60, 70]
    with pytest.raises(ArgumentError, match="keep_every"):
        Checkpoints(**where, keep_every=0).save(90, tree_of(0))  # type: ignore[arg-type]


def test_pinned_steps_are_kept(tmp_path: Path) -> None:
    run = Checkpoints("a/run", keep=1, store=tmp_path)
    for step in (1, 2, 3):
        run.save(step, tree_of(step))
        if step == 1:
            Store(tmp_path).pin("a/run/step-000000001")
    assert run.steps() == [1, 3]


def test_damaged_ones_are_passed_over(tmp_path: Path) -> None:
    run = Checkpoints("run", store=Store(tmp_path, block_bytes=1000))
    for step in (1, 2):
        run.save(step, tree_of(step))
    others = {b.digest for b in Store(tmp_path).tree("run/step-000000001").blocks()}
    own = {b.path for b in Store(tmp_path).tree("run/step-000000002").blocks()}
    path = next(tmp_path / path for path in sorted(own) if path[-64:] not in others)
    path.write_bytes(b"!" + path.read_bytes()[1:])
    with pytest.raises(DamagedError, match="step-000000002: w bytes"):
        verify(run.path(2))
    with pytest.warns(UserWarning, match="step 2 in run is passed over"):
        step, found = run.resume(tree_of(0))
    assert step == 1 and found["b"]["n"] == 1


def test_meshes_share_blocks_and_any_mesh_reads_them(tmp_path: Path) -> None:
    config.devices = 4
    x = np.arange(64.0 * 64).reshape(64, 64)
    rows = NamedSharding(tfn.make_mesh((4,), "x"), P("x"))
    tiles = NamedSharding(tfn.make_mesh((2, 2), ("x", "y")), P("x", "y"))
    store = Store(tmp_path, block_bytes=1000)
    run = Checkpoints("run", store=store)
    run.save(1, {"w": tfn.device_put(jnp.asarray(x), rows)})
    before = len(blocks(store))
    run.save(2, {"w": tfn.device_put(jnp.asarray(x), tiles)})
    assert len(blocks(store)) == before + 1  # a tree
    assert read(run.path(2)).arrays["w"].spec == (("x",), ("y",))
    for step, other in ((1, tiles), (2, rows)):
        like = {"w": tfn.ShapeDtypeStruct((64, 64), "float64", sharding=other)}
        found = load(run.path(step), like)["w"]
        assert found.sharding.spec == other.spec
        np.testing.assert_array_equal(found, x)


def test_hosts_save_together(tmp_path: Path) -> None:
    config.devices = 2
    spread = NamedSharding(tfn.make_mesh((2,), "x"), P("x"))
    x = tfn.device_put(jnp.arange(8.0), spread)
    Store(tmp_path)

    def save(index: int) -> None:
        hosts = Hosts(index, 2, lambda device: device.id % 2)
        Checkpoints("run", store=tmp_path, hosts=hosts, timeout_s=60).save(5, {"w": x, "n": 3})

    threads = [threading.Thread(target=save, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [p.shape for p in read(tmp_path / "run" / "step-000000005").arrays["w"].pieces] == [
        (4,),
        (4,),
    ]
    step, found = Checkpoints("run", store=tmp_path).resume({"w": np.zeros(8, "float32"), "n": 0})
    assert (step, found["w"].tolist(), found["n"]) == (5, [*range(8)], 3)


def test_conversions_and_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    tree = tree_of(7)
    Checkpoints(tmp_path / "plain").save(7, tree)
    Store(tmp_path / "s")
    stored = to_checkpoint(
        tmp_path / "plain" / "step-000000007", tmp_path / "s" / "a" / "run", files=3
    )
    assert stored == tmp_path / "s" / "a" / "run" / "step-000000007"
    to_file(stored, tmp_path / "one.safetensors")
    back = to_checkpoint(tmp_path / "one.safetensors", tmp_path / "back")
    for path in (stored, back):
        found = load(path, tree_of(0))
        assert found["b"]["n"] == 7
        np.testing.assert_array_equal(found["w"], tree["w"])
    with pytest.raises(ArgumentError, match="already"):
        to_checkpoint(back, tmp_path / "s" / "a" / "run")
    for place in ("s", "s/a/run", "s/a/run/step-000000007"):
        assert __main__.main(["ls", str(tmp_path / place)]) == 0
        text = capsys.readouterr().out
        assert "whole" in text and "7" in text
        assert __main__.main(["verify", str(tmp_path / place)]) == 0
        assert "whole" in capsys.readouterr().out
    assert __main__.main(["ls", str(tmp_path / "s")]) == 0
    assert "a/run/step-000000007" in capsys.readouterr().out
    for wrong in ("s/a/ru", "s/a/run/step-000000008", "none"):
        for command in ("ls", "verify"):
            assert __main__.main([command, str(tmp_path / wrong)]) == 2
    with pytest.raises(ArgumentError, match="is a store"):
        to_checkpoint(back, tmp_path / "s")
    next(path for path in blocks(Store(tmp_path / "s")) if path.stat().st_size > 20_000).unlink()
    assert __main__.main(["verify", str(tmp_path / "s")]) == 1
    assert "gone" in capsys.readouterr().out
    with pytest.raises(StateError, match="the store has no"):
        load(tmp_path / "s" / "a" / "other")


def test_positions_of_data_are_part_of_it(tmp_path: Path) -> None:
    run = Checkpoints("run", store=tmp_path)
    run.save(1, {"at": Position(2, 5)})
    assert run.resume({"at": Position()}) == (1, {"at": Position(2, 5)})
    assert run.restore(step=1) == {"at.epoch": 2, "at.batch": 5}
