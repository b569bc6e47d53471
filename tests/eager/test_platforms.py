"""Devices by name: each has a maker, and a name without one is an error."""

from __future__ import annotations

from tfn.eager.platforms import DRIVEN, MAKERS, no_device


def test_platforms_of_drivers_have_makers() -> None:
    assert set(MAKERS) > DRIVEN
    assert "cpu" not in DRIVEN


def test_the_error_lists_all_platforms() -> None:
    text = str(no_device("abacus", "config.device='abacus'"))
    assert "no device 'abacus'" in text and all(name in text for name in MAKERS)
