"""The devices of a process as axes of one program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import tfn
from tests import covering
from tests.transforms.shard.table import TABLE, Row
from tests.transforms.shard.test_partition import MESHES, divisions, stack
from tfn.config import config
from tfn.sharding import AxisType, NamedSharding
from tfn.trace import oracle
from tfn.trace.jaxpr import Jaxpr, param
from tfn.trace.named_sharding import spec_of
from tfn.trace.op import MANUAL, Op
from tfn.trace.sharding import Axis, Exchange, Partition
from tfn.trace.uop import UOp, walk
from tfn.transforms.shard.program import partition, stacked

pytestmark = pytest.mark.usefixtures("compiled")
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


# Bits.


@pytest.fixture(scope="module")
def batch_invariant() -> Iterator[None]:
    """Sums have an order of their own, for all tests here: a change forgets every program."""
    before, config.batch_invariant = config.batch_invariant, True
    yield
    config.batch_invariant = before


def ops(f: UOp) -> Iterator[UOp]:
    """The ops of a function, those of the functions in it too."""
    for u in walk(f.src):
        yield u
        if u.op is Op.FUNCTION:
            yield from ops(u)


def lengths(jaxpr: Jaxpr) -> set[int]:
    return {u.arg.length for u in ops(jaxpr.function) if u.op is Op.SCAN}


def cuts_a_sum(jaxpr: Jaxpr, given: Sequence[Partition | None]) -> bool:
    """Whether devices add up parts of a sum, or each of them has a part of a running one."""
    spmd = partition(jaxpr, given).spmd
    exchanges = {u.arg.kind for u in ops(spmd.function) if u.op is Op.COLLECTIVE}
    added = exchanges & {Exchange.REDUCE, Exchange.SCATTER}
    return bool(added) or not lengths(spmd) <= lengths(jaxpr)


def leaves(results: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(y) for y in tfn.tree.leaves(results)]


MESHES_OF_DEVICES = ("2", "3", "2x2", "2x4", "8")
DIVISIONS_OF_DEVICES = 2 if covering.exhaustive else 1
COMPILED = [row for row in TABLE if row.op is not Op.TUPLE]
"""A TUPLE is a value of the language between passes alone."""


@pytest.mark.usefixtures("eight_devices", "batch_invariant")
@pytest.mark.parametrize(
    "row, name, derived",
    covering.in_turn(2, covering.cover(COMPILED, MESHES_OF_DEVICES, (False, True))),
    ids=lambda value: getattr(value, "name", None),
)
def test_every_division_has_the_same_bits(row: Row, name: str, derived: bool) -> None:
    """The same bits as on one device, on every mesh, wherever no sum is cut."""
    run = tfn.jit(row.gradients if derived else row.function)
    traced, whole = run.trace(*row.values), leaves(run(*row.values))
    axes = MESHES[name]
    kinds = (AxisType.Auto,) * len(axes)
    mesh = tfn.make_mesh(tuple(a.size for a in axes), tuple(a.name for a in axes), kinds)
    for args in divisions(row.values, axes, DIVISIONS_OF_DEVICES, (row.name, name, derived)):
        if cuts_a_sum(traced.jaxpr, [*args, *[None] * len(traced.captured)]):
            continue
        placed = [
            tfn.device_put(x, NamedSharding(mesh, spec_of(arg.spec)))
            for x, arg in zip(row.values, args, strict=True)
        ]
        for got, expected in zip(leaves(run(*placed)), whole, strict=True):
            np.testing.assert_array_equal(got, expected, err_msg=str(args))
