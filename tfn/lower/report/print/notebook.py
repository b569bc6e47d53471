"""Notebook printer: a function as HTML, with its stages to be unfolded and its arena as an SVG.

step    kernels 4, floating operations 16,777,216, ...
[arena: lifetimes x addresses]
> jaxpr
> kernels
...
"""

from __future__ import annotations

import html
from collections.abc import Mapping

from tfn.lower.memory.planner import Schedule

WIDTH_PIXELS = 640
MIN_HEIGHT_PIXELS = 40
MAX_HEIGHT_PIXELS = 220
VALUE_HEIGHT_PIXELS = 12
"""The height of a value in a picture of few; many values share what there is."""


def unfolding(
    title: str, figures: Mapping[str, int], texts: Mapping[str, str], picture: str
) -> str:
    """The HTML of a function.

    Args:
        title: its name.
        figures: numbers by what they count; zeros are left out.
        texts: what is unfolded, by its heading.
        picture: an SVG.
    """
    shown = ", ".join(f"{name} {number:,}" for name, number in figures.items() if number)
    parts = [
        f"<details><summary>{html.escape(name)}</summary><pre>{html.escape(text)}</pre></details>"
        for name, text in texts.items()
    ]
    return f"<div><b>{html.escape(title)}</b>&emsp;{shown}</div>{picture}{''.join(parts)}"


def arena(schedule: Schedule) -> str:
    """An SVG of the arena: each value as a box, its steps along x, its addresses along y."""
    live_ranges, size_bytes = schedule.live_ranges, schedule.routine.arena_bytes
    if not live_ranges or not size_bytes:
        return ""
    steps = max(live.last for live in live_ranges.values()) + 1
    wanted = VALUE_HEIGHT_PIXELS * len(live_ranges)
    height = max(MIN_HEIGHT_PIXELS, min(MAX_HEIGHT_PIXELS, wanted))
    boxes = []
    for i, (allocation, live) in enumerate(live_ranges.items()):
        offset = schedule.offsets[allocation]
        x, width = (WIDTH_PIXELS * n / steps for n in (live.first, live.last + 1 - live.first))
        y, tall = (height * n / size_bytes for n in (offset, live.size_bytes))
        colour = f"hsl({i * 47 % 360} 50% 60%)"
        note = f"{live.size_bytes:,} bytes at {offset:,}, steps {live.first} to {live.last}"
        place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{tall:.1f}"'
        boxes.append(f'<rect {place} fill="{colour}"><title>{note}</title></rect>')
    frame = f'viewBox="0 0 {WIDTH_PIXELS} {height}" width="{WIDTH_PIXELS}" height="{height}"'
    return f'<svg {frame} role="img" aria-label="arena">{"".join(boxes)}</svg>'
