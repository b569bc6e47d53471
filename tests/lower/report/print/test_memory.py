"""Memory tables: launches, values, and the arena."""

from __future__ import annotations

import re
from typing import Any

import tfn
import tfn.numpy as tnp
from tests.lower.check_passes import SMALL
from tfn.inspect.show import View
from tfn.lower.report.print.memory import few, span, table


def test_columns_are_as_wide_as_their_cells() -> None:
    assert table(("a", "bb"), [("ccc", "d"), ("", "e")]) == "a    bb\nccc  d\n     e"
    assert table(("a", "b"), []) == "a  b"


def test_few_and_span() -> None:
    assert few(["a", "b"]) == "a, b"
    assert few(list("abcdef")) == "a, b, c, d, and 2 more"
    assert span([3]) == "3" and span([2, 5, 3]) == "2-5"


def test_launches_and_values_have_rows() -> None:
    args = (tfn.ShapeDtypeStruct((8, 8), "float32"),) * 2
    view = View(tfn.make_jaxpr(lambda x, w: tnp.exp(x @ w) @ w)(*args), SMALL)
    launches, values, total = str(
        tfn.show(lambda x, w: tnp.exp(x @ w) @ w, *args, at="memory", target=SMALL)
    ).split("\n\n")
    assert len(launches.splitlines()) == 1 + len(view.program.launches)
    assert len(values.splitlines()) == 1 + len({u for s in view.stages for u in s.operands})
    assert f"arena: {view.program.arena_bytes} bytes" in total


def rows(f: Any, *args: Any) -> list[list[str]]:
    text = str(tfn.show(f, *args, at="memory", target=SMALL))
    return [re.split(r"  +", line.strip()) for line in text.split("\n\n")[0].splitlines()[1:]]


def test_carries_are_in_place_or_copied() -> None:
    def turned(x: Any) -> Any:  # each new carry is read by the other's kernel before it is written
        return tfn.lax.fori_loop(0, 3, lambda i, c: (c[1] @ c[0], c[0]), (x, x))

    x = tfn.ShapeDtypeStruct((4, 4), "float32")
    bodies = {"copied": lambda i, c: c @ c.T, "in place": lambda i, c: tnp.sin(c @ c.T @ c.T)}
    for word, body in bodies.items():
        table_rows = rows(lambda x, body=body: tfn.lax.fori_loop(0, 3, body, x), x)
        assert any(word in cell for row in table_rows for cell in row), word
    table_rows = rows(turned, x)
    copies = [row for row in table_rows if "copy" in row]
    program = View(tfn.make_jaxpr(turned)(x), SMALL).program
    launches = [row for row in table_rows if row[0].isdigit()]
    assert len(launches) == len(program.launches)
    assert [row[0] for row in launches] == [str(i) for i in range(len(launches))]
    assert any("held back" in row for row in copies)


def test_slices_move_with_their_loop() -> None:
    def last(xs: Any, w: Any) -> Any:
        return tfn.lax.scan(lambda c, x: (c @ w + x, c @ x), xs[0] * 0, xs, reverse=True)

    shapes = (tfn.ShapeDtypeStruct((5, 4), "float32"), tfn.ShapeDtypeStruct((4, 4), "float32"))
    values = str(tfn.show(last, *shapes, at="memory", target=SMALL)).split("\n\n")[1]
    assert "input 0 + 64 - 16*i1" in values and "output 1 + 16 - 4*i1" in values


def test_values_read_in_a_loop_are_live_until_its_end() -> None:
    def loop(x: Any) -> Any:
        y = tnp.sin(x) @ x
        return tfn.lax.fori_loop(0, 3, lambda i, c: (c @ y) @ x, x)

    view = View(tfn.make_jaxpr(loop)(tfn.ShapeDtypeStruct((4, 4), "float32")), SMALL)
    loops = [step for step in view.schedule.scheduled.steps if step.loop is not None]
    lives = view.schedule.live_ranges
    for step in loops:
        used = {view.allocation for launch in step.body.steps for view in launch.operands}
        outside = {a for a in used if a in lives and lives[a].first < step.position - 2}
        assert outside
