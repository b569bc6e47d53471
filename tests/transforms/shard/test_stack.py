"""The devices of a process as axes of one program."""

from __future__ import annotations

import numpy as np

import tfn
from tests.transforms.shard.test_partition import stack
from tfn.trace import oracle
from tfn.trace.jaxpr import param
from tfn.trace.op import MANUAL, Op
from tfn.trace.sharding import Axis, Partition
from tfn.trace.uop import walk
from tfn.transforms.shard.program import partition, stacked

MESH = (Axis("x", 2), Axis("y", 4))


def test_exchanges_become_reductions_of_stacks() -> None:
    a, b = np.ones((8, 12), np.float32), np.arange(72, dtype=np.float32).reshape(12, 6)
    jaxpr = tfn.make_jaxpr(lambda a, b: a @ b)(a, b)
    given = Partition(MESH, (("x",), ("y",))), Partition(MESH, (("y",), ()))
    whole = partition(jaxpr, given)
    assert [p.shape for p in whole.spmd.params] == [(4, 3), (3, 6), (), ()]
    program, _ = stacked(jaxpr, given)
    assert [p.shape for p in program.params] == [(2, 4, 4, 3), (4, 3, 6)]
    ops = {u.op for u in walk(program.outputs)}
    assert not ops & MANUAL and Op.REDUCE not in ops  # it is part of the product
    stacks = [stack(x, arg) for x, arg in zip((a, b), given, strict=True)]
    (out,) = oracle.evaluate(program.outputs, dict(zip(map(param, program.params), stacks)))
    np.testing.assert_allclose(out.reshape(8, 6), a @ b)


def test_what_is_the_same_everywhere_is_computed_once() -> None:
    w = np.ones((4, 4), np.float32)
    jaxpr = tfn.make_jaxpr(lambda x, w: x @ tfn.numpy.tanh(w))(np.ones((8, 4), np.float32), w)
    given = Partition(MESH, (("x",), ())), Partition(MESH, ((), ()))
    program, _ = stacked(jaxpr, given)
    (tanh,) = [u for u in walk(program.outputs) if u.op is Op.TANH]
    assert tanh.shape == (4, 4)
