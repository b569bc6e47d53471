"""Work grows with the size of arguments as n log n at most: elements of all values of a program.

Counted, not timed, at n and 8 n: the elements of each value, those that a reduction or a product
reads, and those of loops as often as they go round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn import lax, nn, ops, random
from tfn.experimental import sparse
from tfn.scipy import fft, interpolate, ndimage, signal, stats
from tfn.scipy.cluster import vq
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
    "weighted quantile": lambda x, y, z, i, j, n: tnp.quantile(
        x, abs(y) % 1, method="inverted_cdf", weights=abs(z)
    ),
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
    "choose": lambda x, y, z, i, j, n: tnp.choose(i % 2, [x, y], mode="clip"),
    "select": lambda x, y, z, i, j, n: tnp.select([x > 0, y > 0], [x, y]),
    "piecewise": lambda x, y, z, i, j, n: tnp.piecewise(x, [x < 0, x > 0], [0.0, 1.0]),
    "take_along_axis": lambda x, y, z, i, j, n: tnp.take_along_axis(x, i, 0),
    "take rows": lambda x, y, z, i, j, n: tnp.take(x.reshape(-1, 4), i, axis=0),
    "put_along_axis": lambda x, y, z, i, j, n: tnp.put_along_axis(x, i, y, 0, inplace=False),
    "extract": lambda x, y, z, i, j, n: tnp.extract(x > 0, y, size=n),
    "delete constant indices": lambda x, y, z, i, j, n: tnp.delete(x, np.arange(0, n, 2)),
    "insert many constants": lambda x, y, z, i, j, n: tnp.insert(x, np.arange(n), y),
    "append": lambda x, y, z, i, j, n: tnp.append(x, y),
    "repeat const counts": lambda x, y, z, i, j, n: tnp.repeat(x, np.arange(n) % 3),
    "roll": lambda x, y, z, i, j, n: tnp.roll(x, i[0]),
    "resize": lambda x, y, z, i, j, n: tnp.resize(x, (3 * n + 1,)),
    "histogram2d": lambda x, y, z, i, j, n: tnp.histogram2d(x, y, [8, n // 8]),
    "histogramdd": lambda x, y, z, i, j, n: tnp.histogramdd(
        tnp.stack([x, y], 1), [z[:16], z[: n // 16]]
    ),
    "histogram_bin_edges": lambda x, y, z, i, j, n: tnp.histogram_bin_edges(x, n),
    "percentile": lambda x, y, z, i, j, n: tnp.percentile(x, abs(y) % 100),
    "nanquantile": lambda x, y, z, i, j, n: tnp.nanquantile(x, abs(y) % 1),
    "unique_counts": lambda x, y, z, i, j, n: tnp.unique_counts(x, size=n),
    "unique_inverse": lambda x, y, z, i, j, n: tnp.unique_inverse(x, size=n),
    "gradient": lambda x, y, z, i, j, n: tnp.gradient(x, z),
    "diff": lambda x, y, z, i, j, n: tnp.diff(x, n=3, prepend=y),
    "ediff1d": lambda x, y, z, i, j, n: tnp.ediff1d(x, to_begin=y),
    "polyval": lambda x, y, z, i, j, n: tnp.polyval(y[:5], x),
    "unravel_index": lambda x, y, z, i, j, n: tnp.unravel_index(i, (n, 3)),
    "ravel_multi_index": lambda x, y, z, i, j, n: tnp.ravel_multi_index(
        (i, j), (n, n), mode="clip"
    ),
    "split": lambda x, y, z, i, j, n: tnp.split(x, [3, n // 2]),
    "array_split": lambda x, y, z, i, j, n: tnp.array_split(x, 64),
    "cross": lambda x, y, z, i, j, n: tnp.cross(
        x[: n // 3 * 3].reshape(-1, 3), y[: n // 3 * 3].reshape(-1, 3)
    ),
    "vdot": lambda x, y, z, i, j, n: tnp.vdot(x, y),
    "cov": lambda x, y, z, i, j, n: tnp.cov(x, y, aweights=abs(z)),
    "corrcoef": lambda x, y, z, i, j, n: tnp.corrcoef(x, y),
    "average": lambda x, y, z, i, j, n: tnp.average(x, weights=y),
    "argwhere": lambda x, y, z, i, j, n: tnp.argwhere(x > 0, size=n),
    "flatnonzero": lambda x, y, z, i, j, n: tnp.flatnonzero(x > 0, size=n),
    "packbits": lambda x, y, z, i, j, n: tnp.packbits(x > 0),
    "trapezoid": lambda x, y, z, i, j, n: tnp.trapezoid(x, z),
    "isin assume": lambda x, y, z, i, j, n: tnp.isin(i, j, assume_unique=True),
    "setdiff1d assume": lambda x, y, z, i, j, n: tnp.setdiff1d(x, y, assume_unique=True, size=n),
    "searchsorted sort": lambda x, y, z, i, j, n: tnp.searchsorted(z, x, method="sort"),
    "argsort": lambda x, y, z, i, j, n: tnp.argsort(x, descending=True),
    "convolve small": lambda x, y, z, i, j, n: tnp.convolve(x, y[:7]),
    "at set": lambda x, y, z, i, j, n: x.at[i].set(y),
    "at max": lambda x, y, z, i, j, n: x.at[i].max(y),
    "at mul": lambda x, y, z, i, j, n: x.at[i].mul(y),
    "mask index": lambda x, y, z, i, j, n: x.at[x > 0].set(y[0]),
    "index pair": lambda x, y, z, i, j, n: x.reshape(-1, 8)[i % 8, j % 8],
    "dynamic_slice": lambda x, y, z, i, j, n: lax.dynamic_slice(x, (i[0],), (n // 2,)),
    "dynamic_update_slice": lambda x, y, z, i, j, n: lax.dynamic_update_slice(
        x, y[: n // 2], (i[0],)
    ),
    "sort_key_val": lambda x, y, z, i, j, n: lax.sort_key_val(x, y),
    "cummax": lambda x, y, z, i, j, n: lax.cummax(x),
    "cumprod": lambda x, y, z, i, j, n: lax.cumprod(x),
    "approx_max_k": lambda x, y, z, i, j, n: lax.approx_max_k(x, n // 2),
    "window dilated": lambda x, y, z, i, j, n: lax.reduce_window(
        x, 0.0, lax.add, (n // 4,), (1,), "VALID", None, (2,)
    ),
    "window product": lambda x, y, z, i, j, n: lax.reduce_window(
        x, 1.0, lax.mul, (n // 4,), (2,), "SAME"
    ),
    "window other": lambda x, y, z, i, j, n: lax.reduce_window(
        x, -1e9, lambda a, b: tnp.logaddexp(a, b), (n // 4,), (1,), "SAME"
    ),
    "tridiagonal_solve": lambda x, y, z, i, j, n: lax.linalg.tridiagonal_solve(
        x, y + 4, z, x[:, None]
    ),
    "segment_sum": lambda x, y, z, i, j, n: ops.segment_sum(x, i, n),
    "segment_prod": lambda x, y, z, i, j, n: ops.segment_prod(x, i, n),
    "segment_min": lambda x, y, z, i, j, n: ops.segment_min(x, i, n),
    "map_coordinates": lambda x, y, z, i, j, n: ndimage.map_coordinates(
        x, [y * n], 1, mode="reflect"
    ),
    "grid": lambda x, y, z, i, j, n: interpolate.RegularGridInterpolator((z,), x)(y[:, None]),
    "vq": lambda x, y, z, i, j, n: vq.vq(x, y[:4]),
    "fftconvolve": lambda x, y, z, i, j, n: signal.fftconvolve(x, y),
    "signal.convolve fft": lambda x, y, z, i, j, n: signal.convolve(x, y, method="fft"),
    "welch": lambda x, y, z, i, j, n: signal.welch(x, nperseg=n // 8),
    "stft": lambda x, y, z, i, j, n: signal.stft(x, nperseg=n // 8),
    "csd": lambda x, y, z, i, j, n: signal.csd(x, y, nperseg=64),
    "detrend": lambda x, y, z, i, j, n: signal.detrend(x, bp=[n // 2]),
    "dct": lambda x, y, z, i, j, n: fft.dct(x),
    "fft odd": lambda x, y, z, i, j, n: tnp.fft.fft(x, n - 1),
    "fft long": lambda x, y, z, i, j, n: tnp.fft.fft(x, 2 * n + 1),
    "irfft": lambda x, y, z, i, j, n: tnp.fft.irfft(x + 0j),
    "sem": lambda x, y, z, i, j, n: stats.sem(x),
    "rankdata average": lambda x, y, z, i, j, n: stats.rankdata(x),
    "rankdata min": lambda x, y, z, i, j, n: stats.rankdata(x, "min"),
    "kde": lambda x, y, z, i, j, n: stats.gaussian_kde(x)(y[:4]),
    "permutation independent": lambda x, y, z, i, j, n: random.permutation(
        KEY, x.reshape(-1, 8), independent=True
    ),
    "permutation rows": lambda x, y, z, i, j, n: random.permutation(KEY, x.reshape(-1, 8)),
    "multinomial": lambda x, y, z, i, j, n: random.multinomial(KEY, 10.0, abs(x) / n),
    "randint": lambda x, y, z, i, j, n: random.randint(KEY, (n,), i, j),
    "dirichlet": lambda x, y, z, i, j, n: random.dirichlet(KEY, abs(x)),
    "categorical no replacement": lambda x, y, z, i, j, n: random.categorical(
        KEY, x, shape=(n // 2,), replace=False
    ),
    "choice axis": lambda x, y, z, i, j, n: random.choice(KEY, x.reshape(-1, 8), (n,), axis=0),
    "embedding": lambda x, y, z, i, j, n: nn.Embedding(x.reshape(-1, 4))(i),
    "labels": lambda x, y, z, i, j, n: nn.softmax_cross_entropy_with_integer_labels(
        x.reshape(-1, 8), i[: n // 8] % 8
    ),
    "adaptive": lambda x, y, z, i, j, n: nn.adaptive_avg_pool(x[None, :, None], n // 100 * 3 + 1),
    "max_pool": lambda x, y, z, i, j, n: nn.max_pool(x[None, :, None], n // 4, 1),
    "avg_pool": lambda x, y, z, i, j, n: nn.avg_pool(x[None, :, None], n // 4, 1, "SAME"),
    "rotary": lambda x, y, z, i, j, n: nn.rotary(x.reshape(-1, 1, 8), i[: n // 8]),
    "grad of cumsum": lambda x, y, z, i, j, n: tfn.grad(lambda v: tnp.sum(tnp.cumsum(v) * y))(x),
    "grad of cumprod": lambda x, y, z, i, j, n: tfn.grad(lambda v: tnp.sum(tnp.cumprod(v) * y))(x),
    "grad of cummax": lambda x, y, z, i, j, n: tfn.grad(lambda v: tnp.sum(lax.cummax(v) * y))(x),
    "grad of cumlogsumexp": lambda x, y, z, i, j, n: tfn.grad(
        lambda v: tnp.sum(lax.cumlogsumexp(v) * y)
    )(x),
    "grad of prod": lambda x, y, z, i, j, n: tfn.grad(tnp.prod)(x),
    "grad of sort": lambda x, y, z, i, j, n: tfn.grad(lambda v: tnp.sum(tnp.sort(v) * y))(x),
    "grad of take": lambda x, y, z, i, j, n: tfn.grad(lambda v: tnp.sum(v[i] * y))(x),
    "grad of interp": lambda x, y, z, i, j, n: tfn.grad(lambda v: tnp.sum(tnp.interp(v, z, y)))(x),
    "grad of segment_max": lambda x, y, z, i, j, n: tfn.grad(
        lambda v: tnp.sum(ops.segment_max(v, i, n) * y)
    )(x),
    "grad of window max": lambda x, y, z, i, j, n: tfn.grad(
        lambda v: tnp.sum(lax.reduce_window(v, -math.inf, lax.max, (n // 4,), (1,), "SAME") * y)
    )(x),
    "grad of window sum": lambda x, y, z, i, j, n: tfn.grad(
        lambda v: tnp.sum(lax.reduce_window(v, 0.0, lax.add, (n // 4,), (1,), "SAME") * y)
    )(x),
    "grad of window prod": lambda x, y, z, i, j, n: tfn.grad(
        lambda v: tnp.sum(lax.reduce_window(v, 1.0, lax.mul, (n // 4,), (1,), "SAME") * y)
    )(x),
    "grad of at max": lambda x, y, z, i, j, n: tfn.grad(lambda v: tnp.sum(v.at[i].max(y) * z))(x),
    "grad of at mul": lambda x, y, z, i, j, n: tfn.grad(lambda v: tnp.sum(v.at[i].mul(y) * z))(x),
    "grad of associative_scan": lambda x, y, z, i, j, n: tfn.grad(
        lambda v: tnp.sum(lax.associative_scan(tnp.multiply, v) * z)
    )(x),
    "grad of quantile": lambda x, y, z, i, j, n: tfn.grad(
        lambda v: tnp.sum(tnp.quantile(v, abs(y) % 1))
    )(x),
    "grad of tridiagonal": lambda x, y, z, i, j, n: tfn.grad(
        lambda v: tnp.sum(lax.linalg.tridiagonal_solve(v, y + 4, z, x[:, None]))
    )(x),
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
        elif u.op is Op.SCATTER:  # in place: what it updates is copied once, before a loop
            total += count(u.src[2].shape)
        elif u.op not in (Op.FUNCTION, Op.PARAM, Op.GET):
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
