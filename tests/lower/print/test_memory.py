"""The tables of launches and memory."""

from __future__ import annotations

import tfn
import tfn.numpy as tnp
from tests.lower.check_passes import SMALL
from tfn.lower.print.memory import few, span, table
from tfn.show import View


def test_columns_are_as_wide_as_they_must_be() -> None:
    assert table(("a", "bb"), [("ccc", "d"), ("", "e")]) == "a    bb\nccc  d\n     e"
    assert table(("a", "b"), []) == "a  b"


def test_few_and_span() -> None:
    assert few(["a", "b"]) == "a, b"
    assert few(list("abcdef")) == "a, b, c, d, and 2 more"
    assert span([3]) == "3" and span([2, 5, 3]) == "2-5"


def test_every_launch_and_every_value_has_a_row() -> None:
    args = (tfn.ShapeDtypeStruct((8, 8), "float32"),) * 2
    view = View(tfn.make_jaxpr(lambda x, w: tnp.exp(x @ w) @ w)(*args), SMALL)
    launches, values, total = str(
        tfn.show(lambda x, w: tnp.exp(x @ w) @ w, *args, at="memory", target=SMALL)
    ).split("\n\n")
    assert len(launches.splitlines()) == 1 + len(view.program.launches)
    assert len(values.splitlines()) == 1 + len({u for s in view.stages for u in s.operands})
    assert f"arena: {view.program.arena_bytes} bytes" in total
