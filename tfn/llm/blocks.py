"""Blocks of quantized weights as array code: each format of ggml as a function of raw bytes.

A row of a tensor is blocks of some weights each, with their scales beside them.  Weights stay such
blocks in memory; a function here turns the bytes of blocks (..., bytes) into float32 (..., weights)
in the program that uses them, with the bits of the reference.

Source: github.com/ggml-org/ggml, src/ggml-common.h and src/ggml-quants.c.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from tfn import numpy as jnp
from tfn.array import Array
from tfn.extend import frozen

CODEBOOKS = Path(__file__).with_name("codebooks.txt")
"""Lattices: a line with name, values and length of points, and lines of digits."""

NONLINEAR = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
"""The values of the codes of IQ4."""

E2M1 = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
"""Twice the values of floats with two bits of exponent and one of mantissa."""

Dequantize = Callable[[Array], Array]


class Codes(NamedTuple):
    """Weights of blocks as integers: ``scale * (codes - zero) - least``.

    Attributes:
        scale: float32 (..., 1).
        codes: int8 or uint8 (..., elements).
        least: float32 (..., 1); None for zeros.
        zero: the code of zero.
    """

    scale: Array
    codes: Array
    least: Array | None = None
    zero: int = 0

    @property
    def signed(self) -> Array:
        """Codes of which 0 stands for zero."""
        return self.codes.view("int8") - self.zero if self.zero else self.codes


@frozen
class Format:
    """A way of writing weights.

    Attributes:
        name: of ggml.
        elements: weights in a block.
        bytes: bytes of a block.
        dtype: of plain numbers; None for quantized blocks.
        dequantize: from bytes (..., bytes) to float32 (..., elements); None for plain numbers.
        codes: from bytes to integers with one scale a block; None for other formats.
    """

    name: str
    elements: int
    bytes: int
    dtype: np.dtype[Any] | None = None
    dequantize: Dequantize | None = None
    codes: Callable[[Array], Codes] | None = None

    @property
    def bits(self) -> float:
        """Bits a weight."""
        return 8 * self.bytes / self.elements


def dequantized(raw: Array, form: Format) -> Array:
    """The weights (..., rows, columns) of blocks (..., rows, blocks, bytes).

    Example:
        >>> block = np.zeros((1, 1, 34), np.uint8)
        >>> block[..., 1], block[..., 2:] = 0x3C, 2  # a scale of 1, and 32 times 2
        >>> dequantized(jnp.asarray(block), BY_NAME["Q8_0"])[0, :4]
        Array([2., 2., 2., 2.], dtype=float32)
    """
    assert form.dequantize is not None
    return form.dequantize(raw).reshape(*raw.shape[:-2], -1)


def _half(raw: Array, at: int) -> Array:
    """The float16 at a place, for each block (..., 1)."""
    half: Array = raw[..., at : at + 2].view("float16")
    return half.astype("float32")


def _fields(x: Array, bits: int, group: int = 1) -> Array:
    """Fields of some bits: of each group of bytes first the lowest fields, then the next ones."""
    parts = x.reshape(*x.shape[:-1], -1, 1, group)
    shifts = jnp.arange(0, 8, bits, dtype="uint8")[:, None]
    fields: Array = (parts >> shifts) & (2**bits - 1)
    return fields.reshape(*x.shape[:-1], -1)


def _by(x: Array, size: int) -> Array:
    """Groups (..., groups, size)."""
    return x.reshape(*x.shape[:-1], -1, size)


def _flat(x: Array, rank: int) -> Array:
    """The last `rank` axes as one."""
    return x.reshape(*x.shape[:-rank], -1)


def _signed(x: Array, offset: int) -> Array:
    """Codes of which `offset` stands for zero."""
    return (x.view("int8") - offset).astype("float32")


def _q4_0(raw: Array) -> Codes:
    return Codes(_half(raw, 0), _fields(raw[..., 2:], 4, 16), zero=8)


def _q4_1(raw: Array) -> Codes:
    return Codes(_half(raw, 0), _fields(raw[..., 4:], 4, 16), -_half(raw, 2))


def _five(raw: Array, at: int) -> Array:
    """Codes of 5 bits: the highest ones in 4 bytes, then the others."""
    return _fields(raw[..., at + 4 :], 4, 16) | (_fields(raw[..., at : at + 4], 1) << 4)


def _q5_0(raw: Array) -> Codes:
    return Codes(_half(raw, 0), _five(raw, 2), zero=16)


def _q5_1(raw: Array) -> Codes:
    return Codes(_half(raw, 0), _five(raw, 4), -_half(raw, 2))


def _q8_0(raw: Array) -> Codes:
    return Codes(_half(raw, 0), raw[..., 2:].view("int8"))


def _q1_0(raw: Array) -> Array:
    scale = _half(raw, 0)
    return jnp.where(_fields(raw[..., 2:], 1) == 1, scale, -scale)


def _q2_k(raw: Array) -> Array:
    scales, codes = raw[..., :16], _by(_fields(raw[..., 16:80], 2, 32), 16).astype("float32")
    scale = (_half(raw, 80) * (scales & 15).astype("float32"))[..., None]
    least = (_half(raw, 82) * (scales >> 4).astype("float32"))[..., None]
    return _flat(scale * codes - least, 2)


def _q3_k(raw: Array) -> Array:
    low, high = _fields(raw[..., 96:104], 4, 8), _fields(raw[..., 104:108], 2, 4)
    scale = (_half(raw, 108) * _signed(low | (high << 4), 32))[..., None]
    codes = _fields(raw[..., 32:96], 2, 32) | (_fields(raw[..., :32], 1, 32) << 2)
    return _flat(scale * _by(_signed(codes, 4), 16), 2)


def _scales_and_minima(raw: Array) -> tuple[Array, Array]:
    """Eight scales and eight minima of 6 bits each in 12 bytes, times their float16."""
    a, b, c = raw[..., 4:8], raw[..., 8:12], raw[..., 12:16]
    scales = jnp.concatenate([a & 63, (c & 15) | ((a >> 2) & 48)], -1).astype("float32")
    minima = jnp.concatenate([b & 63, (c >> 4) | ((b >> 2) & 48)], -1).astype("float32")
    return (_half(raw, 0) * scales)[..., None], (_half(raw, 2) * minima)[..., None]


def _q4_k(raw: Array) -> Array:
    scale, least = _scales_and_minima(raw)
    codes = _by(_fields(raw[..., 16:], 4, 32), 32).astype("float32")
    return _flat(scale * codes - least, 2)


def _q5_k(raw: Array) -> Array:
    scale, least = _scales_and_minima(raw)
    codes = _fields(raw[..., 48:], 4, 32) | (_fields(raw[..., 16:48], 1, 32) << 4)
    return _flat(scale * _by(codes, 32).astype("float32") - least, 2)


def _q6_k(raw: Array) -> Array:
    scales = raw[..., 192:208].view("int8").astype("float32")
    codes = _fields(raw[..., :128], 4, 64) | (_fields(raw[..., 128:192], 2, 32) << 4)
    return _flat((_half(raw, 208) * scales)[..., None] * _by(_signed(codes, 32), 16), 2)


def _tq1_0(raw: Array) -> Array:
    def digits(x: Array, group: int, count: int) -> Array:
        """Digits of base 3 as the highest bits of a byte, moved up by products that overflow."""
        powers = jnp.asarray(3 ** np.arange(count), dtype="uint8")[:, None]
        return (_by(x, group)[..., None, :] * powers).reshape(*x.shape[:-1], -1)

    parts = (
        digits(raw[..., :32], 32, 5),
        digits(raw[..., 32:48], 16, 5),
        digits(raw[..., 48:52], 4, 4),
    )
    codes = (jnp.concatenate(parts, -1).astype("uint16") * 3) >> 8
    return _half(raw, 52) * (codes.astype("int8") - 1).astype("float32")


def _tq2_0(raw: Array) -> Array:
    return _half(raw, 64) * _signed(_fields(raw[..., :64], 2, 32), 1)


def _looked_up(values: tuple[int, ...], codes: Array) -> Array:
    return jnp.asarray(np.array(values, np.float32))[codes.astype("int32")]


def _mxfp4(raw: Array) -> Array:
    exponent = raw[..., :1].astype("uint32")
    bits = jnp.where(exponent < 2, 0x200000 << exponent, (exponent - 1) << 23)
    return bits.view("float32") * _looked_up(E2M1, _fields(raw[..., 1:], 4, 16))


def _nvfp4(raw: Array) -> Array:
    code = raw[..., :4]
    scale = jnp.asarray(_e4m3())[code.astype("int32")][..., None]
    return _flat(scale * _by(_looked_up(E2M1, _fields(raw[..., 4:], 4, 8)), 16), 2)


@cache
def _e4m3() -> np.ndarray[Any, Any]:
    """Half of the floats with 4 bits of exponent and 3 of mantissa; the sign is not looked at."""
    exponent, mantissa = np.arange(256) >> 3 & 15, np.arange(256) & 7
    value = np.where(
        exponent == 0, mantissa * 2.0**-9, (1 + mantissa / 8) * 2.0 ** (exponent - 7.0)
    )
    value[[0, 127]] = 0
    return (value / 2).astype(np.float32)


def _iq4_nl(raw: Array) -> Array:
    return _half(raw, 0) * _looked_up(NONLINEAR, _fields(raw[..., 2:], 4, 16))


def _iq4_xs(raw: Array) -> Array:
    scales = _fields(raw[..., 4:8], 4) | (_fields(raw[..., 2:4], 2) << 4)
    codes = _looked_up(NONLINEAR, _fields(raw[..., 8:], 4, 16))
    return _flat((_half(raw, 0) * _signed(scales, 32))[..., None] * _by(codes, 32), 2)


@cache
def _codebook(name: str) -> np.ndarray[Any, Any]:
    """Points of a lattice: float32 (points, weights)."""
    for part in CODEBOOKS.read_text().strip().split("\n\n"):
        first, *lines = part.split("\n")
        found, values, size = first.split(" ")
        if found == name:
            digits = np.array([*map(int, "".join(lines))])
            points = np.array([*map(float, values.split(","))], np.float32)[digits]
            return np.reshape(points, (-1, int(size)))
    raise KeyError(name)


def _points(name: str, codes: Array) -> Array:
    return jnp.asarray(_codebook(name))[codes.astype("int32")]


def _signs(bits: Array) -> Array:
    """1 or -1 for each bit of bytes (...) -> (..., 8)."""
    shifts = jnp.arange(8, dtype="uint8")
    return jnp.where((bits[..., None] >> shifts) & 1 == 0, 1.0, -1.0).astype("float32")


def _seven_signs(codes: Array) -> Array:
    """Signs of 7 bits, and an eighth that makes the number of negative ones even."""
    codes = codes.astype("uint8")
    parity = codes ^ (codes >> 4)
    parity = parity ^ (parity >> 2)
    return _signs(codes | ((parity ^ (parity >> 1)) << 7))


def _eighths(raw: Array, scales: Array, factor: float) -> Array:
    """The scale of each group: codes and a half, times the block's."""
    return (_half(raw, 0) * (0.5 + scales.astype("float32")) * factor)[..., None, None]


