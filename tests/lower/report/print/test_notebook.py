"""HTML for notebooks: escaped texts, figures, and boxes of the arena within its frame."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import tfn
from tfn import numpy as jnp
from tfn.inspect.show import view
from tfn.lower.report.print.notebook import arena, unfolding


def layers(x: Any, w: Any) -> Any:
    return jnp.tanh(jnp.tanh(x @ w) @ w) @ w


def test_texts_are_escaped_and_zeros_left_out() -> None:
    text = unfolding("<f>", {"kernels": 1234, "bytes": 0}, {"a < b": "x < y"}, "<svg/>")
    assert "<b>&lt;f&gt;</b>&emsp;kernels 1,234</div><svg/>" in text
    assert "<summary>a &lt; b</summary><pre>x &lt; y</pre>" in text and "bytes" not in text


def test_boxes_of_the_arena_are_within_its_frame() -> None:
    kind = tfn.ShapeDtypeStruct((64, 64), "float32")
    seen = view(tfn.make_jaxpr(layers)(kind, kind))
    picture = ElementTree.fromstring(arena(seen.schedule))
    _, _, width, height = map(float, picture.attrib["viewBox"].split())
    boxes = picture.findall("rect")
    assert len(boxes) == len(seen.schedule.live_ranges) > 0
    for box in boxes:
        x, y, wide, tall = (float(box.attrib[name]) for name in ("x", "y", "width", "height"))
        assert x >= 0 and x + wide <= width + 0.2 and y >= 0 and y + tall <= height + 0.2
        (note,) = box
        assert re.fullmatch(r"[\d,]+ bytes at [\d,]+, steps \d+ to \d+", note.text or "")


def test_programs_without_an_arena_have_no_picture() -> None:
    seen = view(tfn.make_jaxpr(lambda x: x + 1)(1.0))
    assert arena(seen.schedule) == ""


def test_notebooks_show_jaxprs_and_lowered_and_compiled_functions() -> None:
    kind = tfn.ShapeDtypeStruct((64, 64), "float32")
    jaxpr = tfn.make_jaxpr(layers)(kind, kind)._repr_html_()
    assert jaxpr.startswith("<pre>") and 'opacity:.55">:f32[64,64]</span>' in jaxpr
    lowered = tfn.jit(layers).lower(kind, kind)
    assert "<b>layers</b>" in lowered._repr_html_() and "<svg" in lowered._repr_html_()
    assert "<summary>assembly</summary>" not in lowered._repr_html_()
    assert "<summary>assembly</summary>" in lowered.compile()._repr_html_()
