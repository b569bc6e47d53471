"""Source lines of nodes, their shares of a kernel's work, and the text around them."""

from __future__ import annotations

from pathlib import Path

import tfn
from tfn import numpy as jnp
from tfn.inspect.viewer.places import CONTEXT_LINES, UNKNOWN, Places, _around
from tfn.trace import source_lines
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk


def traced() -> list[UOp]:
    with source_lines.tracking():
        x = tfn.ShapeDtypeStruct((8, 8), "float32")
        outputs = list(tfn.make_jaxpr(lambda x: jnp.exp(x) @ x)(x).outputs)
        outputs[0] = UOp(Op.RESHAPE, (outputs[0],), (64,))  # made by a pass
    return outputs


def test_nodes_of_passes_have_the_line_of_their_source() -> None:
    outputs, places = traced(), Places()
    places.add(outputs)
    product = outputs[0].src[0]
    assert places.of(outputs[0]) == places.of(product) >= 0
    (param,) = [u for u in walk(outputs) if u.op is Op.PARAM]
    assert places.of(param) == UNKNOWN


def test_shares_follow_the_work() -> None:
    places = Places()
    outputs = traced()
    places.add(outputs)
    assert places.shares(walk(outputs)) == {0: 1.0}
    assert places.shares([]) == {}


def test_files_have_the_text_of_their_lines() -> None:
    places = Places()
    places.add(traced())
    (file,), (line,) = places.files()
    assert file["name"] == Path(__file__).name and line[0] == 0
    assert "jnp.exp(x) @ x" in dict(file["lines"])[line[1]]


def test_long_files_are_cut_around_the_lines(tmp_path: Path) -> None:
    path = tmp_path / "long.py"
    path.write_text("".join(f"line {i}\n" for i in range(1, 1001)))
    rows = _around(str(path), {3, 500})
    assert [i for i, _ in rows] == [
        *range(1, 4 + CONTEXT_LINES),
        *range(500 - CONTEXT_LINES, 501 + CONTEXT_LINES),
    ]
    assert dict(rows)[500] == "line 500"
    assert _around(str(tmp_path / "none.py"), {3}) == []
