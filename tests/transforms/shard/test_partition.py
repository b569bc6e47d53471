"""Programs divided among devices give what the undivided program gives, whatever the division.

The oracle evaluates both, so that it is the partitioner that is tested, not a device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.covering import in_turn
from tests.transforms.cases import CASES, Case
from tests.transforms.shard.programs import program
from tests.transforms.shard.table import TABLE, Row
from tfn.trace import oracle
from tfn.trace.axes import AXES
from tfn.trace.jaxpr import Jaxpr, close, function, inline, param
from tfn.trace.mesh import AbstractMesh
from tfn.trace.op import MANUAL, Op
from tfn.trace.sharding import Axis, Partition, Spec, stacking
from tfn.trace.uop import UOp
from tfn.transforms.shard.partition import STRUCTURE
from tfn.transforms.shard.program import stacked

Array = np.ndarray[Any, Any]
MESHES = {
    "1": (Axis("x", 1),),
    "2": (Axis("x", 2),),
    "3": (Axis("x", 3),),
    "2x2": (Axis("x", 2), Axis("y", 2)),
    "2x4": (Axis("x", 2), Axis("y", 4)),
    "8": (Axis("x", 8),),
    "4": (Axis("x", 4),),
}
DIVISIONS = 2
"""Of all arguments together that are drawn for each program and mesh."""
UNTESTED = MANUAL | {Op.LINEAR}
"""Ops over a mesh of their own, and the one that exists only between passes of reverse mode."""


def stack(x: Array, arg: Partition) -> Array:
    """The stack of the parts of a value."""
    split, order = stacking(arg, x.shape)
    return x.reshape(split).transpose(order)


def unstack(x: Array, arg: Partition, shape: tuple[int, ...]) -> Array:
    """The value whose parts are stacked."""
    split, order = stacking(arg, shape)
    return x.reshape([split[axis] for axis in order]).transpose(np.argsort(order)).reshape(shape)


def specs(shape: tuple[int, ...], mesh: Sequence[Axis]) -> list[Spec]:
    """Every way to divide the axes of a value over the axes of a mesh, in both orders."""
    size = {axis.name: axis.size for axis in mesh}
    choices: list[Spec] = [((),) * len(shape)]
    for order in (list(size), list(size)[::-1]):
        for places in product([None, *range(len(shape))], repeat=len(order)):
            names: list[tuple[str, ...]] = [()] * len(shape)
            for name, place in zip(order, places, strict=True):
                if place is not None:
                    names[place] = (*names[place], name)
            arg = Partition(tuple(mesh), tuple(names))
            if all(n % arg.parts(axis) == 0 for axis, n in enumerate(shape)):
                choices.append(arg.spec)
    return list(dict.fromkeys(choices))


def require_equal(
    jaxpr: Jaxpr,
    values: Sequence[Array],
    args: Sequence[Partition],
    tolerance: float = 1e-9,
    expected_of: Jaxpr | None = None,
) -> None:
    """The program of the parts gives the values of the undivided one."""
    divided, results = stacked(jaxpr, args)
    stacks = [stack(x, arg) for x, arg in zip(values, args, strict=True)]
    with np.errstate(all="ignore"):
        parts = oracle.evaluate(divided.outputs, dict(zip(map(param, divided.params), stacks)))
        undivided = expected_of or jaxpr
        whole = oracle.evaluate(undivided.outputs, dict(zip(map(param, jaxpr.params), values)))
    for got, expected, arg in zip(parts, whole, results, strict=True):
        one = unstack(got, arg, expected.shape)
        if one.dtype.kind == "V":
            one, expected = one.astype(np.float32), expected.astype(np.float32)
        scale = max(1.0, float(np.nanmax(np.abs(expected), initial=0.0)))
        np.testing.assert_allclose(
            one, expected, rtol=tolerance, atol=tolerance * scale, err_msg=str(args)
        )


def of_case(case: Case) -> tuple[Jaxpr, list[Array]]:
    """The closed function of a case, and the values of its parameters."""
    leaves, values = case.leaves()
    graph: Any = case.graph(*leaves)
    outputs: list[UOp] = list(graph) if isinstance(graph, (list, tuple)) else [graph]
    jaxpr, captured = close(outputs, leaves)
    assert not captured
    return jaxpr, [values[leaf] for leaf in leaves]


def divisions(
    values: Sequence[Array], mesh: Sequence[Axis], most: int, seed: object
) -> Iterator[list[Partition]]:
    """All divisions of some values together, or, if there are too many, some drawn from a seed."""
    ways = [specs(x.shape, mesh) for x in values]
    count = int(np.prod([len(w) for w in ways]))
    random = Random(str(seed))
    chosen = (
        product(*ways) if count <= most else ([random.choice(w) for w in ways] for _ in range(most))
    )
    for choice in chosen:
        yield [Partition(tuple(mesh), spec) for spec in choice]


EVERY_MESH = sorted(MESHES)


@pytest.mark.parametrize("row", in_turn(2, TABLE), ids=lambda row: row.name)
def test_every_op_in_every_division(row: Row) -> None:
    """Results and gradients, over all meshes."""
    traced = tfn.jit(lambda *xs: (row.function(*xs), row.gradients(*xs))).trace(*row.values)
    every = [*row.values, *map(np.asarray, traced.captured)]
    for mesh in EVERY_MESH:
        for args in divisions(every, MESHES[mesh], DIVISIONS, (row.name, mesh)):
            require_equal(traced.jaxpr, every, args)


def test_the_table_has_every_op() -> None:
    assert {*AXES, *STRUCTURE} - {row.op for row in TABLE} == MANUAL | {Op.GET}


def uneven(shape: tuple[int, ...], mesh: Sequence[Axis]) -> list[Spec]:
    """Every way to divide each axis over one axis of a mesh at most, whether it divides or not."""
    names = [(), *((axis.name,) for axis in mesh)]
    every = product(names, repeat=len(shape))
    return [spec for spec in every if len({*spec} - {()}) == sum(map(len, spec))]


@pytest.mark.parametrize(
    "case",
    in_turn(2, [case for case in CASES if case.op not in UNTESTED]),
    ids=lambda case: case.name,
)
def test_sizes_that_do_not_divide(case: Case) -> None:
    """Constraints within a program leave padding, which no result shows."""
    jaxpr, values = of_case(case)
    for mesh in ("2", "3", "2x2", "4"):
        random = Random(case.name + mesh)
        for _ in range(DIVISIONS):
            drawn = [random.choice(uneven(x.shape, MESHES[mesh])) for x in values]
            operands = [
                UOp(Op.CONSTRAIN, (param(p),), Partition(MESHES[mesh], spec))
                for p, spec in zip(jaxpr.params, drawn, strict=True)
            ]
            inner = Jaxpr(function(inline(jaxpr, operands), jaxpr.params))
            whole = [Partition(MESHES[mesh], ((),) * x.ndim) for x in values]
            require_equal(inner, values, whole, expected_of=jaxpr)


MESHES_OF_PROGRAMS = ("2", "3", "2x2", "2x4", "8")


def require_program(seed: int, gradient: bool) -> None:
    """A random program, or its gradient, in a random division of its arguments."""
    mesh = MESHES[MESHES_OF_PROGRAMS[seed % len(MESHES_OF_PROGRAMS)]]
    named = AbstractMesh(tuple(a.size for a in mesh), tuple(a.name for a in mesh))
    function, args = program(seed, named)
    if gradient:
        values = function

        def function(*xs: Any) -> Any:
            return tfn.grad(lambda xs: sum(tnp.sin(y).sum() for y in values(*xs)))(xs)

    traced = tfn.jit(function).trace(*args)
    every = [*args, *map(np.asarray, traced.captured)]
    for divided in divisions(every, mesh, 2, seed):
        require_equal(traced.jaxpr, every, divided, 2e-4)


@pytest.mark.parametrize("seed", in_turn(2, range(60)))
def test_random_programs(seed: int) -> None:
    require_program(seed, gradient=False)


@pytest.mark.parametrize("seed", in_turn(2, range(60, 90)))
def test_gradients_of_random_programs(seed: int) -> None:
    require_program(seed, gradient=True)
