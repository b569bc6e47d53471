"""Transfers of trees to a device and back."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.eager import registry
from tfn.errors import DeletedArrayError, TracerArrayConversionError
from tfn.trace.mesh import AbstractMesh


def test_there_and_back() -> None:
    tree = {"w": np.arange(3, dtype=np.float32), "n": [1, None, True]}
    there = tfn.device_put(tree)
    assert isinstance(there["w"], tfn.Array) and there["n"][0].weak_type
    back = tfn.device_get(there)
    assert isinstance(back["w"], np.ndarray) and back["w"].tolist() == [0, 1, 2]
    assert back["n"][1] is None and back["n"][2].dtype == bool and not back["w"].flags.writeable


def test_traced_arrays_have_no_data() -> None:
    with pytest.raises(TracerArrayConversionError):
        tfn.jit(lambda x: tfn.device_get([x]))(tnp.ones(2))


def test_waiting_gives_the_tree_itself() -> None:
    x = tnp.ones(3) * 2
    tree = {"x": x, "other": [1, "text", None]}
    assert tfn.block_until_ready(tree) is tree and tfn.block_until_ready(x) is x
    assert tfn.jit(tfn.block_until_ready)(x).tolist() == [2, 2, 2]
    x.delete()
    with pytest.raises(DeletedArrayError):
        tfn.block_until_ready(x)


def test_waiting_is_for_the_programs_of_all_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that the host steps has taken a program when a call returns, and not run it."""
    waited: list[int] = []
    late = SimpleNamespace(queue=SimpleNamespace(synchronize=lambda: waited.append(1)))
    monkeypatch.setitem(registry.DEVICES, "late", late)
    x = tnp.ones(3)
    assert x.block_until_ready() is x and len(waited) == 1
    assert tfn.block_until_ready(x) is x and len(waited) == 2
    tfn.block_until_ready({"x": x})
    tfn.effects_barrier()
    assert len(waited) == 4
    tfn.jit(lambda x: x.block_until_ready())(x)
    assert len(waited) == 4, "nothing runs while a function is traced"


def test_a_sharding_over_no_axes_leaves_arrays_where_they_are() -> None:
    """In JAX the type of an array that is nowhere in particular has one."""
    nowhere = tfn.NamedSharding(AbstractMesh((), ()), tfn.P())
    for f in (tfn.device_put, tfn.lax.with_sharding_constraint, tfn.reshard):
        for g in (f, tfn.jit(f, static_argnums=1)):
            x = g(tnp.ones(2), nowhere)
            assert not x.committed and x.tolist() == [1.0, 1.0]
