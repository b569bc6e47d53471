"""Options of layers of `tfn.nn`: each value of each, against formulas in NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from tests.covering import covering
from tfn import nn, random
from tfn import numpy as jnp
from tfn.config import config
from tfn.errors import TfnError

pytestmark = pytest.mark.filterwarnings("ignore")  # NumPy's, of means of nothing

KEY = random.key(3)
PADDINGS = ["SAME", "VALID", "SAME_LOWER", ((1, 2), (0, 3)), ((-1, 0), (2, -1)), "same"]


@pytest.fixture(autouse=True)
def oracle() -> Iterator[None]:
    """NumPy evaluates each operation: what is tested is what is traced, not how it is compiled."""
    before, config.device = config.device, "python"
    yield
    config.device = before


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32)


def padded(x: np.ndarray, pads: Sequence[tuple[int, int]], fill: float) -> np.ndarray:
    """Images with a border; negative sizes crop."""
    for axis, (low, high) in enumerate(pads, 1):
        border = [(0, 0)] * x.ndim
        border[axis] = (max(low, 0), max(high, 0))
        x = np.pad(x, border, constant_values=fill)
        stop = x.shape[axis] + min(high, 0)
        x = x[(slice(None),) * axis + (slice(-min(low, 0), stop),)]
    return x


def borders(x: np.ndarray, reach: Sequence[int], strides: Sequence[int], padding: Any) -> Any:
    """The border that a name of a padding stands for."""
    if not isinstance(padding, str):
        return padding
    if padding == "VALID":
        return [(0, 0)] * len(reach)
    pairs = []
    for size, window, stride in zip(x.shape[1:], reach, strides):
        total = max((-(-size // stride) - 1) * stride + window - size, 0)
        low = total - total // 2 if padding == "SAME_LOWER" else total // 2
        pairs.append((low, total - low))
    return pairs


def windows(
    x: np.ndarray, window: Sequence[int], strides: Sequence[int], padding: Any,
    dilation: Sequence[int], fill: float = 0.0,
) -> np.ndarray:  # fmt: skip
    """The elements of each window: (batch, *places, size of the window, channels)."""
    reach = [(w - 1) * d + 1 for w, d in zip(window, dilation)]
    x = padded(x, borders(x, reach, strides, padding), fill)
    axes = tuple(range(1, x.ndim - 1))
    views = sliding_window_view(x, reach, axes)
    every = (slice(None),)
    steps = every + tuple(slice(None, None, s) for s in strides) + every
    views = views[steps + tuple(slice(None, None, d) for d in dilation)]
    views = np.moveaxis(views, len(axes) + 1, -1)
    return views.reshape(*views.shape[: len(axes) + 1], prod(window), x.shape[-1])


def both(value: Any, rank: int) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, tuple) else (value,) * rank


CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
TRANSPOSED = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
SPACE = {1: (9,), 2: (7, 6), 3: (4, 5, 6)}


@covering(
    "strides, padding, dilation, groups, use_bias, window",
    [1, 2, (1, 3)], PADDINGS, [1, 2, (2, 1)], [1, 3], [True, False], [1, (2, 3), 4],
    pairs=[(0, 1), (1, 2), (1, 5)],
)  # fmt: skip
def test_convolutions(
    strides: Any, padding: Any, dilation: Any, groups: int, use_bias: bool, window: Any
) -> None:
    x = drawn(2, 11, 10, 6)
    how = {"strides": strides, "padding": padding, "dilation": dilation, "groups": groups}
    layer = nn.Conv2d.init(KEY, 6, 3, window, use_bias=use_bias, **how)
    assert (layer.bias is None) is not use_bias
    if use_bias:
        layer = nn.tree_at(lambda m: m.bias, layer, jnp.asarray(drawn(3)))
    each = windows(
        x, both(window, 2), both(strides, 2), padding.upper() if padding == "same" else padding,
        both(dilation, 2),
    )  # fmt: skip
    weight = np.asarray(layer.weight).reshape(-1, 6 // groups, 3)
    parts = [
        np.einsum("nhwpc,pco->nhwo", *part)
        for part in zip(np.split(each, groups, -1), np.split(weight, groups, -1))
    ]
    want = np.concatenate(parts, -1) + (np.asarray(layer.bias) if use_bias else 0)
    np.testing.assert_allclose(layer(jnp.asarray(x)), want, rtol=1e-4, atol=1e-4)


@covering(
    "rank, strides, padding, dilation, use_bias, window",
    [1, 2, 3], [1, 2, 3], ["SAME", "VALID"], [1, 2], [True, False], [1, 2, 3],
    pairs=[(1, 2), (1, 5)],
)  # fmt: skip
def test_transposed_convolutions(
    rank: int, strides: int, padding: str, dilation: int, use_bias: bool, window: int
) -> None:
    x = drawn(2, *SPACE[rank], 4)
    layer = TRANSPOSED[rank].init(
        KEY, 4, 3, window, strides=strides, padding=padding, dilation=dilation, use_bias=use_bias
    )
    reach = (window - 1) * dilation + 1
    total = reach + strides - 2 + (max(reach - strides, 0) if padding == "VALID" else 0)
    low = reach - 1 if padding == "VALID" or strides > reach - 1 else -(-total // 2)
    spread = np.zeros((2, *((n - 1) * strides + 1 for n in SPACE[rank]), 4), np.float32)
    spread[(slice(None), *[slice(None, None, strides)] * rank)] = x
    ones = (1,) * rank
    each = windows(
        spread, both(window, rank), ones, [(low, total - low)] * rank, both(dilation, rank)
    )
    want = np.einsum("...pc,pco->...o", each, np.asarray(layer.weight).reshape(-1, 4, 3))
    np.testing.assert_allclose(layer(jnp.asarray(x)), want, rtol=1e-4, atol=1e-4)


@covering(
    "window, strides, padding, count, dtype",
    [1, 2, (3, 2)], [None, 1, (2, 3)], PADDINGS, [True, False], ["float32", "int32", "float16"],
    pairs=[(0, 2), (1, 2), (2, 3)],
)  # fmt: skip
def test_pooling(window: Any, strides: Any, padding: Any, count: bool, dtype: str) -> None:
    x = np.round(drawn(2, 8, 7, 3) * 9).astype(dtype)
    sizes = both(window, 2)
    name = padding.upper() if isinstance(padding, str) else padding
    how = (sizes, sizes if strides is None else both(strides, 2), name, (1, 1))
    wide = x.astype(np.float64)
    largest = windows(wide, *how, -np.inf).max(-2)
    least = np.iinfo(dtype).min if dtype == "int32" else -np.inf
    got = nn.max_pool(jnp.asarray(x), window, strides, padding)
    np.testing.assert_array_equal(got, np.maximum(largest, least))
    assert got.dtype == dtype
    if dtype != "int32":
        total, seen = windows(wide, *how).sum(-2), windows(np.ones_like(wide), *how).sum(-2)
        want = total / (prod(sizes) if count else seen)
        got = nn.avg_pool(jnp.asarray(x), window, strides, padding, count_include_pad=count)
        np.testing.assert_allclose(got, want, rtol=1e-6 if dtype == "float32" else 2e-3)
        assert got.dtype == dtype


@pytest.mark.parametrize("sizes", [1, 2, 3, (4, 7), (8, 1), (9, 10)])
def test_adaptive_pooling(sizes: Any) -> None:
    x = drawn(2, 8, 7, 3)
    want = x
    for axis, n in enumerate(both(sizes, 2), 1):
        m = x.shape[axis]
        ends = [(i * m // n, -(-(i + 1) * m // n)) for i in range(n)]
        parts = [
            np.take(want, range(low, high), axis).mean(axis, keepdims=True) for low, high in ends
        ]
        want = np.concatenate(parts, axis)
    np.testing.assert_allclose(
        nn.adaptive_avg_pool(jnp.asarray(x), sizes), want, rtol=1e-5, atol=1e-6
    )


NORMS = {  # a layer, the axes of an image that it standardizes, and whether it subtracts the mean
    "layer": (lambda **how: nn.LayerNorm.init(6, **how), (-1,), True),
    "rms": (lambda use_bias=None, **how: nn.RMSNorm.init(6, **how), (-1,), False),
    "group": (lambda **how: nn.GroupNorm.init(3, 6, **how), (1, 2, 4), True),
    "instance": (lambda **how: nn.InstanceNorm.init(6, **how), (1, 2), True),
    "batch": (lambda **how: nn.BatchNorm.init(6, decay=0.7, **how)[0], (0, 1, 2), True),
}


@covering(
    "norm, epsilon, use_weight, use_bias, dtype, scale",
    list(NORMS), [1e-5, 0.5], [True, False], [True, False], ["float32", "float16"], [0, 1, 100],
    pairs=[(0, 1), (0, 2), (0, 3), (0, 4), (0, 5)],
)  # fmt: skip
def test_norms(
    norm: str, epsilon: float, use_weight: bool, use_bias: bool, dtype: str, scale: int
) -> None:
    make, axes, centered = NORMS[norm]
    x = (drawn(2, 3, 4, 6) * scale).astype(dtype)
    how = {"epsilon": epsilon, "use_weight": use_weight, "dtype": dtype}
    layer = make(**how) if norm == "rms" else make(**how, use_bias=use_bias)
    weight = bias = None
    if use_weight:
        weight = drawn(6, seed=1).astype(dtype)
        layer = nn.tree_at(lambda m: m.weight, layer, jnp.asarray(weight))
    if use_bias and norm != "rms":
        bias = drawn(6, seed=2).astype(dtype)
        layer = nn.tree_at(lambda m: m.bias, layer, jnp.asarray(bias))
    wide = x.astype(np.float64)
    parts = wide.reshape(2, 3, 4, 3, 2) if norm == "group" else wide
    less = parts - (parts.mean(axes, keepdims=True) if centered else 0)
    variance = np.mean(less**2, axes, keepdims=True)
    want = (less / np.sqrt(variance + epsilon)).reshape(x.shape)
    want = want * (1 if weight is None else weight) + (0 if bias is None else bias)
    got = None if norm == "batch" else layer(jnp.asarray(x))
    if norm == "batch":
        state = nn.BatchNorm.init(6, dtype=dtype)[1]
        got, state = layer(jnp.asarray(x), state)
        np.testing.assert_allclose(state.mean, 0.3 * wide.mean((0, 1, 2)), rtol=1e-2, atol=1e-3)
        unbiased = 0.7 + 0.3 * wide.var((0, 1, 2), ddof=1)
        np.testing.assert_allclose(state.variance, unbiased, rtol=1e-2)
        still, same = layer(jnp.asarray(x), state, inference=True)
        assert same is state
        moved = (wide - np.asarray(state.mean)) / np.sqrt(np.asarray(state.variance) + epsilon)
        moved = moved * (1 if weight is None else weight) + (0 if bias is None else bias)
        np.testing.assert_allclose(still, moved, rtol=2e-2, atol=2e-2)
    rough = 1e-4 if dtype == "float32" else 1e-2
    np.testing.assert_allclose(got, want, rtol=rough, atol=rough)
    assert got.dtype == dtype


@covering(
    "heads, bias, mask, scale, is_causal, lengths, window, residual, batch",
    [1, 2, 4], [None, (5, 7), (4, 5, 7), (1, 5, 7)], [None, (5, 7), (4, 5, 7), (1, 1, 7)],
    [None, 0.5, 0.0], [True, False], [None, "queries", "keys"], [None, 1, (2, 0), (0, 3)],
    [True, False], [(), (2,), (2, 3)],
    pairs=[(1, 2), (0, 2), (0, 1), (2, 8), (5, 8)],
)  # fmt: skip
def test_attention(
    heads: int, bias: Any, mask: Any, scale: Any, is_causal: bool, lengths: Any, window: Any,
    residual: bool, batch: tuple[int, ...],
) -> None:  # fmt: skip
    if lengths is not None and not batch:
        batch = (3,)
    q, k, v = drawn(*batch, 5, 4, 6), drawn(*batch, 7, heads, 6), drawn(*batch, 7, heads, 3)
    how: dict[str, Any] = {"scale": scale, "is_causal": is_causal, "local_window_size": window}
    scores = np.einsum("...thd,...shd->...hts", q, np.repeat(k, 4 // heads, -2)).astype(np.float64)
    scores *= 6**-0.5 if scale is None else scale
    seen = np.ones(scores.shape, bool)
    if bias is not None:
        how["bias"] = drawn(*bias)
        scores = scores + how["bias"]
    if mask is not None:
        how["mask"] = drawn(*mask, seed=4) < 1
        seen &= how["mask"]
    place, other = np.arange(5)[:, None], np.arange(7)
    if is_causal:
        seen &= other <= place
    if window is not None:
        before, after = both(window, 2)
        seen &= (other >= place - before) & (other <= place + after)
    if lengths is not None:
        many = np.arange(prod(batch)).reshape(batch) % 6
        how["query_seq_lengths" if lengths == "queries" else "key_value_seq_lengths"] = many
        along = place if lengths == "queries" else other
        seen &= along < many[..., None, None, None]
    powers = np.where(seen, np.exp(scores - scores.max()), 0)
    total = powers.sum(-1, keepdims=True)
    weights = powers / np.where(total > 0, total, 1)
    want = np.einsum("...hts,...shd->...thd", weights, np.repeat(v, 4 // heads, -2))
    got = nn.dot_product_attention(*map(jnp.asarray, (q, k, v)), return_residual=residual, **how)
    if residual:
        got, logs = got
        expected = np.swapaxes(np.log(total[..., 0]) + scores.max(), -1, -2)
        np.testing.assert_allclose(logs, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@covering(
    "kv_heads, size, use_bias, base, interleaved, is_causal, positions, context",
    [None, 1, 2], [None, 4], [True, False], [None, 100.0], [True, False], [True, False],
    [None, "late"], [None, 7], pairs=[(3, 4), (3, 6), (3, 7)],
)  # fmt: skip
def test_attention_of_heads(
    kv_heads: Any, size: Any, use_bias: bool, base: Any, interleaved: bool, is_causal: bool,
    positions: Any, context: Any,
) -> None:  # fmt: skip
    if context and positions:
        context = None
    layer = nn.MultiheadAttention.init(
        KEY, 8, 4, kv_heads=kv_heads, size=size, use_bias=use_bias, rotary_base=base,
        interleaved=interleaved,
    )  # fmt: skip
    x, source = drawn(2, 5, 8), drawn(2, context or 5, 8, seed=0 if context is None else 1)
    places = None if positions is None else np.arange(3, 8)

    def split(part: nn.Linear, x: np.ndarray, heads: int) -> np.ndarray:
        y = x @ np.asarray(part.weight) + (0 if part.bias is None else np.asarray(part.bias))
        return y.reshape(*y.shape[:-1], heads, -1)

    def turned(x: np.ndarray) -> np.ndarray:
        if base is None:
            return x
        half = x.shape[-1] // 2
        angles = (np.arange(x.shape[1]) if places is None else places)[:, None, None] * base ** (
            -np.arange(half) / half
        )
        first, second = (x[..., ::2], x[..., 1::2]) if interleaved else np.split(x, 2, -1)
        turn = (first + 1j * second) * np.exp(1j * angles)
        if interleaved:
            return np.stack([turn.real, turn.imag], -1).reshape(x.shape)
        return np.concatenate([turn.real, turn.imag], -1)

    few = kv_heads or 4
    query = turned(split(layer.query, x, 4))
    key, value = turned(split(layer.key, source, few)), split(layer.value, source, few)
    mean = nn.dot_product_attention(*map(jnp.asarray, (query, key, value)), is_causal=is_causal)
    want = np.asarray(layer.out(jnp.asarray(mean, "float32").reshape(2, 5, -1)))
    got = layer(
        jnp.asarray(x), None if context is None else jnp.asarray(source), is_causal=is_causal,
        positions=None if places is None else jnp.asarray(places),
    )  # fmt: skip
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@covering(
    "layer, rate, given, own, dtype",
    [nn.Dropout, nn.DropPath], [0.0, 0.25, 1.0], [None, True, False], [True, False],
    ["float32", "float16"], pairs=[(0, 1), (2, 3)],
)  # fmt: skip
def test_dropped(layer: Any, rate: float, given: Any, own: bool, dtype: str) -> None:
    x = np.abs(drawn(400, 3)).astype(dtype) + 1
    got = np.asarray(layer(rate, own)(jnp.asarray(x), key=KEY, inference=given))
    assert got.dtype == dtype
    still = own if given is None else given
    if still or rate == 0:
        np.testing.assert_array_equal(got, x)
        return
    kept = got != 0
    assert abs(kept.mean() - (1 - rate)) < 0.08
    np.testing.assert_allclose(got[kept], (x[kept] / (1 - rate)).astype(dtype), rtol=1e-3)
    if layer is nn.DropPath:
        assert (kept == kept[:, :1]).all()


HALF = "float16"
MADE = {
    "Linear": lambda **how: nn.Linear.init(KEY, 4, 3, **how),
    "Embedding": lambda **how: nn.Embedding.init(KEY, 4, 3, **how),
    "MLP": lambda **how: nn.MLP.init(KEY, [4, 5, 3], **how),
    **{f"Conv{n}d": lambda n=n, **how: CONVOLUTIONS[n].init(KEY, 4, 3, 2, **how) for n in SPACE},
    **{
        f"ConvTranspose{n}d": lambda n=n, **how: TRANSPOSED[n].init(KEY, 4, 3, 2, **how)
        for n in SPACE
    },
    "LayerNorm": lambda **how: nn.LayerNorm.init(4, **how),
    "RMSNorm": lambda **how: nn.RMSNorm.init(4, **how),
    "GroupNorm": lambda **how: nn.GroupNorm.init(2, 4, **how),
    "InstanceNorm": lambda **how: nn.InstanceNorm.init(4, **how),
    "BatchNorm": lambda **how: nn.BatchNorm.init(4, **how)[0],
    "MultiheadAttention": lambda **how: nn.MultiheadAttention.init(KEY, 4, 2, **how),
    "FeedForward": lambda **how: nn.FeedForward.init(KEY, 4, 8, **how),
    "TransformerBlock": lambda **how: nn.TransformerBlock.init(KEY, 4, 2, **how),
    "LSTM": lambda **how: nn.LSTM.init(KEY, 4, 3, layers=2, **how),
    "LSTMCell": lambda **how: nn.LSTMCell.init(KEY, 4, 3, **how),
    "GRU": lambda **how: nn.GRU.init(KEY, 4, 3, layers=2, **how),
    "GRUCell": lambda **how: nn.GRUCell.init(KEY, 4, 3, **how),
    "KVCache": lambda **how: nn.KVCache.init(4, 1, 2, **how),
}


@pytest.mark.parametrize("name", MADE)
def test_parameters_have_the_dtype_that_is_asked_for(name: str) -> None:
    for dtype in ("float16", "bfloat16", "float64"):
        dtypes = {x.dtype.name for x in leaves(MADE[name](dtype=dtype))}
        assert dtypes - {"int32"} == {dtype}
    with pytest.raises(TfnError):
        MADE[name](dtype="int32")


def leaves(layer: Any) -> list[Any]:
    from tfn import tree

    return [x for x in tree.leaves(layer) if hasattr(x, "dtype")]


@pytest.mark.parametrize("name", ["Linear", "MLP", "Embedding", "Conv2d", "ConvTranspose2d"])
def test_initial_weights_are_those_of_the_initializer(name: str) -> None:
    layer = MADE[name](weight_init=nn.initializers.constant(0.5))
    values = {float(v) for x in leaves(layer) for v in np.asarray(x).ravel()}
    assert values <= {0.5, 0.0} and 0.5 in values


REFUSED = {
    "padding of one pair": lambda: nn.Conv2d.init(KEY, 2, 2, 3, padding=((1, 1),)),
    "padding as a number": lambda: nn.Conv2d.init(KEY, 2, 2, 3, padding=1),
    "padding by another name": lambda: nn.Conv2d.init(KEY, 2, 2, 3, padding="odd"),
    "strides of 0": lambda: nn.Conv1d.init(KEY, 2, 2, 3, strides=0),
    "dilation of 0": lambda: nn.Conv1d.init(KEY, 2, 2, 3, dilation=0),
    "groups of 0": lambda: nn.Conv1d.init(KEY, 2, 2, 3, groups=0),
    "groups that do not divide": lambda: nn.Conv1d.init(KEY, 3, 2, 3, groups=2),
    "groups of a transposed one": lambda: nn.ConvTranspose1d.init(KEY, 2, 2, 3, groups=2),
    "window of three": lambda: nn.Conv2d.init(KEY, 2, 2, (3, 3, 3)),
    "pooling padded by a number": lambda: nn.max_pool(jnp.ones((1, 4, 4, 1)), 2, 2, 1),
    "pooling padded by one pair": lambda: nn.avg_pool(jnp.ones((1, 4, 4, 1)), 2, 2, [(1, 1)]),
    "pooling padded by another name": lambda: nn.avg_pool(jnp.ones((1, 4, 4, 1)), 2, 2, "odd"),
    "pooling with no strides": lambda: nn.max_pool(jnp.ones((1, 4, 4, 1)), 2, 0),
    "pooling of no size": lambda: nn.adaptive_avg_pool(jnp.ones((1, 4, 4, 1)), 0),
    "pooling without space": lambda: nn.max_pool(jnp.ones((4, 1)), 2),
    "rate above 1": lambda: nn.Dropout(1.5)(jnp.ones(3), key=KEY),
    "rate below 0": lambda: nn.DropPath(-0.5)(jnp.ones(3), key=KEY),
    "no key": lambda: nn.Dropout(0.5)(jnp.ones(3)),
    "groups of channels": lambda: nn.GroupNorm.init(4, 6),
    "heads of keys": lambda: nn.MultiheadAttention.init(KEY, 8, 4, kv_heads=3),
    "heads of features": lambda: nn.MultiheadAttention.init(KEY, 9, 4),
    "odd heads that turn": lambda: nn.MultiheadAttention.init(KEY, 6, 2, rotary_base=1e4)(
        jnp.ones((2, 6))
    ),
    "a window of three": lambda: nn.dot_product_attention(
        *[jnp.ones((5, 1, 2))] * 3, local_window_size=(1, 2, 3)
    ),
    "a mask of floats": lambda: nn.dot_product_attention(
        *[jnp.ones((5, 1, 2))] * 3, mask=jnp.ones((5, 5))
    ),
    "a mask of another shape": lambda: nn.dot_product_attention(
        *[jnp.ones((5, 1, 2))] * 3, mask=jnp.ones((4, 5), bool)
    ),
    "a bias of another shape": lambda: nn.dot_product_attention(
        *[jnp.ones((5, 1, 2))] * 3, bias=jnp.ones((4, 5))
    ),
    "lengths of another batch": lambda: nn.dot_product_attention(
        *[jnp.ones((2, 5, 1, 2))] * 3, query_seq_lengths=jnp.ones(3, "int32")
    ),
    "one sequence with lengths": lambda: nn.dot_product_attention(
        *[jnp.ones((5, 1, 2))] * 3, query_seq_lengths=jnp.ones(2, "int32")
    ),
    "layers of 0": lambda: nn.LSTM.init(KEY, 4, 3, layers=0),
    "positions of another length": lambda: nn.rotary(jnp.ones((5, 1, 2)), jnp.arange(4)),
    "positions of floats, a string": lambda: nn.rotary(jnp.ones((5, 1, 2)), "odd"),
    "states of another number": lambda: nn.GRU.init(KEY, 4, 3, layers=2)(
        jnp.ones((5, 4)), [jnp.ones(3)]
    ),
    "one size of an MLP": lambda: nn.MLP.init(KEY, []),
    "an embedding of floats": lambda: nn.Embedding.init(KEY, 4, 3)(jnp.ones(3)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_nonsense_is_refused(name: str) -> None:
    with pytest.raises(TfnError):
        REFUSED[name]()