def _shifted(words: Array, shifts: tuple[int, ...], mask: int) -> Array:
    """Fields of words (..., words) -> (..., words, fields)."""
    return (words[..., None] >> jnp.asarray(shifts, dtype=words.dtype)) & mask


def _iq2_xxs(raw: Array) -> Array:
    words = raw[..., 2:].view("uint32").reshape(*raw.shape[:-1], 8, 2)
    codes = _by(raw[..., 2:], 8)[..., :4]
    scale = _eighths(raw, words[..., 1] >> 28, 0.25)
    signs = _seven_signs(_shifted(words[..., 1], (0, 7, 14, 21), 127))
    return _flat(scale * _points("IQ2_XXS", codes) * signs, 3)


def _iq2_xs(raw: Array) -> Array:
    words = _by(raw[..., 2:66].view("uint16"), 2)
    scale = _eighths(raw, _fields(raw[..., 66:], 4), 0.25)
    return _flat(scale * _points("IQ2_XS", words & 511) * _seven_signs(words >> 9), 3)


def _iq2_s(raw: Array) -> Array:
    high = _fields(raw[..., 66:74], 2).astype("uint16")
    codes = _by(raw[..., 2:34].astype("uint16") | (high << 8), 2)
    scale = _eighths(raw, _fields(raw[..., 74:], 4), 0.25)
    return _flat(scale * _points("IQ2_S", codes) * _signs(_by(raw[..., 34:66], 2)), 3)


