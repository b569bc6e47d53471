"""Eight devices in this process, for the time of a test."""

from __future__ import annotations

from collections.abc import Iterator

from tfn.config import config


def eight_devices() -> Iterator[None]:
    """The body of a fixture."""
    before, config.devices = config.devices, 8
    yield
    config.devices = before
