"""Work grows with the size of arguments as n log n at most: elements of all values of a program.

Counted, not timed, at n and 8 n: the elements of each value, those that a reduction or a product
reads, and those of loops as often as they go round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import pytest

import tfn
import tfn.numpy as tnp
from tfn import lax, nn, ops, random
from tfn.experimental import sparse
from tfn.scipy import stats
from tfn.trace.build import count
from tfn.trace.op import Op
from tfn.trace.regions import form
from tfn.trace.uop import UOp, walk

KEY = random.key(0)
SIZES = (2048, 16384)
MOST = 1.6
"""How much more than in proportion the count may grow: log(16384) / log(2048) is 1.3."""

Case = Callable[..., Any]

# x, y: floats; z: sorted floats; i, j: integers; n: their size.
CASES: dict[str, Case] = {
    "interp": lambda x, y, z, i, j, n: tnp.interp(x, z, y),
    "interp, periodic": lambda x, y, z, i, j, n: tnp.interp(x, z, y, period=2.0),
    "searchsorted": lambda x, y, z, i, j, n: tnp.searchsorted(z, x, sorter=i),
    "digitize": lambda x, y, z, i, j, n: tnp.digitize(x, z),
    "histogram": lambda x, y, z, i, j, n: tnp.histogram(x, n),
    "histogram of borders": lambda x, y, z, i, j, n: tnp.histogram(x, z, weights=y),
    "bincount": lambda x, y, z, i, j, n: tnp.bincount(i, x, length=n),
    "isin": lambda x, y, z, i, j, n: tnp.isin(x, y),
    "isin of complex numbers": lambda x, y, z, i, j, n: tnp.isin(x + 1j, y + 1j),
    "intersect1d": lambda x, y, z, i, j, n: tnp.intersect1d(x, y, return_indices=True, size=n),
    "setdiff1d": lambda x, y, z, i, j, n: tnp.setdiff1d(i, j, size=n),
    "setxor1d": lambda x, y, z, i, j, n: tnp.setxor1d(x, y, size=n),
    "union1d": lambda x, y, z, i, j, n: tnp.union1d(x, y, size=n),
    "unique": lambda x, y, z, i, j, n: tnp.unique(x, True, True, True, size=n),
    "unique rows": lambda x, y, z, i, j, n: tnp.unique(x.reshape(-1, 4), axis=0, size=n),
    "sort": lambda x, y, z, i, j, n: lax.sort((x, y, z), num_keys=2),
    "lexsort": lambda x, y, z, i, j, n: tnp.lexsort((x, y)),
    "median": lambda x, y, z, i, j, n: tnp.nanmedian(x),
    "quantile": lambda x, y, z, i, j, n: tnp.quantile(x, abs(y) % 1),
    "partition": lambda x, y, z, i, j, n: tnp.argpartition(x, n // 2),
    "top_k": lambda x, y, z, i, j, n: lax.top_k(x, n // 2),
    "nonzero": lambda x, y, z, i, j, n: tnp.nonzero(x > 0, size=n),
    "compress": lambda x, y, z, i, j, n: tnp.compress(x > 0, y, size=n),
    "take": lambda x, y, z, i, j, n: tnp.take(x, i),
    "put": lambda x, y, z, i, j, n: tnp.put(x, i, y, inplace=False),
    "updates": lambda x, y, z, i, j, n: x.at[i].add(y),
    "updates by a function": lambda x, y, z, i, j, n: x.at[i].apply(tnp.sin, unique_indices=True),
    "insert": lambda x, y, z, i, j, n: tnp.insert(x, 3, 1.0),
    "pad": lambda x, y, z, i, j, n: tnp.pad(x, 3 * n, "reflect"),
    "cumsum": lambda x, y, z, i, j, n: lax.cumsum(x, reverse=True),
    "cumlogsumexp": lambda x, y, z, i, j, n: lax.cumlogsumexp(x),
    "associative_scan": lambda x, y, z, i, j, n: lax.associative_scan(tnp.logaddexp, x),
    "window sum": lambda x, y, z, i, j, n: lax.reduce_window(
        x, 0.0, lax.add, (n // 2,), (1,), "SAME"
    ),
    "window maximum": lambda x, y, z, i, j, n: lax.reduce_window(
        x, -math.inf, lax.max, (n // 2,), (1,), "VALID"
    ),
    "Fourier transform": lambda x, y, z, i, j, n: tnp.fft.rfft(x),
    "unwrap": lambda x, y, z, i, j, n: tnp.unwrap(x),
    "choice": lambda x, y, z, i, j, n: random.choice(KEY, x, (n,), p=abs(y)),
    "choice without replacement": lambda x, y, z, i, j, n: random.choice(
        KEY, x, (n // 2,), replace=False, p=abs(y)
    ),
    "permutation": lambda x, y, z, i, j, n: random.permutation(KEY, x),
    "categorical": lambda x, y, z, i, j, n: random.categorical(KEY, x, shape=(8,)),
    "softmax": lambda x, y, z, i, j, n: nn.softmax_cross_entropy(x, y),
    "mode": lambda x, y, z, i, j, n: stats.mode(i),
    "rankdata": lambda x, y, z, i, j, n: stats.rankdata(x, "dense"),
    "segment_max": lambda x, y, z, i, j, n: ops.segment_max(x, i, n),
    "BCOO": lambda x, y, z, i, j, n: sparse.BCOO((x, tnp.stack([i, j], 1)), shape=(n, n)) @ y,
    "sums of duplicates": lambda x, y, z, i, j, n: (
        sparse.BCOO((x, tnp.stack([i, j], 1)), shape=(n, n)).sum_duplicates(nse=n).data
    ),
    "BCSR": lambda x, y, z, i, j, n: (
        sparse.BCSR((x, j, tnp.arange(n + 1)), shape=(n, n), unique_indices=True) @ y
    ),
}


def elements(roots: Iterable[UOp]) -> int:
    """The elements of all values, and those that reductions and products read."""
    total = 0
    for u in walk(roots):
        if u.op in (Op.SCAN, Op.WHILE, Op.COND, Op.CALL, Op.CUSTOM):
            parts = form(u)
            inside = sum(elements(f.src) for f in parts.functions)
            total += inside * (u.arg.length if u.op is Op.SCAN else 1)
        elif u.op is Op.DOT:
            total += count(u.shape) * math.prod(u.src[0].shape[a] for a in u.arg.contract_a)
        elif u.op is Op.REDUCE:
            total += count(u.src[0].shape)
        elif u.op is not Op.FUNCTION:
            total += count(u.shape)
    return total


def work(case: Case, n: int) -> int:
    floats, integers = (tfn.ShapeDtypeStruct((n,), dtype) for dtype in ("float32", "int32"))

    def f(x: Any, y: Any, z: Any, i: Any, j: Any) -> Any:
        return case(x, y, z, i, j, n)

    return elements(tfn.make_jaxpr(f)(*[floats] * 3, *[integers] * 2).outputs)


@pytest.mark.parametrize("name", CASES)
def test_work_grows_in_proportion(name: str) -> None:
    small, large = (work(CASES[name], n) for n in SIZES)
    assert large <= MOST * SIZES[1] / SIZES[0] * small
    assert large <= 2500 * SIZES[1]


def test_all_pairs_are_counted() -> None:
    """The count sees what it is for."""
    small, large = (work(lambda x, y, z, i, j, n: (x[:, None] < y).sum(1), n) for n in SIZES)
    assert large >= 60 * small
