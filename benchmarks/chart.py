"""The race as a picture: one bar for each row, tfn's time over that of the fastest peer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib
from matplotlib import pyplot
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

FASTER, SLOWER, TEXT = "#2a7f86", "#d1813a", "#444444"
MOST = 16.0
"""Bars end here; the number beside them goes on."""


def draw(ratios: Mapping[str, float], machine: str, path: Path) -> None:
    """Write the PNG."""
    matplotlib.use("Agg")
    figure, axes = pyplot.subplots(figsize=(7.2, 0.6 + 0.2 * len(ratios)), dpi=110)
    for y, ratio in enumerate(ratios.values()):
        end = min(max(ratio, 1 / MOST), MOST)
        colour = FASTER if ratio <= 1 else SLOWER
        axes.barh(y, end - 1, left=1, height=0.72, color=colour)
        side, place = ("right", end / 1.04) if ratio <= 1 else ("left", end * 1.04)
        axes.text(place, y, f"{ratio:.2g}", ha=side, va="center", fontsize=7, color=TEXT)
    axes.axvline(1, color=TEXT, linewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.set_xlim(1 / MOST / 1.6, MOST * 1.6)
    ticks = [2.0**k for k in range(-4, 5)]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FixedFormatter([f"{t:g}" for t in ticks]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_yticks(range(len(ratios)), ratios, fontsize=7, family="monospace", color=TEXT)
    axes.set_ylim(len(ratios) - 0.4, -0.6)
    axes.tick_params(axis="both", length=0, labelsize=7, labelcolor=TEXT)
    axes.grid(axis="x", linewidth=0.4, alpha=0.5)
    axes.set_axisbelow(True)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_title(
        f"tfn's CPU time over the fastest of JAX, PyTorch and NumPy: below 1, tfn is faster\n"
        f"one core of {machine}",
        fontsize=8,
        color=TEXT,
        loc="left",
    )
    figure.savefig(path, bbox_inches="tight", metadata={"Software": None})
