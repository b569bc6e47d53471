"""Functions of the host under transforms: refused by derivatives, called for lanes as they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.transforms.cases import leaf, run
from tfn.dtypes import FLOAT64
from tfn.errors import ArgumentError, GradientError
from tfn.trace.argument import Host, VmapMethod
from tfn.trace.build import several
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk
from tfn.transforms.batch import batch
from tfn.transforms.body import fresh
from tfn.transforms.jvp import push
from tfn.transforms.transpose import pull

SHAPES: list[tuple[int, ...]] = []
x, y = leaf(np.ones(3)), leaf(np.ones(3))
XS = np.arange(6.0).reshape(2, 3)


def both(results: Any, operands: Any) -> None:
    SHAPES.extend(a.shape for a in operands)
    a, b = operands
    results[0][...] = a * b
    results[1][...] = a.sum(-1)


def host(method: VmapMethod) -> list[UOp]:
    kinds = (((3,), FLOAT64), ((), FLOAT64))
    return several(UOp(Op.HOST, (x, y), Host(both, kinds, method)))


@pytest.mark.parametrize(
    ("method", "shapes"),
    [
        (VmapMethod.SEQUENTIAL, [(3,), (3,)] * 2),
        (VmapMethod.EXPAND, [(2, 3), (1, 3)]),
        (VmapMethod.BROADCAST, [(2, 3), (2, 3)]),
        (VmapMethod.AS_IT_IS, [(2, 3), (3,)]),
    ],
)
def test_lanes(method: VmapMethod, shapes: list[tuple[int, ...]]) -> None:
    lanes = leaf(XS)
    found = batch(host(method), {x: lanes}, 2)
    assert all(y.many for y in found)
    SHAPES.clear()
    product, total = run([y.graph for y in found], {lanes: XS, y: np.full(3, 2.0)})
    assert (product == XS * 2).all() and total.tolist() == [3.0, 12.0]
    assert shapes == SHAPES


def test_unbatched_callbacks_are_called_once() -> None:
    z = leaf(np.ones(3))
    found = batch(host(VmapMethod.REFUSE), {z: leaf(XS)}, 2)
    assert [y.many for y in found] == [False, False]


def test_no_method_is_refused() -> None:
    with pytest.raises(ArgumentError, match="vmap_method"):
        batch(host(VmapMethod.REFUSE), {x: leaf(XS)}, 2)


def test_derivatives_are_refused() -> None:
    with pytest.raises(GradientError, match=r"(?s)both.*operand\(s\) \[1\].*custom_jvp"):
        push(host(VmapMethod.REFUSE), {y: fresh(y)})
    with pytest.raises(GradientError, match=r"(?s)both.*operand\(s\) \[0\]"):
        pull(host(VmapMethod.REFUSE)[:1], [x], [fresh(x)])


def test_equal_functions_are_one_node() -> None:
    one, other = host(VmapMethod.REFUSE), host(VmapMethod.REFUSE)
    assert one[0] is other[0]
    assert sum(u.op is Op.HOST for u in walk([*one, *other])) == 1
