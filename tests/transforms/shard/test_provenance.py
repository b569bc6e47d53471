"""Exchanges of programs of many devices, found again in the kernels that do them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
from tfn import numpy as jnp
from tfn.eager import run
from tfn.inspect.kernels import of_program
from tfn.sharding import NamedSharding
from tfn.sharding import PartitionSpec as P
from tfn.trace import source_lines
from tfn.transforms.shard import provenance

pytestmark = pytest.mark.usefixtures("compiled", "eight_devices")


def exchanges(f: Any, *args: Any) -> list[list[str]]:
    """The exchanges of each kernel of a function."""
    traced = tfn.jit(f).trace(*args)
    loaded = run.load(traced.jaxpr, traced.kinds)
    return [
        [f"{moved.name} {moved.size_bytes}" for moved in work.exchanges]
        for work in of_program(loaded.program, run.device().target)
    ]


def divided(*shape: int, over: Any = None) -> tfn.Array:
    mesh = tfn.make_mesh((8,), ("x",))
    spec = P("x") if over is None else over
    return tfn.device_put(np.ones(shape, "float32"), NamedSharding(mesh, spec))


def test_what_the_partitioner_inserts_is_found_in_the_product_that_does_it() -> None:
    def step(w: Any, x: Any) -> Any:
        return tfn.grad(lambda w: jnp.tanh(x @ w).sum())(w)

    kernels = exchanges(step, divided(16, 4, over=P()), divided(64, 16))
    assert [row for row in kernels if row] == [[f"all_reduce {16 * 4 * 4 * 2 * 7 // 8}"]]


def test_collectives_in_loops_are_found() -> None:
    mesh = tfn.make_mesh((8,), ("x",))

    def part(x: Any) -> Any:
        def body(c: Any, _: Any) -> Any:
            return tfn.lax.psum(jnp.tanh(c), "x") / 8, None

        pairs = [(i, (i + 1) % 8) for i in range(8)]
        x = tfn.lax.scan(body, x @ jnp.ones((64, 64)), None, length=3)[0]
        return tfn.lax.ppermute(jnp.cos(x), "x", pairs)

    f = tfn.shard_map(part, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    found = [row for row in exchanges(f, divided(256, 64)) if row]
    size = 32 * 64 * 4
    assert found == [[f"all_reduce {size * 2 * 7 // 8}"], [f"permute {size}"]]


def test_programs_of_one_device_have_none() -> None:
    assert exchanges(lambda x: (x @ x).sum(), np.ones((64, 64), "float32")) == [[]] * 2
    assert not source_lines.enabled()


def test_lines_of_the_user_stay() -> None:
    x = divided(64, 16)
    traced = tfn.jit(lambda x: x.sum(axis=0)).trace(x)
    function = run.load(traced.jaxpr, traced.kinds).program.function
    with source_lines.tracking(), provenance.tracking(function) as find:
        assert find([function]) == ()
