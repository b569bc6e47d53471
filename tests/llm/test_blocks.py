"""Blocks of quantized weights: the bits of the reference."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

import tfn
from tests.llm import building
from tfn import numpy as jnp
from tfn.llm.blocks import BY_NAME, FORMATS, dequantized

QUANTIZED = [form.name for form in FORMATS.values() if form.dtype is None]

SUMS = {
    "Q4_0": 633_781_627,
    "Q4_1": 3_040_575_907,
    "Q5_0": 54_184_019,
    "Q5_1": 3_759_052_897,
    "Q8_0": 3_562_256_891,
    "Q1_0": 2_174_452_136,
    "Q2_K": 1_631_358_981,
    "Q3_K": 3_173_325_069,
    "Q4_K": 1_328_682_650,
    "Q5_K": 3_835_527_342,
    "Q6_K": 1_550_862_561,
    "IQ2_XXS": 663_769_090,
    "IQ2_XS": 2_431_084_504,
    "IQ3_XXS": 52_549_481,
    "IQ1_S": 1_110_921_992,
    "IQ4_NL": 817_377_010,
    "IQ3_S": 3_198_092_842,
    "IQ2_S": 1_725_275_102,
    "IQ4_XS": 2_209_042_395,
    "IQ1_M": 1_584_980_687,
    "TQ1_0": 920_784_212,
    "TQ2_0": 179_994_913,
    "MXFP4": 41_105_133,
    "NVFP4": 841_431_115,
}
"""Checksums of what random bytes mean, by `gguf.dequantize` of the package gguf 0.19; for Q1_0,
which it does not have, by the C of ggml."""


def meaning(name: str, compiled: bool = True) -> np.ndarray:
    form = BY_NAME[name]
    raw = np.random.default_rng(7).integers(0, 256, (16, 2, form.bytes), np.uint8)
    f = tfn.jit(lambda raw: dequantized(raw, form)) if compiled else lambda r: dequantized(r, form)
    return np.asarray(f(jnp.asarray(raw)))


def checksum(x: np.ndarray) -> int:
    return zlib.crc32(np.where(np.isnan(x), np.float32(0), x).tobytes())


@pytest.mark.parametrize("name", QUANTIZED)
def test_blocks_mean_what_the_reference_says(name: str) -> None:
    x = meaning(name)
    assert x.shape == (16, 2 * BY_NAME[name].elements) and x.dtype == np.float32
    assert checksum(x) == SUMS[name]


def test_what_is_written_is_read() -> None:
    x = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    _, _, raw = building.tensor(x, "Q8_0")
    blocks = np.frombuffer(raw, np.uint8).reshape(4, 2, 34)
    assert np.allclose(dequantized(jnp.asarray(blocks), BY_NAME["Q8_0"]), x, atol=0.02)
