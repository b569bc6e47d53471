"""Sort plan: which rows a network sorts, and which are sorted one by one."""

from __future__ import annotations

from tests.lower.codegen.sort.test_sort import keys_only, sorting
from tfn.dtypes import BFLOAT16, FLOAT32, FLOAT64, INT64, UINT32, UINT64
from tfn.lower.codegen.sort import network
from tfn.lower.codegen.sort.plan import MAX_GROUPS, MAX_INSERTION_ELEMENTS, plan_of, scratch


def test_few_or_long_rows_and_wide_words_are_sorted_one_by_one() -> None:
    assert plan_of(keys_only(64, 20)).lanes == network.lanes(UINT32) == 16
    assert plan_of(keys_only(64, 20, dtype=FLOAT64)).lanes == network.lanes(UINT64) == 8
    assert plan_of(sorting(64, 20)).lanes == 8
    alone = keys_only(1, 500), keys_only(64, 100_000), sorting(64, 20, keys=INT64)
    assert not any(plan_of(body).lanes for body in alone)


def test_scratch_is_for_the_rows_that_are_sorted_at_a_time() -> None:
    assert plan_of(keys_only(10_000, 20)).groups == MAX_GROUPS
    assert plan_of(keys_only(10_000, 20)).scratch_size == 16 * 20
    assert plan_of(sorting(1, MAX_INSERTION_ELEMENTS)).scratch_size == MAX_INSERTION_ELEMENTS


def test_keys_only_scratch_is_as_wide_as_the_keys() -> None:
    for dtype, word in ((BFLOAT16, UINT32), (FLOAT32, UINT32), (INT64, UINT64)):
        node = keys_only(1, 5000, dtype=dtype).src[0].src[0]
        assert scratch(node, (0,)).dtype == word
    node = sorting(1, 5000).src[0].src[0]
    assert scratch(node, (0,)).dtype == UINT32
    assert scratch(node, (1,)).dtype == scratch(node, (0, 1)).dtype == UINT64
