"""Batches: which rows, in which order, from where; and threads that end."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfn
from tfn import numpy as jnp
from tfn import random
from tfn.config import config
from tfn.errors import ArgumentError, ShapeError
from tfn.nn.data import Batches, Position
from tfn.nn.hosts import Hosts
from tfn.sharding import NamedSharding
from tfn.sharding import PartitionSpec as P

KEY = random.key(5)
ARRAYS = {"x": np.arange(23)[:, None] * np.ones(2, int), "y": np.arange(23)}


def rows(stream: Any, count: int | None = None) -> list[list[int]]:
    return [batch["y"].tolist() for batch in itertools.islice(stream, count)]


def test_an_epoch_holds_each_row_once() -> None:
    batches = Batches(ARRAYS, 4, KEY)
    assert len(batches) == 5
    first, second = (
        [y for batch in rows(batches.stream(Position(e, 0), epochs=e + 1)) for y in batch]
        for e in (0, 1)
    )
    assert len(set(first)) == len(set(second)) == 20
    assert first != second
    assert sorted(first) != first
    for batch in batches.stream(epochs=1):
        np.testing.assert_array_equal(batch["x"][:, 0], batch["y"])


def test_the_key_determines_the_order() -> None:
    one, again, other = (
        rows(Batches(ARRAYS, 5, key).stream(epochs=2)) for key in (KEY, KEY, random.key(6))
    )
    assert one == again != other
    assert len({tuple(map(tuple, one[:4])), tuple(map(tuple, one[4:]))}) == 2
    assert rows(Batches(ARRAYS, 8).stream(epochs=2)) == [list(range(8)), list(range(8, 16))] * 2


@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_from_every_position(ahead: int) -> None:
    batches = Batches(ARRAYS, 6, KEY)
    whole = rows(batches.stream(epochs=3))
    assert len(whole) == 9
    stream = batches.stream(epochs=3, ahead=ahead)
    for n in range(9):
        assert stream.position == Position(*divmod(n, 3))
        with batches.stream(stream.position, epochs=3, ahead=ahead) as later:
            assert rows(later) == whole[n:]
        assert next(stream)["y"].tolist() == whole[n]
    assert stream.position == Position(3, 0)
    assert rows(stream) == rows(stream) == []


def test_files_that_are_mapped(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, ARRAYS["x"])
    mapped = {"x": np.load(path, mmap_mode="r"), "y": ARRAYS["y"]}
    for a, b in zip(
        Batches(mapped, 4, KEY).stream(epochs=2),
        Batches(ARRAYS, 4, KEY).stream(epochs=2),
        strict=True,
    ):
        np.testing.assert_array_equal(a["x"], b["x"])


def test_windows_of_a_text() -> None:
    text = np.arange(100, dtype=np.uint8)
    windows = np.lib.stride_tricks.sliding_window_view(text, 9)
    actual = next(Batches(windows, 4, KEY).stream())
    assert actual.shape == (4, 9)
    np.testing.assert_array_equal(actual - actual[:, :1], np.tile(np.arange(9), (4, 1)))


def test_arrays_may_be_ours() -> None:
    actual = next(Batches(jnp.arange(10), 3).stream())
    assert actual.tolist() == [0, 1, 2]


def test_transform_and_its_errors_come_through() -> None:
    def halve(batch: Any) -> Any:
        assert isinstance(batch["y"], np.ndarray)
        if batch["y"][0] >= 8:
            raise ZeroDivisionError("here")
        return {"y": batch["y"] / 2}

    stream = Batches(ARRAYS, 4, transform=halve).stream()
    assert rows(stream, 2) == [[0, 0.5, 1, 1.5], [2, 2.5, 3, 3.5]]
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="here"):
            next(stream)
    assert stream.position == Position(0, 2)


@pytest.mark.parametrize("used", [0, 1, 7])
@pytest.mark.parametrize("ahead", [1, 2])
def test_threads_end(used: int, ahead: int) -> None:
    before = set(threading.enumerate())
    with Batches(ARRAYS, 4, KEY).stream(epochs=3, ahead=ahead) as stream:
        assert len(rows(stream, used)) == used
    assert rows(stream) == []
    forgotten = Batches(ARRAYS, 4, KEY).stream(ahead=ahead)
    next(forgotten)
    (thread,) = set(threading.enumerate()) - before
    del forgotten
    thread.join(5)
    assert not thread.is_alive()


def test_a_process_ends_although_a_stream_is_open() -> None:
    script = (
        "import numpy as np; from tfn.nn.data import Batches; "
        "stream = Batches(np.arange(9), 2).stream(); next(stream); other = Batches(np.arange(9), 2)"
        ".stream(); print(stream.position)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "Position(epoch=0, batch=1)\n"), ended.stderr
    assert ended.stderr == ""


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6, 12])
@pytest.mark.parametrize("key", [None, KEY])
def test_a_batch_is_the_same_on_any_number_of_hosts(count: int, key: Any) -> None:
    """The parts of the hosts make up the batch of one, wherever the run goes on."""
    arrays = {"y": np.arange(101)}
    alone = rows(Batches(arrays, 12, key).stream(epochs=2))
    hosts = [Batches(arrays, 12, key, hosts=Hosts(i, count)) for i in range(count)]
    parts = [rows(batches.stream(epochs=2)) for batches in hosts]
    assert [[*itertools.chain(*batch)] for batch in zip(*parts, strict=True)] == alone
    assert all(len(batch) == 12 // count for part in parts for batch in part)
    for i, batches in enumerate(hosts):
        with batches.stream(Position(1, 3), epochs=2) as later:
            assert rows(later) == parts[i][11:]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_each_host_reads_the_rows_of_its_devices(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "devices", 8)
    mesh = tfn.make_mesh((4, 2), ("data", "model"), tfn.sharding.AxisType.Auto)
    (whole,) = rows(Batches(ARRAYS, 8, KEY).stream(epochs=1), 1)
    for spec in (P("data"), P("model"), P(("model", "data")), P(), P(None, "model")):
        place = NamedSharding(mesh, spec)
        divided = NamedSharding(mesh, P(*spec[:1])).devices_indices_map((8,))
        for host in range(count):
            hosts = Hosts(host, count, lambda device: device.id * count // 8)
            own = Batches(ARRAYS, 8, KEY, sharding=place, hosts=hosts).own
            expected = {
                row
                for device, index in divided.items()
                if device.id * count // 8 == host
                for row in whole[index[0]]
            }
            assert sorted(np.asarray(whole)[own].tolist()) == sorted(expected)


def test_batches_on_a_mesh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "devices", 4)
    place = NamedSharding(
        tfn.make_mesh((2, 2), ("data", "model"), tfn.sharding.AxisType.Auto), P("data", "model")
    )
    plain = Batches(ARRAYS, 4, KEY)
    halved = lambda batch: {"x": batch["x"] / 2, "y": batch["y"]}
    for transform in (None, halved):
        batches = Batches(ARRAYS, 4, KEY, transform, sharding=place)
        for a, b in zip(plain.stream(epochs=1), batches.stream(epochs=1), strict=True):
            assert b["x"].sharding == place
            assert b["y"].sharding.spec == P("data")
            np.testing.assert_array_equal(a["y"], b["y"])
            np.testing.assert_array_equal(a["x"], b["x"] * (2 if transform else 1))


def test_batches_that_do_not_divide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "devices", 4)
    with pytest.raises(ArgumentError, match="divided among the hosts"):
        Batches(ARRAYS, 4, hosts=Hosts(0, 3))
    place = NamedSharding(tfn.make_mesh((4,), "data", tfn.sharding.AxisType.Auto), P("data"))
    with pytest.raises(ShapeError, match="6"):
        Batches(ARRAYS, 6, sharding=place)
    with pytest.raises(ArgumentError, match="no device"):
        Batches(ARRAYS, 4, sharding=place, hosts=Hosts(1, 2))
    with pytest.raises(ArgumentError, match="hosts are numbered"):
        Hosts(2, 2)
    with pytest.raises(ArgumentError, match="shuffle"):
        Batches(ARRAYS, 4, shuffle="all")  # type: ignore[arg-type]


def test_the_order_of_tfn_0_1() -> None:
    batches = Batches({"y": np.arange(23)}, 4, KEY, shuffle="sorted")
    order = np.asarray(random.permutation(random.fold_in(KEY, 1), 23))
    assert rows(batches.stream(Position(1, 2)), 1) == [order[8:12].tolist()]


def test_wrong_arguments_raise() -> None:
    with pytest.raises(ShapeError, match="one length"):
        Batches({"x": np.ones(3), "y": np.ones(4)}, 2)
    for size in (0, 24):
        with pytest.raises(ArgumentError, match="one row or more") as caught:
            Batches(ARRAYS, size)
        assert caught.value.where.endswith("Batches(ARRAYS, size)")


@pytest.mark.parametrize(
    "position", [(0, 5), (0, -1), (-1, 0), (0, 1.5), (0, None), (0,), None, "ab"]
)
def test_a_position_of_other_data_is_refused(position: Any) -> None:
    """A batch beyond the last would be skipped without a word, one before the first be empty."""
    with pytest.raises(ArgumentError, match="a batch that there is"):
        Batches(ARRAYS, 4, KEY).stream(position)


def test_a_position_of_other_integers() -> None:
    batches = Batches(ARRAYS, 4, KEY)
    stream = batches.stream(Position(np.int64(1), jnp.asarray(2)))  # type: ignore[arg-type]
    assert stream.position == Position(1, 2)
    assert rows(stream, 1) == rows(batches.stream(Position(1, 2)), 1)
