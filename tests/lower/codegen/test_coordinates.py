"""Iteration state: trip counts of partial blocks, peeling, unrolled coordinates and keys."""

from __future__ import annotations

from tests.lower.codegen.test_reductions import nest
from tests.lower.graphs import p
from tfn.dtypes import INT64
from tfn.lower.codegen.coordinates import Coordinates
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.loops.opt_ops import Split
from tfn.trace.argument import Place
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const


def split(size: int, amount: int, place: Place = Place.UPCAST) -> tuple[Nest, UOp, UOp]:
    """An elementwise kernel whose only range is split."""
    n = nest(p(0, size) * 2.0)
    n = Split(n.loops[0].arg.number, amount, place).apply(n)
    outer, inner = n.newest(2)
    return n, outer, inner


def test_partial_blocks_have_fewer_trips() -> None:
    n, outer, inner = split(10, 4)
    at = Coordinates(n)
    assert at.bounded_by[inner] == {outer} and at.bounds[outer] == [inner]
    trips = []
    for block in range(3):
        with at.constant(outer, block):
            trips.append(at.trips(inner))
    assert trips == [4, 4, 2]
    assert at.trips(inner) == 4, "in a loop over whole blocks"


def test_only_a_partial_block_is_peeled() -> None:
    n, outer, _ = split(10, 4)
    assert Coordinates(n).peeled(outer) == (2, range(2, 3))
    n, outer, _ = split(12, 4)
    assert Coordinates(n).peeled(outer) == (3, range(3, 3))


def test_a_single_block_is_peeled() -> None:
    n, outer, _ = split(6, 4)
    assert Coordinates(n).peeled(outer) == (0, range(2))
    n, outer, _ = split(4, 4)
    assert Coordinates(n).peeled(outer) == (0, range(1))


def test_unrolled_coordinates_are_set_and_removed() -> None:
    n, outer, inner = split(10, 4)
    at = Coordinates(n)
    with at.constant(outer, 2):
        values = [(point, at.env[inner]) for point in at.unrolled([inner])]
    assert values == [((0,), const(0, INT64)), ((1,), const(1, INT64))]
    assert not at.env and not at.fixed


def test_lanes_of_a_partial_vector_are_bounded() -> None:
    n, outer, inner = split(10, 4, Place.LANE)
    at = Coordinates(n)
    for block, src in ((0, ()), (2, (const(2, INT64),))):
        with at.constant(outer, block):
            for point in at.unrolled([inner]):
                assert point == () and at.env[inner] is UOp(Op.LANES, src, 4)


def test_keys_are_of_the_ranges_that_a_node_depends_on() -> None:
    n = nest(p(0, 6, 5) + p(1, 6, 5))
    first, second = n.loops
    at = Coordinates(n)
    at.env |= {first: const(1, INT64), second: const(2, INT64)}
    load = next(u for u in at.depends if u.op is Op.LOAD)
    scaled = next(u for u, ranges in at.depends.items() if ranges == (first,))
    key, other = at.key(load), at.key(scaled)
    at.env[second] = const(3, INT64)
    assert at.key(load) != key and at.key(scaled) == other


def test_restoring_gives_ranges_their_values_again() -> None:
    n, outer, inner = split(10, 4)
    at = Coordinates(n)
    with at.constant(outer, 1):
        with at.restoring([outer, inner]):
            at.set([outer, inner], [0, 3], [])
        assert at.env == {outer: const(1, INT64)} and at.fixed == {outer: 1}
