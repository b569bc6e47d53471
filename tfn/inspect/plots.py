"""Plots of profiles as inline SVG, for notebooks and pages: timeline, memory, roofline.

They take the colours of the page around them, and each mark has a tooltip.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import log10

from tfn._support.events import Event
from tfn.extend import frozen

WIDTH = 960
MARGIN = 90
ROW_HEIGHT = 16
MAX_MARKS = 3000
"""Marks of a timeline, the longest of all events: more would take a browser a second to draw."""

MAX_BARS = 1000
"""Bars of the picture of lifetimes, those of most bytes times time: each is compared with all."""
MIN_BAR_HEIGHT = 0.2
"""Pixels below which a bar is not drawn."""

BAR_COLORS = (
    "#35a37c",
    "#4c78d8",
    "#d9a441",
    "#8a63c9",
    "#3aa0b5",
    "#c8553d",
    "#d77bb8",
    "#8793a6",
)
"""Colours of the makers of most bytes; the buffers of others are grey."""

COLORS = {
    "program": "#4c78d8",
    "kernel": "#35a37c",
    "wait": "#d9a441",
    "host": "#c8553d",
    "trace": "#8a63c9",
    "lower": "#b07fd6",
    "compile": "#d77bb8",
    "cache": "#b9869f",
    "collective": "#3aa0b5",
    "annotation": "#8793a6",
}


@frozen
class Point:
    """A kernel in a roofline plot.

    Attributes:
        name: for its tooltip.
        flops_per_byte, flops_per_ns: where it is.
        share: of the time, 0 to 1.
    """

    name: str
    flops_per_byte: float
    flops_per_ns: float
    share: float


def _svg(height: float, parts: Iterable[str], label: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'style="max-width:{WIDTH}px;width:100%" role="img" aria-label="{label}" '
        f'font-family="system-ui,sans-serif" font-size="11" fill="currentColor">'
        f"{''.join(parts)}</svg>"
    )


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(text)}</text>'


def _line(points: Sequence[tuple[float, float]], style: str) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" {style}/>'


def timeline(
    by_track: Mapping[str, Sequence[Event]], begin_ns: int, end_ns: int, unit: tuple[str, float]
) -> str:
    """The events of each track, nested ones below those around them.

    Args:
        by_track: as `export.tracks` gives them.
        begin_ns, end_ns: of the time that is drawn.
        unit: the name of the unit of the axis, and its length in nanoseconds.
    """
    events = [event for inside in by_track.values() for event in inside]
    longest = sorted(events, key=lambda event: -event.duration_ns)[:MAX_MARKS]
    drawn = set(map(id, longest))
    scale = (WIDTH - MARGIN - 10) / max(1, end_ns - begin_ns)
    parts, top = [], 4.0
    for track, inside in by_track.items():
        ends: list[int] = []
        deepest = 0
        for event in inside:
            while ends and ends[-1] <= event.begin_ns:
                ends.pop()
            ends.append(event.end_ns)
            deepest = max(deepest, len(ends))
            if id(event) in drawn:
                x = MARGIN + (event.begin_ns - begin_ns) * scale
                width = max(0.4, event.duration_ns * scale)
                y = top + ROW_HEIGHT * (len(ends) - 1)
                tip = f"{event.kind} {event.name}: {event.duration_ns / unit[1]:.3f} {unit[0]}"
                parts.append(
                    f'<rect x="{x:.2f}" y="{y:.1f}" width="{width:.2f}" height="{ROW_HEIGHT - 2}" '
                    f'rx="1.5" fill="{COLORS.get(event.kind, "#888")}">'
                    f"<title>{html.escape(tip)}</title></rect>"
                )
                if width > 7 * len(event.name):
                    parts.append(
                        f'<text x="{x + 3:.1f}" y="{y + 11:.1f}" fill="#fff" pointer-events="none">'
                        f"{html.escape(event.name)}</text>"
                    )
        parts.append(_text(4, top + 11, track))
        top += ROW_HEIGHT * max(1, deepest) + 8
    length = f"{(end_ns - begin_ns) / unit[1]:.2f} {unit[0]}"
    parts += [_text(MARGIN, top + 10, "0"), _text(WIDTH - 10, top + 10, length, "end")]
    return _svg(top + 16, parts, "Timeline")


def memory(live: Sequence[tuple[int, int]], begin_ns: int, end_ns: int) -> str:
    """The bytes of all arrays over time, after each call of a program.

    Args:
        live: times in nanoseconds and bytes.
        begin_ns, end_ns: of the time that is drawn.
    """
    high, most = 90.0, max((size for _, size in live), default=1) or 1
    scale = (WIDTH - MARGIN - 10) / max(1, end_ns - begin_ns)
    steps: list[tuple[float, float]] = []
    for at, size in live:
        x, y = MARGIN + (at - begin_ns) * scale, 10 + (1 - size / most) * (high - 30)
        steps += [(x, steps[-1][1]), (x, y)] if steps else [(MARGIN, y), (x, y)]
    if steps:
        steps.append((WIDTH - 10.0, steps[-1][1]))
    parts = [
        _line(steps, f'stroke="{COLORS["program"]}" stroke-width="1.5"'),
        _text(4, 18, f"{most / 1e6:,.2f} MB"),
        _text(4, high - 16, "0 MB"),
    ]
    return _svg(high, parts, "Memory of arrays over time")


@frozen
class Bar:
    """A buffer in the picture of lifetimes.

    Attributes:
        size_bytes: its height.
        begin_ns, read_ns, end_ns: from when to when it was alive, and when it was read last.
        maker: those of one maker have one colour.
        tip: its tooltip.
    """

    size_bytes: int
    begin_ns: int
    read_ns: int
    end_ns: int
    maker: str
    tip: str


def lifetimes(bars: Iterable[Bar], begin_ns: int, end_ns: int) -> str:
    """Buffers as bars from when they are made until they are freed, as high as they are large.

    Each lies in the lowest gap that is free all the time; it is pale after it is read last.

    Args:
        bars: the buffers.
        begin_ns, end_ns: of the time that is drawn.
    """
    area = [((bar.end_ns - bar.begin_ns) * bar.size_bytes, i, bar) for i, bar in enumerate(bars)]
    listed = [bar for _, _, bar in sorted(area, reverse=True)[:MAX_BARS]]
    placed: list[tuple[int, Bar]] = []
    for bar in listed:  # the largest lie lowest
        low = 0
        for at, other in sorted(placed, key=lambda row: row[0]):
            if other.begin_ns < bar.end_ns and bar.begin_ns < other.end_ns:
                if at >= low + bar.size_bytes:
                    break
                low = max(low, at + other.size_bytes)
        placed.append((low, bar))
    high, most = 220.0, max((at + bar.size_bytes for at, bar in placed), default=1) or 1
    across = (WIDTH - MARGIN - 10) / max(1, end_ns - begin_ns)
    by_size = Counter[str]()
    for bar in listed:
        by_size[bar.maker] += bar.size_bytes
    makers = [maker for maker, _ in by_size.most_common()]
    colors = dict(zip(makers, BAR_COLORS))
    parts = []
    for at, bar in placed:
        tall = bar.size_bytes / most * (high - 30)
        y = high - 20 - at / most * (high - 30) - tall
        color = colors.get(bar.maker, "#888")
        for since, until, opacity in (
            (bar.begin_ns, bar.read_ns, 0.85),
            (bar.read_ns, bar.end_ns, 0.3),
        ):
            if until > since and tall > MIN_BAR_HEIGHT:
                x, width = MARGIN + (since - begin_ns) * across, (until - since) * across
                parts.append(
                    f'<rect x="{x:.2f}" y="{y:.2f}" width="{max(0.3, width):.2f}" '
                    f'height="{tall:.2f}" fill="{color}" fill-opacity="{opacity}" '
                    f'stroke="currentColor" stroke-opacity=".25" stroke-width=".4">'
                    f"<title>{html.escape(bar.tip)}</title></rect>"
                )
    parts += [_text(4, 18, f"{most / 1e6:,.2f} MB"), _text(4, high - 24, "0 MB")]
    x = MARGIN + 0.0
    parts.append(_text(x, high - 4, "buffers, pale: read no more"))
    x += 160
    for maker, color in colors.items():
        width = 26 + 6.2 * len(maker)
        if x + width > WIDTH:
            break
        parts.append(f'<rect x="{x:.0f}" y="{high - 12:.0f}" width="9" height="9" fill="{color}"/>')
        parts.append(_text(x + 13, high - 4, maker))
        x += width
    return _svg(high, parts, "Lifetimes of buffers")


def roofline(points: Sequence[Point], peak_flops_per_ns: float, peak_bytes_per_ns: float) -> str:
    """Kernels by their arithmetic intensity and rate, below what one core can do.

    Source: S. Williams, A. Waterman, D. Patterson 2009, "Roofline: an insightful visual performance
    model for multicore architectures".

    Args:
        points: the kernels.
        peak_flops_per_ns, peak_bytes_per_ns: of one core.
    """
    shown = [point for point in points if point.flops_per_byte > 0 and point.flops_per_ns > 0]
    ridge = peak_flops_per_ns / peak_bytes_per_ns
    left = min(0.05, *(point.flops_per_byte / 2 for point in shown), ridge / 4)
    right = max(ridge * 8, *(point.flops_per_byte * 2 for point in shown), 1.0)
    low = min(0.1, *(point.flops_per_ns / 2 for point in shown), 1.0)
    top, high = peak_flops_per_ns * 2, 300.0

    def x(intensity: float) -> float:
        return MARGIN + (WIDTH - MARGIN - 20) * log10(intensity / left) / log10(right / left)

    def y(rate: float) -> float:
        return 10 + (high - 50) * (1 - log10(rate / low) / log10(top / low))

    floor = max(low, left * peak_bytes_per_ns)
    slope, flat = (floor / peak_bytes_per_ns, floor), (right, peak_flops_per_ns)
    roof = [slope, (ridge, peak_flops_per_ns), flat]
    grid = 'stroke="currentColor" stroke-opacity=".12"'
    parts = []
    for power in range(-4, 8):
        if left <= 10.0**power <= right:
            parts.append(_line([(x(10.0**power), 10), (x(10.0**power), high - 40)], grid))
            parts.append(_text(x(10.0**power), high - 26, f"{10.0**power:g}", "middle"))
        if low <= 10.0**power <= top:
            parts.append(_line([(MARGIN, y(10.0**power)), (WIDTH - 20, y(10.0**power))], grid))
            parts.append(_text(MARGIN - 8, y(10.0**power) + 4, f"{10.0**power:g}", "end"))
    roof_style = f'stroke="{COLORS["host"]}" stroke-width="1.5"'
    parts.append(_line([(x(at), y(rate)) for at, rate in roof], roof_style))
    for point in sorted(shown, key=lambda point: -point.share):
        tip = (
            f"{point.name}: {point.flops_per_ns:.2f} GFLOP/s at {point.flops_per_byte:.2f} FLOP/B, "
            f"{100 * point.share:.1f}% of the time"
        )
        parts.append(
            f'<circle cx="{x(point.flops_per_byte):.1f}" cy="{y(point.flops_per_ns):.1f}" '
            f'r="{3 + 12 * point.share**0.5:.1f}" fill="{COLORS["kernel"]}" fill-opacity=".6" '
            f'stroke="{COLORS["kernel"]}"><title>{html.escape(tip)}</title></circle>'
        )
    parts += [
        _text(WIDTH - 20, high - 10, "FLOP per byte", "end"),
        _text(4, 18, "GFLOP/s"),
        _text(x(ridge) + 6, y(peak_flops_per_ns) - 6, f"{peak_flops_per_ns:.0f} GFLOP/s"),
        _text(x(ridge) - 10, y(peak_flops_per_ns) - 6, f"{peak_bytes_per_ns:.1f} GB/s", "end"),
    ]
    return _svg(high, parts, "Roofline")
