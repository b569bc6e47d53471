"""Events that programs record, and listeners to them: ``jax.monitoring``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Listener = Callable[..., None]
_LISTENERS: dict[str, list[Listener]] = {"event": [], "duration": [], "span": [], "scalar": []}


def record_event(event: str, **facts: Any) -> None:
    """Call the listeners to events."""
    for listener in _LISTENERS["event"]:
        listener(event, **facts)


def record_event_duration_secs(event: str, duration: float, **facts: Any) -> None:
    """Call the listeners to durations."""
    for listener in _LISTENERS["duration"]:
        listener(event, duration, **facts)


def record_event_time_span(event: str, start: float, end: float, **facts: Any) -> None:
    """Call the listeners to spans of time."""
    for listener in _LISTENERS["span"]:
        listener(event, start, end, **facts)


def record_scalar(event: str, value: float, **facts: Any) -> None:
    """Call the listeners to numbers."""
    for listener in _LISTENERS["scalar"]:
        listener(event, value, **facts)


register_event_listener = _LISTENERS["event"].append
register_event_duration_secs_listener = _LISTENERS["duration"].append
register_event_time_span_listener = _LISTENERS["span"].append
register_scalar_listener = _LISTENERS["scalar"].append
unregister_event_listener = _LISTENERS["event"].remove
unregister_event_duration_listener = _LISTENERS["duration"].remove
unregister_event_time_span_listener = _LISTENERS["span"].remove
unregister_scalar_listener = _LISTENERS["scalar"].remove


def clear_event_listeners() -> None:
    """Forget all listeners."""
    for listeners in _LISTENERS.values():
        listeners.clear()
