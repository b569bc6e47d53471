"""Quantised weights as users write them: formats of blocks, each as records and as float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tfn
import tfn.numpy as tnp
from tfn import lax
from tfn._support.frozen import frozen
from tfn.lower import pipeline
from tfn.lower.target.target import Target

AVX2 = Target("x86_64-unknown-linux-gnu", "x86-64-v3", "+avx2", 32, 16)


@frozen
class Format:
    """Rows of blocks of weights.

    Attributes:
        elements: of a block.
        draw: rows of blocks as arrays.
        dequantised: those arrays as a matrix of float32, in functions of tfn.
        exact: the same in NumPy.
    """

    elements: int
    draw: Callable[[np.random.Generator, int, int], list[np.ndarray]]
    dequantised: Callable[..., Any]
    exact: Callable[..., np.ndarray]


def _halves(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.uniform(0.01, 1.0, shape).astype(np.float16)


def _bytes(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(0, 256, shape).astype(np.uint8)


def _rows(blocks: Any) -> Any:
    return blocks.reshape(blocks.shape[0], -1)


def _of_8_bits(q: Any, d: Any) -> Any:
    return _rows(q.astype("float32") * d.astype("float32")[..., None])


def _record(r: Any) -> Any:
    d = lax.bitcast_convert_type(r[..., :2], "float16")
    return _of_8_bits(lax.bitcast_convert_type(r[..., 2:], "int8"), d)


def _of_4_bits(p: Any, d: Any) -> Any:
    q = tnp.concatenate([p & 15, p >> 4], -1).astype("float32") - 8
    return _rows(q * d.astype("float32")[..., None])


def _of_4_bits_with_minima(p: Any, d: Any, m: Any) -> Any:
    low, high = ((q * d[..., None] + m[..., None]) for q in (p & 15, p >> 4))
    return _rows(tnp.stack([low, high], -2))


def _of_superblocks(p: Any, s: Any, d: Any) -> Any:
    q = tnp.stack([p & 15, p >> 4], -2).reshape(*p.shape[:-2], 8, 32)
    scale = d[..., None] * s.astype("float32")
    return _rows(q.astype("float32") * scale[..., None])


def _numpy_record(r: np.ndarray) -> np.ndarray:
    d = np.ascontiguousarray(r[..., :2]).view(np.float16)[..., 0]
    return _rows(r[..., 2:].view(np.int8).astype("f4") * d.astype("f4")[..., None])


def _numpy_minima(p: np.ndarray, d: np.ndarray, m: np.ndarray) -> np.ndarray:
    return _rows(np.concatenate([p & 15, p >> 4], -1) * d[..., None] + m[..., None])


def _numpy_superblocks(p: np.ndarray, s: np.ndarray, d: np.ndarray) -> np.ndarray:
    q = np.stack([p & 15, p >> 4], -2).reshape(*p.shape[:-2], 8, 32)
    return _rows(q * (d[..., None] * s.astype("f4"))[..., None])


FORMATS = {
    "8 bits": Format(
        32,
        lambda rng, r, n: [_bytes(rng, r, n, 32).view(np.int8), _halves(rng, r, n)],
        _of_8_bits,
        lambda q, d: _rows(q * d.astype("f4")[..., None]),
    ),
    "records of 34 bytes": Format(
        32,
        lambda rng, r, n: [
            np.concatenate([_halves(rng, r, n, 1).view(np.uint8), _bytes(rng, r, n, 32)], -1)
        ],
        _record,
        _numpy_record,
    ),
    "4 bits": Format(
        32,
        lambda rng, r, n: [_bytes(rng, r, n, 16), _halves(rng, r, n)],
        _of_4_bits,
        lambda p, d: _rows(
            (np.concatenate([p & 15, p >> 4], -1) - np.float32(8)) * d.astype("f4")[..., None]
        ),
    ),
    "4 bits with minima": Format(
        32,
        lambda rng, r, n: [
            _bytes(rng, r, n, 16),
            _halves(rng, r, n).astype("f4"),
            _halves(rng, r, n).astype("f4"),
        ],
        _of_4_bits_with_minima,
        _numpy_minima,
    ),
    "superblocks of 256": Format(
        256,
        lambda rng, r, n: [
            _bytes(rng, r, n, 4, 32),
            _bytes(rng, r, n, 8),
            _halves(rng, r, n).astype("f4"),
        ],
        _of_superblocks,
        _numpy_superblocks,
    ),
}


def draw(name: str, rows: int, columns: int, seed: int = 0) -> Sequence[np.ndarray]:
    """Arrays of a format that stand for a matrix of `rows` by at least `columns`."""
    of = FORMATS[name]
    return of.draw(np.random.default_rng(seed), rows, -(-columns // of.elements))


def close(got: Any, expected: np.ndarray) -> None:
    """Equal but for the rounding of sums."""
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-5 * np.abs(expected).max())


def draw_bytes(dtype: str, *shape: int) -> np.ndarray:
    """All values of a dtype alike."""
    info = np.iinfo(dtype)
    return np.random.default_rng(0).integers(info.min, info.max + 1, shape).astype(dtype)


def text_of(f: Any, *arrays: np.ndarray) -> str:
    """The text of the one kernel of a function."""
    program = pipeline.lower(tfn.make_jaxpr(f)(*arrays), AVX2)
    (kernel,) = program.kernels
    return kernel.text
