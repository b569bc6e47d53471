"""Tables of profiles: rows, rates, text and HTML."""

from __future__ import annotations

import tfn
from tfn import profiler
from tfn._support.events import Event
from tfn.profiler import tables


def test_rows_are_in_the_order_of_their_time() -> None:
    listed = [
        Event("program", "f", 0, 10, calls=4),
        Event("program", "f", 20, 40, calls=4),
        Event("host", "g", 0, 50),
        Event("compile", "p1", 0, 30),
        Event("compile", "p2", 30, 100),
    ]
    rows = tables.rows(listed)
    assert [(row.kind, row.name, row.calls, row.total_ns) for row in rows] == [
        ("program", "f", 8, 120.0),
        ("compile", "", 2, 100.0),
        ("host", "g", 1, 50.0),
    ]
    assert (rows[0].mean_ns, rows[0].least_ns, rows[0].most_ns) == (15.0, 10, 20)


def test_rates_are_of_loaded_programs() -> None:
    f = tfn.jit(lambda x: x @ x)
    x = tfn.numpy.ones((64, 64))
    with profiler.trace() as block:
        for _ in range(5):
            f(x)
    assert block.profile is not None
    row = next(
        row
        for row in tables.rows(block.profile.events)
        if row.name == "<lambda>" and row.kind == "program"
    )
    assert row.flops == 2 * 64**3 and row.traffic_bytes == 2 * 4 * 64**2


def test_text_fits_its_width() -> None:
    listed = [Event("program", "a_name_that_is_much_too_long_for_it" * 3, 0, 10**9)]
    text = tables.as_text(listed, 0, 2 * 10**9, dropped=7, width=100)
    assert max(map(len, text.splitlines())) <= 100
    assert "50.0%" in text and "1.00 s" in text and "…" in text
    assert "7 earlier events have been dropped" in text


def test_narrow_tables_keep_their_figures_whole() -> None:
    listed = [Event("program", "a_function", 0, 12_345_678, calls=100_000)]
    text = tables.as_text(listed, 0, 2 * 10**9, dropped=0, width=80)
    assert max(map(len, text.splitlines())) <= 80 and "least" not in text
    assert "12.3 ms" in text and "100,000" in text and "…" not in text


def test_html_escapes_names() -> None:
    text = tables.as_html([Event("program", "<b>", 0, 5)], 0, 10)
    assert "&lt;b&gt;" in text and "<b>" not in text and "50.0%" in text
    assert profiler.latest()._repr_html_().startswith("<div><svg")


def test_empty_profiles_print() -> None:
    assert "kind" in tables.as_text([], 0, 0, 0, 80)
