"""Words: chunks of keys, and an order that is that of keys and then of numbers."""

from __future__ import annotations

import numpy as np

from tests.lower.codegen.sort.test_sort import sorting
from tests.lower.graphs import p, run_oracle
from tfn.dtypes import BFLOAT16, BOOL, FLOAT32, INT64, UINT32
from tfn.lower.codegen.sort.plan import plan_of
from tfn.lower.codegen.sort.words import PAYLOAD_BITS, chunks_of, words_of


def test_wide_keys_and_several_are_sorted_by_32_bits_the_least_significant_first() -> None:
    wide, narrow = p(0, 5, dtype=INT64), p(1, 5, dtype=BFLOAT16)
    chunks = chunks_of([wide, narrow], keys_only=False)
    assert [(c.key, c.low, c.bits) for c in chunks] == [
        (narrow, 0, 16),
        (wide, 0, 32),
        (wide, 32, 32),
    ]
    assert [(c.first, c.last) for c in chunks] == [(True, False), (False, False), (False, True)]
    assert [len(c.digits) for c in chunks] == [2, 4, 4]


def test_a_key_that_is_the_only_result_is_one_chunk_of_all_its_bits() -> None:
    for dtype, bits in ((INT64, 64), (BOOL, 8)):
        (chunk,) = chunks_of([p(0, 5, dtype=dtype)], keys_only=True)
        assert (chunk.low, chunk.bits, chunk.first, chunk.last) == (0, bits, True, True)


def test_words_are_ordered_by_keys_and_then_by_numbers() -> None:
    keys = np.array([1.5, -0.0, np.nan, 0.0, -np.inf, 1.5, -2.0], np.float32)
    numbers = np.arange(keys.size, dtype=np.uint32)
    plan = plan_of(sorting(1, keys.size))
    word = words_of(plan, p(0, keys.size, dtype=FLOAT32), p(1, keys.size, dtype=UINT32))
    (words,) = run_oracle([word], [keys, numbers])
    assert words.dtype == np.uint64
    assert (words & np.uint64(PAYLOAD_BITS)).tolist() == numbers.tolist()
    assert np.argsort(words).tolist() == np.argsort(keys, kind="stable").tolist()
