"""Resharding between any two specs: right, and by the cheapest sequence of exchanges."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

from tests.transforms.shard.test_partition import stack, unstack
from tfn.dtypes import FLOAT32
from tfn.trace import oracle
from tfn.trace.argument import Param
from tfn.trace.jaxpr import Jaxpr, function, param
from tfn.trace.op import Op
from tfn.trace.sharding import Axis, Partition, Spec
from tfn.trace.uop import UOp
from tfn.transforms.shard.program import stacked
from tfn.transforms.shard.reshard import cost_bytes

SIZES = {"x": 2, "y": 3, "z": 4}
MESH = tuple(Axis(name, n) for name, n in SIZES.items())


def specs(rank: int, names: tuple[str, ...]) -> list[Spec]:
    """Every spec of a rank over some of the axes, in every order."""
    every = set()
    for order in permutations(names):
        for places in product([None, *range(rank)], repeat=len(order)):
            parts: list[tuple[str, ...]] = [()] * rank
            for name, place in zip(order, places, strict=True):
                if place is not None:
                    parts[place] = (*parts[place], name)
            every.add(tuple(parts))
    return sorted(every)


def cheapest(begin: Spec, end: Spec, local: float, seen: frozenset[Spec]) -> float:
    """The bytes received by the best sequence, of parts of a size, by trying all of them."""
    if begin == end:
        return 0.0
    used, best = {n for names in begin for n in names}, np.inf
    moves: list[tuple[float, Spec, float]] = []
    for axis, names in enumerate(begin):
        wanted = end[axis][len(names) :] if end[axis][: len(names)] == names else ()
        if wanted and wanted[0] not in used:
            new = changed(begin, axis, (*names, wanted[0]))
            moves.append((0.0, new, local / SIZES[wanted[0]]))
        if names:
            n, popped = SIZES[names[-1]], changed(begin, axis, names[:-1])
            moves.append((local * (n - 1), popped, local * n))
            for to, other in enumerate(popped):
                if end[to][: len(other) + 1] == (*other, names[-1]) and to != axis:
                    new = changed(popped, to, (*other, names[-1]))
                    moves.append((local * (n - 1) / n, new, local))
    for extra, new, size in moves:
        if new not in seen:
            best = min(best, extra + cheapest(new, end, size, seen | {new}))
    return best


def changed(spec: Spec, axis: int, names: tuple[str, ...]) -> Spec:
    """A spec with other names for an axis."""
    return (*spec[:axis], names, *spec[axis + 1 :])


@pytest.mark.parametrize(("rank", "names"), [(1, "xyz"), (2, "xy"), (2, "xyz"), (3, "xz")])
def test_no_other_sequence_moves_less(rank: int, names: str) -> None:
    every = specs(rank, tuple(names))
    for begin, end in list(product(every, every))[:: 1 + len(every) ** 2 // 400]:
        parts = float(np.prod([SIZES[n] for part in begin for n in part]))
        least = cheapest(begin, end, 1 / parts, frozenset({begin}))
        assert cost_bytes(1, begin, end, SIZES) == pytest.approx(least), (begin, end)


def test_every_pair_of_specs_gives_the_same_value() -> None:
    x = np.arange(24 * 24, dtype=np.float32).reshape(24, 24)
    every = specs(2, ("x", "y", "z"))[::5]
    p = Param(0, x.shape, FLOAT32)
    for begin, end in product(every, every[::3]):
        node = UOp(Op.CONSTRAIN, (param(p),), Partition(MESH, end))
        given = Partition(MESH, begin)
        program, (result,) = stacked(Jaxpr(function([node], (p,))), [given])
        assert result.spec == end
        (out,) = oracle.evaluate(program.outputs, {param(program.params[0]): stack(x, given)})
        np.testing.assert_array_equal(unstack(out, result, x.shape), x)
