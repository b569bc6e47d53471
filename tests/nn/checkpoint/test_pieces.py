"""Pieces: each part of each array once, among any hosts; and loading on any other mesh."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tfn
from tfn import numpy as jnp
from tfn import random, tree
from tfn.config import config
from tfn.errors import ArgumentError, DeletedArrayError
from tfn.nn.checkpoint import Checkpoints, read
from tfn.nn.checkpoint.files import Reader
from tfn.nn.checkpoint.pieces import MOST_KEY_WORDS, bounds, hold
from tfn.nn.hosts import Hosts
from tfn.sharding import NamedSharding, make_mesh
from tfn.sharding import PartitionSpec as P

pytestmark = pytest.mark.usefixtures("compiled")

MESHES = ((1,), (2,), (4,), (2, 2), (8,))
DTYPES = ("float32", "bfloat16", "float16", "bool", "int8", "uint64", "complex64", "float64")
OF_NUMPY = (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)
ALONE = Hosts(0, 1)


@pytest.fixture(autouse=True, scope="module")
def _devices() -> Iterator[None]:
    before = config.devices
    config.devices = 8
    yield
    config.devices = before


def mesh_of(sizes: tuple[int, ...]) -> Any:
    return make_mesh(sizes, ("x", "y")[: len(sizes)])


def two_hosts(index: int) -> Hosts:
    """The eight devices as those of two hosts."""
    return Hosts(index, 2, lambda device: device.id // 4)


def sharding(draw: Any, sizes: tuple[int, ...], shape: tuple[int, ...]) -> NamedSharding:
    """A division of an array over a mesh that its sizes allow."""
    mesh, free = mesh_of(sizes), ["x", "y"][: len(sizes)]
    spec: list[Any] = []
    for n in shape:
        options: list[Any] = [None]
        options += [a for a in free if n % mesh.shape[a] == 0]
        if len(free) == 2 and n % prod(sizes) == 0:
            options.append(("x", "y"))
        chosen = draw(st.sampled_from(options))
        free = [a for a in free if a != chosen and not isinstance(chosen, tuple)]
        spec.append(chosen)
    return NamedSharding(mesh, P(*spec))


@st.composite
def leaves(draw: Any) -> tuple[Any, Any]:
    """A leaf on one mesh, and a template of it on another."""
    kind = draw(st.sampled_from(["array", "array", "array", "numpy", "number", "key", "alone"]))
    if kind == "number":
        x = draw(st.sampled_from([True, False, 0, -3, 2**62, 0.5, -0.0, float("inf")]))
        return x, type(x)(0)
    if kind == "key":
        return random.split(random.key(draw(st.integers(0, 9)))), random.split(random.key(99))
    shape = tuple(draw(st.lists(st.sampled_from([0, 1, 2, 3, 4, 8]), max_size=3)))
    seed = draw(st.integers(0, 2**32 - 1))
    raw = np.random.default_rng(seed).integers(-3, 3, shape)
    if kind == "numpy":
        data = raw.astype(draw(st.sampled_from(OF_NUMPY)))
        return data, np.zeros_like(data)
    data = jnp.asarray(raw.astype(np.dtype(draw(st.sampled_from(DTYPES)))))
    if kind == "alone":
        return data, tfn.device_put(jnp.zeros_like(data), tfn.devices()[3])
    one, other = (sharding(draw, draw(st.sampled_from(MESHES)), shape) for _ in range(2))
    like: Any = tfn.ShapeDtypeStruct(shape, data.dtype, sharding=other)
    if draw(st.booleans()):
        like = tfn.device_put(jnp.zeros_like(data), other)
    return tfn.device_put(data, one), like


def bits(x: Any) -> Any:
    return type(x), (np.asarray(x).dtype, np.asarray(x).shape, np.asarray(x).tobytes())


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(pairs=st.lists(leaves(), max_size=5))
def test_any_tree_on_any_mesh_comes_back_on_any_other(pairs: Any, tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.clear()
    values, like = [x for x, _ in pairs], {"a": [x for _, x in pairs]}
    checkpoints.save(1, {"a": values})
    step, actual = checkpoints.resume(like)
    assert step == 1
    for x, y, z in zip(*map(tree.leaves, (values, actual["a"], like)), strict=True):
        assert bits(x) == bits(y)
        if isinstance(x, tfn.Array):
            expected = getattr(z, "sharding", None)
            assert not isinstance(expected, NamedSharding) or y.sharding == expected


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_hosts_write_each_element_once(data: Any) -> None:
    shape = (8, 4)
    divided = {
        str(i): tfn.device_put(
            jnp.arange(32.0).reshape(shape) + i,
            sharding(data.draw, data.draw(st.sampled_from(MESHES[1:])), shape),
        )
        for i in range(4)
    }
    alone = {"n": 3, "b": np.ones(3), "c": jnp.ones(5)}
    count = data.draw(st.sampled_from([1, 2, 4]))
    seen = {name: np.zeros(shape, int) for name in divided}
    for index in range(count):
        hosts = Hosts(index, count, lambda device: device.id * count // 8)
        held = hold(divided | alone, hosts, copy=False)
        for part in held.owned:
            if part.array not in divided:
                assert index == 0  # all hosts have it, and take it for the same
                continue
            at = tuple(
                slice(a, a + n) for a, n in zip(part.piece.start, part.piece.shape, strict=True)
            )
            seen[part.array][at] += 1
            np.testing.assert_array_equal(part.read(), np.asarray(divided[part.array])[at])
    assert all((times == 1).all() for times in seen.values())


def test_copies_are_shared_out_evenly() -> None:
    """What all devices have is written by the host with the least to write."""
    copied = NamedSharding(mesh_of((8,)), P())
    sizes = [100, 90, 50, 40, 30, 20, 10]
    values = [tfn.device_put(jnp.zeros(n), copied) for n in sizes]
    written = [
        sum(prod(p.shape) for p in hold(values, two_hosts(i), copy=False).owned) for i in (0, 1)
    ]
    assert sum(written) == sum(sizes)
    assert abs(written[0] - written[1]) <= 10


def test_what_is_held_is_not_copied() -> None:
    x = tfn.device_put(jnp.arange(64.0).reshape(8, 8), NamedSharding(mesh_of((4,)), P("x")))
    held = hold({"x": x}, ALONE, copy=True)
    whole = np.asarray(x.addressable_shards[0].data)
    assert held.owned[0].read().ctypes.data == whole.ctypes.data


def test_a_donation_does_not_change_what_is_held() -> None:
    grow = tfn.jit(lambda x: x + 1, donate_argnums=0)
    for place in (tfn.devices()[0], NamedSharding(mesh_of((4,)), P("x"))):
        x = tfn.device_put(jnp.zeros(4096), place)
        held = hold({"x": x}, ALONE, copy=True)
        for _ in range(3):
            x = grow(x)
        assert not any(part.read().any() for part in held.owned)
        assert (np.asarray(x) == 3).all()
        gone = tfn.device_put(jnp.zeros(4096), place)
        grow(gone)
        with pytest.raises(DeletedArrayError):
            hold({"x": gone}, ALONE, copy=True)


def test_arrays_of_numpy_are_copied_if_they_may_change() -> None:
    x = np.zeros(3)
    held, kept = hold([x], ALONE, copy=False), hold([x], ALONE, copy=True)
    x[:] = 1
    assert held.owned[0].read()[0] == 1
    assert kept.owned[0].read()[0] == 0


def test_a_process_reads_only_what_its_devices_need(tmp_path: Path) -> None:
    """Rows are read to the byte; of columns pages that lie between are read, too."""
    shape = (64, 4096)
    x = np.arange(prod(shape), dtype=np.float32).reshape(shape)
    checkpoints = Checkpoints(tmp_path)
    divided = tfn.device_put(x, NamedSharding(mesh_of((8,)), P("x")))
    checkpoints.save(1, {"x": divided})
    path = checkpoints.path(1)
    for other, share in ((P("x"), 1), (P(("x", "y")), 1), (P("y"), 2), (P(None, "y"), 2)):
        place = NamedSharding(mesh_of((2, 2)), other)
        with Reader(path, read(path)) as reader:
            boxes = {
                bounds(index, shape)
                for device, index in place.devices_indices_map(shape).items()
                if device.id < 2
            }
            for start, local in boxes:
                at = tuple(slice(a, a + n) for a, n in zip(start, local, strict=True))
                np.testing.assert_array_equal(reader.part("x", (start, local)), x[at])
            needed = sum(prod(local) for _, local in boxes) * 4
            assert reader.bytes_read == needed, other
            assert needed == x.nbytes // (2 // share), other


def test_names_that_would_be_one(tmp_path: Path) -> None:
    x = tfn.device_put(jnp.zeros(8), NamedSharding(mesh_of((8,)), P("x")))
    with pytest.raises(ArgumentError, match="one name"):
        Checkpoints(tmp_path).save(1, {"x": x, "x[0:1]": jnp.zeros(1)})
    with pytest.raises(ArgumentError, match="surrogate"):
        hold({"\ud800": x}, ALONE, copy=False)
    for bad in ("text", 2**70, object()):
        with pytest.raises(ArgumentError, match="only arrays and numbers"):
            hold({"x": bad}, ALONE, copy=False)


def test_many_keys_are_an_array() -> None:
    few, many = random.split(random.key(0), 2), random.split(random.key(0), MOST_KEY_WORDS)
    held = hold({"few": few, "many": many}, ALONE, copy=False)
    assert list(held.keys) == ["few.0"]
    assert [part.array for part in held.owned] == ["many.0"]
