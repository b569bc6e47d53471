"""Search tree of `tfn.tune` as HTML: opt-ops that were tried, what they were expected to cost, and
the times of those that were measured, while the search goes on.

    kernel k96cd88c1: 24 measured, 118.2 us -> 91.0 us
      split(r0, 4, upcast)            in the beam     12,300 instructions
        tile(r1, 4, 16)               measured  #==   91.0 us
"""

from __future__ import annotations

import html as escaping
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfn.lower.loops import opt_ops
from tfn.lower.loops.beam_search import Trial

REFRESH_SECONDS = 2
"""The time after which a browser reads a growing page anew, and at which it is written at most."""

STYLE = """
:root { color-scheme: light dark; }
.search { font: 13px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 16px auto; }
.search summary { cursor: pointer; padding: 4px 0; }
.search table { border-collapse: collapse; width: 100%; margin: 0 0 14px; }
.search td { padding: 2px 10px 2px 0; border-bottom: 1px solid #8883; white-space: nowrap; }
.search td:first-child { font: 12px/1.5 ui-monospace, Menlo, Consolas, monospace; }
.search td.n { text-align: right; font-variant-numeric: tabular-nums; }
.search .best { background: #2fa36f33; } .search .dropped { opacity: .55; }
.search i { display: inline-block; height: 9px; background: #4c78d8; border-radius: 2px; }
"""

Trees = Mapping[str, Sequence[Trial]]


def html(trees: Trees) -> str:
    """The trees of some kernels, each to be unfolded; those of the latest one are open."""
    parts = [
        _kernel(name, trials, number == len(trees))
        for number, (name, trials) in enumerate(trees.items(), 1)
    ]
    return f'<style>{STYLE}</style><div class="search">{"".join(parts)}</div>'


def _kernel(name: str, trials: Sequence[Trial], unfolded: bool) -> str:
    measured = [trial.ns for trial in trials if trial.ns is not None]
    first, best = (measured[0], min(measured)) if measured else (0.0, 0.0)
    ranked = f"{len(trials)} ranked, {len(measured)} measured"
    head = f"{name[:9]}: {ranked}, {_time(first)} → {_time(best)}"
    rows = "".join(
        _row(trial, depth, best, max(measured, default=1.0)) for trial, depth in _order(trials)
    )
    opened = " open" if unfolded else ""
    return f"<details{opened}><summary><b>{head}</b></summary><table>{rows}</table></details>"


def _order(trials: Sequence[Trial]) -> list[tuple[Trial, int]]:
    """Trials that were kept or measured, each below the one that it came from, fastest first."""
    shown = [trial for trial in trials if trial.kept or trial.ns is not None]
    known = {trial.opts for trial in shown}
    children: dict[object, list[Trial]] = {}
    for trial in shown:
        parent = trial.parent if trial.parent in known and trial.parent != trial.opts else None
        children.setdefault(parent, []).append(trial)
    for same in children.values():
        same.sort(key=lambda trial: (trial.ns is None, trial.ns or 0.0, trial.estimated))
    ordered, waiting = [], [(trial, 0) for trial in reversed(children.get(None, []))]
    while waiting:
        trial, depth = waiting.pop()
        ordered.append((trial, depth))
        # The parent of a trial is named by opt-ops, which several finished nests may share.
        below = children.pop(trial.opts, [])
        waiting += [(child, depth + 1) for child in reversed(below)]
    return ordered


def _row(trial: Trial, depth: int, best: float, most: float) -> str:
    opts = trial.opts[len(trial.parent or ()) :]
    text = " ".join(map(opt_ops.show, opts)) or "as it is"
    what = "the model's choice" if trial.parent is None and trial.ns is not None else ""
    what = what or ("in the beam" if trial.kept else "")
    bar = f'<i style="width:{120 * trial.ns / most:.0f}px"></i> ' if trial.ns and most else ""
    shown = f"{bar}{_time(trial.ns)}" if trial.ns is not None else ""
    kind = "best" if trial.ns == best else "" if trial.ns is not None else "dropped"
    return (
        f'<tr class="{kind}"><td style="padding-left:{20 * depth}px">{escaping.escape(text)}</td>'
        f'<td>{what}</td><td class="n">{trial.estimated:,.0f} instructions</td>'
        f"<td>{shown}</td></tr>"
    )


def _time(ns: float) -> str:
    return f"{ns / 1000:,.1f} µs" if ns < float("inf") else "does not run"


class Growing:
    """A page that is written again and again while a search goes on."""

    def __init__(self, path: str | Path) -> None:
        self.path, self._written = Path(path), 0.0

    def update(self, trees: Trees) -> None:
        """Writes the page, unless that was done a moment ago."""
        now = time.monotonic()
        if now - self._written >= REFRESH_SECONDS:
            self._written = now
            self._write(trees, f'<meta http-equiv="refresh" content="{REFRESH_SECONDS}">')

    def finish(self, trees: Trees) -> None:
        """Writes the page for the last time: browsers do not read it anew."""
        self._write(trees, "")

    def _write(self, trees: Trees, head: str) -> None:
        text = f'<!doctype html><meta charset="utf-8">{head}<title>tune</title>{html(trees)}'
        part = self.path.with_suffix(".part")
        part.write_text(text, "utf-8")
        os.replace(part, self.path)  # a browser never reads half of it
