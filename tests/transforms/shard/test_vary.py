"""Values that vary over manual axes: what is known of them, and where they are made to vary."""

from __future__ import annotations

from typing import Any

import numpy as np

import tfn
import tfn.numpy as tnp
from tfn import lax
from tfn.sharding import AbstractMesh
from tfn.sharding import PartitionSpec as P
from tfn.trace.op import Op
from tfn.trace.sharding import Exchange
from tfn.trace.uop import walk
from tfn.transforms.shard import vary

MESH = AbstractMesh((2, 4), ("x", "y"))


def mapped(f: Any, *args: Any, ins: Any) -> Any:
    """The Jaxpr of a function of parts."""
    run = tfn.shard_map(f, mesh=MESH, in_specs=ins, out_specs=P())
    return tfn.make_jaxpr(run)(*args)


def kinds(jaxpr: Any) -> list[tuple[Exchange, str]]:
    """The exchanges of a Jaxpr, sources first."""
    return [(u.arg.kind, u.arg.axis.name) for u in walk(jaxpr.outputs) if u.op is Op.COLLECTIVE]


def test_what_varies() -> None:
    seen: dict[str, frozenset[Any]] = {}

    def f(x: Any, w: Any) -> Any:
        values = {
            "x": x,
            "w": w,
            "both": x * w,
            "index": lax.axis_index("y") + 0,
            "reduced": lax.psum(x, "x"),
            "gathered": lax.all_gather(x, "x"),
            "loop": lax.fori_loop(0, 3, lambda i, c: c + lax.axis_index("y"), 0),
            "chosen": lax.cond(x.sum() > 0, lambda: 1.0, lambda: 2.0),
        }
        seen.update({name: vary.of(value) for name, value in values.items()})
        return lax.psum(x.sum(), "x")

    mapped(f, np.ones(8, "float32"), np.float32(2), ins=(P("x"), P()))
    sets = {name: "".join(sorted(names)) for name, names in seen.items()}
    assert sets == {
        "x": "x", "w": "", "both": "x", "index": "y", "reduced": "", "gathered": "x",
        "loop": "y", "chosen": "x",
    }  # fmt: skip


def test_a_shared_weight_varies_where_it_meets_data() -> None:
    run = lambda x, w: lax.psum((x * w).sum(), "x")
    args = np.ones((8, 3), "float32"), np.ones(3, "float32")
    forward = kinds(mapped(run, *args, ins=(P("x"), P())))
    assert forward == [(Exchange.VARY, "x"), (Exchange.REDUCE, "x")]
    slope = lambda x, w: tfn.grad(run, 1)(x, w)
    backward = kinds(mapped(slope, *args, ins=(P("x"), P())))
    assert backward.count((Exchange.REDUCE, "x")) == 1


def test_nothing_is_done_outside() -> None:
    assert vary.key([]) == () and not vary.is_checked()
    assert vary.of(tnp.ones(2)) == vary.NONE
