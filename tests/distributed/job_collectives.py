"""Job: every collective, of every dtype and of sizes 0, 1, primes and 4 MiB + 1, against NumPy.

python job_collectives.py float32 int8       small sizes, of some dtypes
python job_collectives.py --large            4 MiB and an element more, of all: minutes
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import tfn
from tfn import lax
from tfn.sharding import Mesh, NamedSharding
from tfn.sharding import PartitionSpec as P

SIZES = (0, 1, 13)
SUMMED_LATER = 64 * 1024 + 1
"""More bytes than those that are summed from a gather, and no multiple."""
LARGE_BYTES = 4 << 20
SUMMED = (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
DTYPES = (*SUMMED, "bool")


def values(rng: np.random.Generator, dtype: Any, n: int, size: int) -> np.ndarray[Any, Any]:
    """Small whole numbers, whose sums every dtype has: [n devices, n, size]."""
    return rng.integers(0, 2, (n, n, size)).astype(dtype)


def ring(n: int, by: int) -> list[tuple[int, int]]:
    return [(i, (i + by) % n) for i in range(n)]


def groups(n: int) -> dict[str, list[list[int]]]:
    """Groups within processes, across them, and in an order of their own."""
    return {
        "within": [[i, i + 1] for i in range(0, n, 2)],
        "across": [[i, i + n // 2] for i in range(n // 2)],
        "mixed": [[n - 1 - i, i] for i in range(n // 2)],
    }


def cases(n: int, dtype: str) -> dict[str, tuple[Callable[..., Any], Callable[..., Any]]]:
    """By name: a function of the part [n, size], and of the stack [n, n, size] that of all."""

    def of_groups(each: Callable[..., Any], listed: list[list[int]]) -> Callable[..., Any]:
        def call(stack: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
            out: dict[int, Any] = {}
            for group in listed:
                out |= zip(group, each(stack[group]), strict=True)
            return np.stack([out[i] for i in range(n)])

        return call

    def all_of(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.broadcast_to(x, (len(x), *x.shape))

    def total(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        kind = "int64" if x.dtype.kind in "iu" else "complex128" if x.dtype.kind == "c" else "f8"
        wide = x[0].astype(kind)
        for row in x[1:]:
            wide += row.astype(kind)
        return np.broadcast_to(wide.astype(x.dtype), x.shape)

    def permuted(pairs: list[tuple[int, int]]) -> Callable[..., Any]:
        def call(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
            out = np.zeros_like(x)
            for begin, to in pairs:
                out[to] = x[begin]
            return out

        return call

    found: dict[str, Any] = {
        "all_gather": (lambda x: lax.all_gather(x, "d"), all_of),
        "all_gather tiled": (
            lambda x: lax.all_gather(x, "d", axis=1, tiled=True),
            lambda x: all_of(np.concatenate(list(x), 1)),
        ),
        "all_to_all": (lambda x: lax.all_to_all(x, "d", 0, 0), lambda x: x.swapaxes(0, 1)),
        "index": (
            lambda x: lax.axis_index("d")[None],
            lambda x: np.arange(n, dtype="int32")[:, None],
        ),
    }
    some = [(0, n - 1), (n - 1, 0), *([(1, 1)] if n > 2 else [])]
    for pairs in (ring(n, 1), ring(n, -1), ring(n, 2), ring(n, 3), [(0, 1)], some):
        act = lambda x, pairs=pairs: lax.ppermute(x, "d", pairs)
        found[f"ppermute {pairs}"] = act, permuted(pairs)
    for name, listed in groups(n).items():
        act = lambda x, g=listed: lax.all_gather(x, "d", axis_index_groups=g)
        found[f"all_gather {name}"] = act, of_groups(all_of, listed)
    if dtype in SUMMED:
        found["psum"] = (lambda x: lax.psum(x, "d"), total)
        found["psum_scatter"] = (lambda x: lax.psum_scatter(x, "d"), lambda x: total(x)[0])
        for name, listed in groups(n).items():
            act = lambda x, g=listed: lax.psum(x, "d", axis_index_groups=g)
            found[f"psum {name}"] = act, of_groups(total, listed)
    if dtype in SUMMED and "complex" not in dtype:
        found["pmax"] = (lambda x: lax.pmax(x, "d"), lambda x: all_of(x.max(0)))
        found["pmin"] = (lambda x: lax.pmin(x, "d"), lambda x: all_of(x.min(0)))
    if dtype.startswith("float"):
        found["pmean"] = (lambda x: lax.pmean(x, "d"), lambda x: (total(x) / n).astype(x.dtype))
    return found


def check(dtype: str, mesh: Mesh, sizes: tuple[int, ...]) -> int:
    """One program of all collectives; the number of results compared."""
    n = mesh.size
    table, rng = cases(n, dtype), np.random.default_rng(3)
    stacks = [values(rng, tfn.numpy.dtype(dtype), n, size) for size in sizes]

    def body(*parts: Any) -> Any:
        return [{k: act(x[0])[None] for k, (act, _) in table.items()} for x in parts]

    over = NamedSharding(mesh, P("d"))
    run = tfn.jit(
        tfn.shard_map(body, mesh=mesh, in_specs=P("d"), out_specs=P("d"), check_vma=False)
    )
    count = 0
    for _ in range(2):  # the general call, then the native one
        results = run(*[tfn.device_put(x, over) for x in stacks])
        for stack, result in zip(stacks, results, strict=True):
            for name, (_, meaning) in table.items():
                want = meaning(stack)
                assert result[name].shape == want.shape, (name, result[name].shape, want.shape)
                for shard in result[name].addressable_shards:
                    got = np.asarray(shard.data)
                    same = np.array_equal(got, want[shard.index])
                    assert same, (dtype, name, stack.shape, shard.index, got, want[shard.index])
                    count += 1
    return count


def check_large(dtype: str, mesh: Mesh) -> int:
    """A program for each collective, so that the results of one are in memory; their number."""
    n, kind, count = mesh.size, tfn.numpy.dtype(dtype), 0
    over = NamedSharding(mesh, P("d"))
    stack = values(np.random.default_rng(4), kind, n, LARGE_BYTES // kind.itemsize + 1)
    x = tfn.device_put(stack, over)
    for name, (act, meaning) in cases(n, dtype).items():
        body = tfn.shard_map(
            lambda v, act=act: act(v[0])[None],
            mesh=mesh,
            in_specs=P("d"),
            out_specs=P("d"),
            check_vma=False,
        )
        result, want = tfn.jit(body)(x), meaning(stack)
        for shard in result.addressable_shards:
            assert np.array_equal(np.asarray(shard.data), want[shard.index]), (dtype, name)
            count += 1
    return count


def main() -> None:
    """Check all; the first process tells how many results were right."""
    tfn.distributed.initialize(deadline_s=100)
    mesh = tfn.make_mesh((len(tfn.devices()),), ("d",), tfn.sharding.AxisType.Auto)
    dtypes = [name for name in sys.argv[1:] if name != "--large"] or DTYPES
    if "--large" in sys.argv:
        count = sum(check_large(dtype, mesh) for dtype in dtypes)
    else:
        count = sum(check(dtype, mesh, SIZES) for dtype in dtypes)
        later = SUMMED_LATER // 4 // mesh.size + 1
        count += check("float32", mesh, (later, later + 7))  # two sums in one message
    if tfn.process_index() == 0:
        print("right:", count)


if __name__ == "__main__":
    main()
