"""The program of one device and that of all devices of a process."""

from __future__ import annotations

import numpy as np
import pytest

import tfn
from tests.transforms.shard.test_partition import stack
from tfn.errors import ArgumentError
from tfn.trace import oracle
from tfn.trace.jaxpr import Jaxpr, param
from tfn.trace.sharding import Axis, Partition
from tfn.transforms.shard.program import mesh_of, partition, stacked

MESH = (Axis("one", 1), Axis("x", 2), Axis("single", 1))


def scaled() -> Jaxpr:
    """A function of an array and a factor."""
    f = lambda x, scale: (x * scale, x.sum(0))
    return tfn.make_jaxpr(f)(np.ones((4, 6), np.float32), np.float32(2))


def test_axes_of_one_device_are_axes_of_stacks() -> None:
    given = Partition(MESH, (("x", "one"), ("single",))), Partition(MESH, ())
    program, (product, total) = stacked(scaled(), given)
    assert [p.shape for p in program.params] == [(1, 2, 1, 2, 6), ()]
    assert product == given[0] and total.names == ()
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    values = dict(zip(map(param, program.params), [stack(x, given[0]), np.float32(3)]))
    whole, rows = oracle.evaluate(program.outputs, values)
    np.testing.assert_array_equal(whole, stack(x * 3, given[0]))
    np.testing.assert_array_equal(rows, x.sum(0))


def test_both_programs_come_from_one_division() -> None:
    jaxpr, given = scaled(), (Partition(MESH, (("x",), ())), None)
    whole = partition(jaxpr, given)
    assert whole is partition(jaxpr, given)
    assert [p.shape for p in whole.spmd.params] == [(2, 6), (), (), (), ()]
    assert stacked(jaxpr, given)[1] == whole.results


def test_a_function_has_one_mesh() -> None:
    assert mesh_of(scaled().function, [None, None]) is None
    assert mesh_of(scaled().function, [Partition(MESH, ((), ())), None]) == MESH
    other = Partition((Axis("y", 2),), ())
    with pytest.raises(ArgumentError, match="different meshes"):
        mesh_of(scaled().function, [Partition(MESH, ((), ())), other])
