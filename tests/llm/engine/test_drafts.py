"""Drafts: what followed an earlier occurrence, and how many tokens of it."""

from __future__ import annotations

from tfn.llm.engine.drafts import Drafts


def test_what_followed_the_last_occurrence_is_drafted() -> None:
    drafts = Drafts([1, 2, 3, 4, 9, 1, 2, 3, 5, 6, 7, 1, 2, 3])
    assert drafts.draft(8) == [5, 6]
    drafts.judge(2, 2)
    assert drafts.draft(8) == [5, 6, 7, 1] and drafts.draft(3) == [5, 6, 7]
    assert drafts.draft(0) == []


def test_longer_runs_come_before_later_ones() -> None:
    assert Drafts([1, 2, 3, 4, 5, 3, 4, 6, 1, 2, 3, 4]).draft(1) == [5]


def test_a_text_without_repetition_has_no_draft() -> None:
    tokens = [1, 2, 3, 4]
    drafts = Drafts(tokens)
    assert drafts.draft(4) == [] and Drafts([1]).draft(4) == []
    tokens += [2, 3]
    assert drafts.draft(4) == [4, 2]


def test_drafts_become_as_long_as_they_are_right() -> None:
    drafts = Drafts([1, 2] * 10)
    lengths = []
    for accepted in (2, 4, 3, 0, 1):
        tokens = drafts.draft(8)
        lengths.append(len(tokens))
        drafts.judge(len(tokens), min(accepted, len(tokens)))
    assert lengths == [2, 4, 8, 3, 1]
