"""All kernels of a function, each under a heading, at any stage that kernels go through.

kernel 0: c:f32[4,8] <- a:f32[4,8]
  ...
kernel 1: d:f32[4,8] <- c:f32[4,8]
  the same as kernel 0
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from tfn.lower.print.graph import Graph
from tfn.lower.ranges import Stage
from tfn.trace.op import Op
from tfn.trace.uop import UOp

WIDTH = 100
"""Headings longer than this go on in the next line."""

Picture = Callable[[UOp, Sequence[str]], str]


def stages(found: Sequence[Stage], graph: Graph, picture: Picture) -> str:
    """`picture(body, names of its parameters)` for each distinct kernel, in running order."""
    blocks: list[str] = []
    first: dict[UOp, str] = {}
    seen: dict[Any, int] = {}
    for stage in found:
        number = stage.operands[0].arg
        part = seen[number] = seen.get(number, 0) + 1
        title = f"kernel {number}" + (f", part {part}" if part > 1 else "")
        written = ", ".join(map(graph.typed, stage.operands[: stage.written]))
        read = ", ".join(map(graph.typed, stage.operands[stage.written :]))
        body = (
            f"the same as {first[stage.body]}"
            if stage.body in first
            else (picture(stage.body, [graph.name(u) for u in stage.operands]))
        )
        first.setdefault(stage.body, title)
        head = f"{title}: {written}" + (f" <- {read}" if read else "")
        lines = [textwrap.fill(head, WIDTH, subsequent_indent="    "), *body.split("\n")]
        blocks.append("\n  ".join(lines))
    return "\n\n".join(blocks)


def sort(body: UOp, buffers: Sequence[str]) -> str:
    """A sort stays one node to the end; its text is written whole."""
    node = body.src[0].src[0]
    assert node.op is Op.SORT
    keys = f"{node.arg.keys} key{'s' if node.arg.keys > 1 else ''}"
    operands = ", ".join(buffers[s.arg.index] for s in node.src)
    return f"sort rows of {operands} by {keys}, stable"
