"""Construction of arrays, and the memory they share."""

from __future__ import annotations

import gc
import sys

import numpy as np

import tfn
import tfn.numpy as tnp
from tfn.eager.arrays import concrete, traced, weaken
from tfn.eager.run import device
from tfn.trace.aval import kind_of


def test_an_array_on_a_buffer() -> None:
    data = np.arange(6, dtype=np.float32)
    buffer = device().memory.copy(data)
    references = sys.getrefcount(buffer)
    x = concrete(buffer, (2, 3), data.dtype, True)
    assert type(x) is tfn.Array and x.buffer is buffer and x.kind is kind_of((2, 3), data.dtype)
    assert (x.uop, x.owner, x.known, x.weak_type) == (None, None, True, True)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert gc.is_tracked(x) and sys.getrefcount(buffer) == references + 1
    del x
    assert sys.getrefcount(buffer) == references


def test_an_array_of_a_trace() -> None:
    @tfn.jit
    def f(x: tfn.Array) -> tfn.Array:
        assert x.uop is not None and x.owner is not None
        y = traced(x.uop, x.owner, False, True)
        assert type(y) is tfn.Array and y.weak_type and y.buffer is None and y.kind is None
        assert weaken(y, True) is y
        assert weaken(y, False).uop is y.uop and not weaken(y, False).weak_type
        return y + x

    assert f(tnp.ones(2)).tolist() == [2, 2]


def test_weakness_is_another_array_on_the_same_memory() -> None:
    x = tnp.asarray(2.0)
    assert x.weak_type and weaken(x, True) is x
    strong = weaken(x, False)
    assert strong.buffer is x.buffer and x.weak_type and not strong.weak_type
    assert float(strong) == 2


def test_weakening_leaves_its_operand_unchanged() -> None:
    """A function that gives back its argument, with another weakness."""
    x = tnp.ones(())
    y = tnp.asarray(1.0)
    give = lambda x, y: (x, y, y * 1)
    for f in (give, tfn.jit(give)):
        results = f(x, y)
        assert [r.weak_type for r in results] == [False, True, True]
    (_, pulled) = tfn.vjp(lambda x: x if x > 0 else -x, y)
    assert pulled(x)[0].weak_type
    assert (x.weak_type, y.weak_type) == (False, True)
