"""Denormal numbers: flushed by all threads of programs, and by no others."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tfn
from tfn import numpy as tnp
from tfn.config import config
from tfn.hw.cpu import denormals
from tfn.hw.cpu.device import cpu

TINY = np.float32(1e-42)


@pytest.fixture(autouse=True)
def kept_again() -> Iterator[None]:
    yield
    tfn.flush_denormals(False)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", [8, 1 << 20])
def test_flushing_can_be_switched_off_again(
    size: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "device", "cpu")
    monkeypatch.setattr(config, "threads", threads)
    f, x = tfn.jit(lambda x: (x * 0.5 > 0).sum()), tnp.full(size, TINY)
    for on in (False, True, True, False):
        tfn.flush_denormals(on)
        assert f(x).item() == (0 if on else size)
        assert TINY * np.float32(0.5) > 0  # the caller's own arithmetic stays as it is


def test_later_devices_follow_the_mode() -> None:
    tfn.flush_denormals()
    word = ctypes.c_uint32.from_address(cpu().queue.runtime.addresses["float_mode"])
    assert word.value == denormals.mode()
    tfn.flush_denormals(False)
    assert word.value == denormals.mode()


@pytest.mark.parametrize("on", ["off", 1, None], ids=repr)
def test_only_booleans_are_accepted(on: Any) -> None:
    before = denormals.mode()
    with pytest.raises(tfn.errors.ArgumentError, match="takes True or False"):
        tfn.flush_denormals(on)
    assert denormals.mode() == before


def test_words_follow_the_mode() -> None:
    before = denormals.mode()
    tfn.flush_denormals()
    assert denormals.mode() != before
    tfn.flush_denormals(False)
    assert denormals.mode() == before
