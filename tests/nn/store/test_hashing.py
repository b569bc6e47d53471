"""BLAKE3 by arrays, against the package and recorded digests."""

from __future__ import annotations

import numpy as np
import pytest

import tfn
from tfn import numpy as jnp
from tfn.errors import ShapeError
from tfn.nn.store import digest, hashing

RAW = (np.arange(9000) % 251).astype(np.uint8)  # as the vectors of the reference implementation

RECORDED = {
    0: "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
    1: "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213",
    1023: "10108970eeda3eb932baac1428c7a2163b0e924c9a9e25b35bba72b28f70bd11",
    1024: "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7",
    1025: "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444",
    2048: "e776b6028c7cd22a4d0ba182a8bf62205d2ef576467e838ed6f2529b85fba24a",
    2049: "5f4d72f40d7a5f82b15ca2b2e44b1de3c2ef86c426c95c1af0b6879522563030",
    4096: "015094013f57a5277b59d8475c0501042c0b642e531b0a1c8f58d2163229e969",
    5121: "628bd2cb2004694adaab7bbd778a25df25c47b9d4155a55f8fbd79f2fe154cff",
    8192: "aae792484c8efe4f19e2ca7d371d8c467ffb10748d8a5a1ae579948f718a2a63",
}
"""By lengths, from the vectors of the reference implementation."""


EDGES = sorted(
    {n + d for n in (1, 64, 128, 960, 1024, 2048, 3072, 5120, 7168, 8192) for d in (-1, 0, 1)}
)


def padded(lengths: list[int]) -> np.ndarray:
    """The first bytes of `RAW`, so many each, as words."""
    raw = np.zeros((len(lengths), 16 * 1024), np.uint8)
    for row, length in zip(raw, lengths, strict=True):
        row[:length] = RAW[:length]
    return raw.view("<u4")


def test_digests_of_all_lengths_around_edges_in_one_batch(uncompiled: None) -> None:
    blake3 = pytest.importorskip("blake3", reason="the package blake3 is not installed")
    lengths = [*RECORDED, *EDGES]
    hashed = tfn.jit(tfn.vmap(hashing.blake3))
    found = np.asarray(hashed(jnp.asarray(padded(lengths)), jnp.asarray(lengths, jnp.uint32)))
    for length, row in zip(lengths, found, strict=True):
        assert row.astype("<u4").tobytes() == blake3.blake3(RAW[:length].data).digest(), length
        assert row.astype("<u4").tobytes().hex() == RECORDED.get(length, digest(RAW[:length]))


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("length", [0, 1024, 2048])
def test_digests_are_those_of_the_reference(length: int) -> None:
    assert hashing.by_arrays(RAW[:length]).hex() == digest(RAW[:length]) == RECORDED[length]


@pytest.mark.parametrize("words", [0, 255, 768])
def test_other_numbers_of_words_are_refused(words: int) -> None:
    with pytest.raises(ShapeError, match="power of two"):
        hashing.blake3(jnp.zeros(words, jnp.uint32))


def test_without_the_package_arrays_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "blake3", None)
    assert hashing._function.__wrapped__() is hashing.by_arrays