def _iq3_xxs(raw: Array) -> Array:
    words = raw[..., 66:].view("uint32")
    signs = _seven_signs(_shifted(words, (0, 7, 14, 21), 127))
    points = _by(_points("IQ3_XXS", raw[..., 2:66]).reshape(*raw.shape[:-1], -1), 8)
    return _flat(_eighths(raw, words >> 28, 0.5) * points.reshape(signs.shape) * signs, 3)


def _iq3_s(raw: Array) -> Array:
    high = _fields(raw[..., 66:74], 1).astype("uint16")
    points = _points("IQ3_S", raw[..., 2:66].astype("uint16") | (high << 8))
    scale = _half(raw, 0) * (1 + 2 * _fields(raw[..., 106:], 4)).astype("float32")
    signs = _signs(_by(raw[..., 74:106], 4))
    return _flat(scale[..., None, None] * points.reshape(signs.shape) * signs, 3)


DELTA = 0.125
"""The distance of points of IQ1 from whole numbers."""


def _iq1_s(raw: Array) -> Array:
    words = raw[..., 34:].view("uint16")
    high = _flat(_shifted(words, (0, 3, 6, 9), 7), 2)
    points = _points("IQ1_S", _by(raw[..., 2:34].astype("uint16") | (high << 8), 4))
    scale = _half(raw, 0) * (2 * ((words >> 12) & 7) + 1).astype("float32")
    delta = jnp.where(words & 0x8000 == 0, DELTA, -DELTA).astype("float32")
    return _flat(scale[..., None, None] * (points + delta[..., None, None]), 3)


