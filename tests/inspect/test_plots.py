"""Plots: well-formed SVG with a mark for each event, point and change."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from tfn._support.events import Event
from tfn.inspect import plots
from tfn.profiler.export import tracks

NAMESPACE = "{http://www.w3.org/2000/svg}"
LISTED = [
    Event("annotation", "step <1>", 0, 9000, thread=7),
    Event("program", "f", 1000, 8000, live_bytes=4000),
    Event("kernel", "f 0 dot", 2000, 4000, launch=0),
    Event("kernel", "f 0 dot", 2100, 3000, launch=0, worker=1),
]


def test_a_timeline_has_a_mark_for_each_event_below_those_around_it() -> None:
    picture = ET.fromstring(plots.timeline(tracks(LISTED), 0, 10000, ("us", 1e3)))
    marks = picture.findall(f"{NAMESPACE}rect")
    assert len(marks) == 4
    tips = [mark[0].text for mark in marks]
    assert "annotation step <1>: 9.000 us" in tips
    heights = [float(mark.attrib["y"]) for mark in marks]
    assert heights[0] < heights[1] < heights[2]
    texts = [text.text for text in picture.findall(f"{NAMESPACE}text")]
    assert {"thread 0", "worker 1", "10.00 us"} <= set(texts)


def test_long_timelines_keep_the_longest_events() -> None:
    many = [Event("program", "f", 10 * i, 10 * i + 1 + i % 7) for i in range(2 * plots.MAX_MARKS)]
    picture = ET.fromstring(plots.timeline(tracks(many), 0, many[-1].end_ns, ("us", 1e3)))
    assert len(picture.findall(f"{NAMESPACE}rect")) == plots.MAX_MARKS


def test_memory_is_a_line_of_steps() -> None:
    picture = ET.fromstring(plots.memory([(100, 2_000_000), (500, 1_000_000)], 0, 1000))
    (line,) = picture.findall(f"{NAMESPACE}polyline")
    heights = [float(point.split(",")[1]) for point in line.attrib["points"].split()]
    assert len(heights) == 5 and heights[-1] > heights[0]


def test_a_roofline_has_kernels_below_the_roof() -> None:
    points = [plots.Point("a", 100.0, 90.0, 0.75), plots.Point("b", 0.1, 0.5, 0.25)]
    picture = ET.fromstring(plots.roofline(points, 100.0, 10.0))
    marks = picture.findall(f"{NAMESPACE}circle")
    assert len(marks) == 2 and "90.00 GFLOP/s" in (marks[0][0].text or "")
    (roof,) = [
        line for line in picture.findall(f"{NAMESPACE}polyline") if "stroke-width" in line.attrib
    ]
    corners = [tuple(map(float, point.split(","))) for point in roof.attrib["points"].split()]
    assert len(corners) == 3 and corners[1][1] == corners[2][1] < corners[0][1]
    assert float(marks[0].attrib["cy"]) > corners[1][1]


def test_kernels_without_arithmetic_are_not_on_a_roofline() -> None:
    picture = ET.fromstring(plots.roofline([plots.Point("copy", 0.0, 0.0, 1.0)], 100.0, 10.0))
    assert picture.findall(f"{NAMESPACE}circle") == []


def test_buffers_that_are_alive_together_do_not_overlap() -> None:
    bars = [
        plots.Bar(4000, 0, 400, 1000, "init", "weights"),
        plots.Bar(2000, 100, 300, 500, "f", "one"),
        plots.Bar(2000, 500, 600, 900, "f", "two"),
        plots.Bar(1000, 200, 200, 800, "g", "not read"),
    ]
    picture = ET.fromstring(plots.lifetimes(bars, 0, 1000))
    keys = [mark for mark in picture.findall(f"{NAMESPACE}rect") if not len(mark)]
    marks = [mark for mark in picture.findall(f"{NAMESPACE}rect") if len(mark)]
    assert len(keys) == len({mark.attrib["fill"] for mark in marks}) == 3  # one for each maker
    assert {mark[0].text for mark in marks} == {bar.tip for bar in bars}
    assert len(marks) == 7  # each until it is read last and after it; the last one was not read
    boxes = [[float(mark.attrib[n]) for n in ("x", "y", "width", "height")] for mark in marks]
    for i, (x, y, width, height) in enumerate(boxes):
        for left, top, wide, tall in boxes[:i]:
            apart = x + width <= left + 0.02 or left + wide <= x + 0.02
            assert apart or y + height <= top + 0.02 or top + tall <= y + 0.02
    one, two = (
        next(box for mark, box in zip(marks, boxes) if mark[0].text == tip)
        for tip in ("one", "two")
    )
    assert one[1] == two[1]  # the second takes the place of the first
