"""Functions divided among the devices of a mesh."""

from __future__ import annotations

import tfn
import tfn.numpy as tnp
from tfn.trace.sharding import Axis, Partition
from tfn.transforms.shard.divide import divide

ROWS = Axis("x", 4)


def test_graphs_of_parts() -> None:
    types = tfn.ShapeDtypeStruct((8, 4), "float32"), tfn.ShapeDtypeStruct((4, 2), "float32")
    f = tfn.make_jaxpr(lambda x, w: tnp.tanh(x @ w))(*types).function
    rows = Partition((ROWS,), (("x",), ()))
    part = divide(f, (ROWS,), [rows, None])
    assert [leaf.shape for leaf in part.leaves] == [(2, 4), (4, 2)]
    assert [y.shape for y in part.outputs] == [(2, 2)] and part.results[0].spec == (("x",), ())
    whole = divide(f, (ROWS,), [rows, None], lambda spec: ((),) * len(spec))
    assert [y.shape for y in whole.outputs] == [(8, 2)], "gathered, as the caller has settled"
