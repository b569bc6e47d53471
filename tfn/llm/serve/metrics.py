"""Counts of the server in the text format of Prometheus.

Source: https://prometheus.io/docs/instrumenting/exposition_formats.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

ROWS = {
    "running": ("gauge", "running_requests", "Answers that are being made."),
    "waiting": ("gauge", "waiting_requests", "Requests that wait for a slot."),
    "slots": ("gauge", "slots", "The most answers that are made at once."),
    "blocks_used": ("gauge", "cache_blocks_used", "Blocks of the cache that hold tokens."),
    "blocks": ("gauge", "cache_blocks", "Blocks of the cache."),
    "prompt_tokens": ("counter", "prompt_tokens_total", "Tokens of prompts."),
    "cached_tokens": ("counter", "cached_tokens_total", "Those of them that were in the cache."),
    "answer_tokens": ("counter", "answer_tokens_total", "Tokens of answers."),
    "steps": ("counter", "steps_total", "Steps of the network."),
    "drafted": ("counter", "drafted_tokens_total", "Tokens that were guessed beforehand."),
    "accepted": ("counter", "accepted_tokens_total", "Those of them that were right."),
    "requests": ("counter", "engine_requests_total", "Requests to the engine."),
    "cancelled": ("counter", "cancelled_requests_total", "Those of them whose client left."),
    "failed": ("counter", "failed_requests_total", "Those of them that ended in an error."),
    "seconds": ("counter", "busy_seconds_total", "The time in which the engine had work."),
}
"""For each field of the engine's counts a type, a name and a meaning."""


def text(stats: Any, answers: Mapping[tuple[str, int], int]) -> str:
    """All counts.

    Args:
        stats: of the engine.
        answers: by path and status.
    """
    return "".join(f"{line}\n" for line in _lines(stats, answers))


def _lines(stats: Any, answers: Mapping[tuple[str, int], int]) -> Iterator[str]:
    for field, (kind, name, meaning) in ROWS.items():
        yield from _head(kind, name, meaning)
        yield f"tfn_llm_{name} {getattr(stats, field)}"
    yield from _head("counter", "http_requests_total", "Requests by path and status.")
    for (path, status), count in sorted(answers.items()):
        labels = f'path="{path}",status="{status}"'
        yield f"tfn_llm_http_requests_total{{{labels}}} {count}"


def _head(kind: str, name: str, meaning: str) -> Iterator[str]:
    yield f"# HELP tfn_llm_{name} {meaning}"
    yield f"# TYPE tfn_llm_{name} {kind}"