def _iq1_m(raw: Array) -> Array:
    words = raw[..., 48:].view("uint16")
    bits = (words >> 12) << jnp.asarray([0, 4, 8, 12], dtype="uint16")
    bits = bits[..., :1] | bits[..., 1:2] | bits[..., 2:3] | bits[..., 3:]
    codes = _flat(_shifted(words, (0, 3, 6, 9), 7), 2)
    scale = bits.view("float16").astype("float32") * (2 * codes + 1).astype("float32")
    fields = _fields(raw[..., 32:48], 4)
    points = _points("IQ1_S", raw[..., :32].astype("uint16") | ((fields & 7).astype("uint16") << 8))
    delta = jnp.where(fields & 8 == 0, DELTA, -DELTA).astype("float32")
    moved = (points + delta[..., None]).reshape(*raw.shape[:-1], 16, 16)
    return _flat(scale[..., None] * moved, 2)


def _plain(name: str, dtype: Any) -> Format:
    return Format(name, 1, np.dtype(dtype).itemsize, np.dtype(dtype))


def _coded(name: str, size: int, codes: Callable[[Array], Codes]) -> Format:
    def dequantize(raw: Array) -> Array:
        block = codes(raw)
        numbers = block.scale * block.signed.astype("float32")
        return numbers if block.least is None else numbers - block.least

    return Format(name, 32, size, None, dequantize, codes)


# fmt: off
FORMATS: dict[int, Format] = {
    0: _plain("F32", "<f4"), 1: _plain("F16", "<f2"), 28: _plain("F64", "<f8"),
    24: _plain("I8", "i1"), 25: _plain("I16", "<i2"), 26: _plain("I32", "<i4"),
    27: _plain("I64", "<i8"), 30: _plain("BF16", ml_dtypes.bfloat16),
    2: _coded("Q4_0", 18, _q4_0), 3: _coded("Q4_1", 20, _q4_1),
    6: _coded("Q5_0", 22, _q5_0), 7: _coded("Q5_1", 24, _q5_1),
    8: _coded("Q8_0", 34, _q8_0), 41: Format("Q1_0", 128, 18, None, _q1_0),
    10: Format("Q2_K", 256, 84, None, _q2_k), 11: Format("Q3_K", 256, 110, None, _q3_k),
    12: Format("Q4_K", 256, 144, None, _q4_k), 13: Format("Q5_K", 256, 176, None, _q5_k),
    14: Format("Q6_K", 256, 210, None, _q6_k),
    16: Format("IQ2_XXS", 256, 66, None, _iq2_xxs), 17: Format("IQ2_XS", 256, 74, None, _iq2_xs),
    18: Format("IQ3_XXS", 256, 98, None, _iq3_xxs), 19: Format("IQ1_S", 256, 50, None, _iq1_s),
    20: Format("IQ4_NL", 32, 18, None, _iq4_nl), 21: Format("IQ3_S", 256, 110, None, _iq3_s),
    22: Format("IQ2_S", 256, 82, None, _iq2_s), 23: Format("IQ4_XS", 256, 136, None, _iq4_xs),
    29: Format("IQ1_M", 256, 56, None, _iq1_m),
    34: Format("TQ1_0", 256, 54, None, _tq1_0), 35: Format("TQ2_0", 256, 66, None, _tq2_0),
    39: Format("MXFP4", 32, 17, None, _mxfp4), 40: Format("NVFP4", 64, 36, None, _nvfp4),
}
"""Formats by the numbers that files have."""
# fmt: on

BY_NAME = {form.name: form for form in FORMATS.values()}
"""Formats by name."""
