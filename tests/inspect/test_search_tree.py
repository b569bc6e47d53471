"""The tree of a search as HTML, and the page that grows with it."""

from __future__ import annotations

from pathlib import Path

import pytest

import tfn
from tests.inspect.viewer.programs import TARGET, floats, layer
from tfn.inspect import search_tree
from tfn.inspect.search_tree import Growing, html
from tfn.inspect.show import View
from tfn.lower.loops import loop_nest
from tfn.lower.loops.beam_search import Tree, Trial, search
from tfn.lower.loops.opt_ops import Reorder, Split
from tfn.lower.passes import CORES as passes
from tfn.trace.argument import Place

FIRST, SECOND = Split(0, 4, Place.UPCAST), Reorder((0, 1))
TRIALS = [
    Trial((), None, 900.0, ns=2000.0),
    Trial((FIRST,), (), 500.0, kept=True, ns=1500.0),
    Trial((FIRST, SECOND), (FIRST,), 400.0, ns=1000.0),
    Trial((SECOND,), (), 800.0),
]


def test_trials_are_below_those_they_came_from_and_dropped_ones_are_not_shown() -> None:
    text = html({"k0123456789": TRIALS})
    assert "4 ranked, 3 measured, 2.0 µs → 1.0 µs" in text
    first, second = text.index("split(r0, 4, upcast)"), text.index("reorder(r0, r1)")
    assert first < second and text.count("reorder(r0, r1)") == 1
    assert "padding-left:20px" in text and text.count('class="best"') == 1


def test_a_growing_page_is_read_anew_until_it_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Growing(tmp_path / "search.html")
    page.update({"k": TRIALS[:1]})
    assert 'http-equiv="refresh"' in page.path.read_text("utf-8")
    page.update({"k": TRIALS})  # a moment later: not written again
    assert "1 ranked" in page.path.read_text("utf-8")
    monkeypatch.setattr(search_tree, "REFRESH_SECONDS", 0)
    page.update({"k": TRIALS})
    assert "4 ranked" in page.path.read_text("utf-8")
    page.finish({"k": TRIALS})
    assert "refresh" not in page.path.read_text("utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["search.html"]


def test_a_search_grows_its_tree_by_opt_ops() -> None:
    view = View(tfn.jit(layer).trace(floats(64, 128), floats(128, 256)).jaxpr, TARGET)
    body = view.program.kernels[0].source
    nest = loop_nest.nest(passes.decompose(body, TARGET))
    tree: Tree = {}
    sizes: list[int] = []

    def measure(n: loop_nest.Nest) -> float:
        sizes.append(len(tree))
        return float(len(n.opts))

    result = search(nest, TARGET, measure, tree=tree)
    assert sizes[0] == 1 < len(tree)
    measured = [trial for trial in tree.values() if trial.ns is not None]
    assert len(measured) == result.measured and any(trial.kept for trial in tree.values())
    assert all(
        trial.opts[: len(trial.parent)] == trial.parent for trial in tree.values() if trial.parent
    )
    assert html({"k": list(tree.values())}).count("<tr") >= len(measured)
