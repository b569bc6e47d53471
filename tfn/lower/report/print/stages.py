"""All kernels of a function, each under a heading, at any stage that kernels go through.

kernel 0: c:f32[4,8] <- a:f32[4,8]
  ...
kernel 1: d:f32[4,8] <- c:f32[4,8]
  the same as kernel 0

Loops and branches have headings of their own, and what is in them is indented:

scan 2, 10 times: e:f32[8] <- d:f32[10,8], b:f32[8]
  carry f:f32[8]: first b, then h, at last e
  slice g:f32[8] of d

  kernel 2.0: h:f32[8] <- f:f32[8], g:f32[8]
    ...
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence

from tfn.lower.fuse.ranges import Region
from tfn.lower.report.print.graph import Graph
from tfn.trace.jaxpr import argument, param
from tfn.trace.op import Op
from tfn.trace.uop import UOp

WIDTH = 100
"""Headings longer than this go on in the next line."""

Picture = Callable[[UOp, Sequence[str]], str]


def stages(graph: Graph, picture: Picture) -> str:
    """`picture(body, names of its parameters)` for each distinct kernel, in running order."""
    return "\n\n".join(_blocks(graph, picture, {}))


def _blocks(graph: Graph, picture: Picture, first: dict[UOp, str]) -> Iterator[str]:
    """What stands between empty lines: kernels, the headings of loops, and what is in those."""
    parts: dict[int, int] = {}
    for stage in graph.stages:
        number = stage.operands[0].arg
        if isinstance(stage, Region):
            yield "\n  ".join([heading(stage, graph), *notes(stage, graph)])
            titles = TITLES[stage.node.op](stage.node)
            for title, inner in zip(titles, graph.inner[stage.node]):
                gives = ", ".join(map(inner.name, inner.function.src))
                if title:
                    yield textwrap.indent(f"{title}: gives {gives}", "  ")
                for block in _blocks(inner, picture, first):
                    yield textwrap.indent(block, "    " if title else "  ")
            continue
        part = parts[number] = parts.get(number, 0) + 1
        title = f"kernel {graph.number(number)}" + (f", part {part}" if part > 1 else "")
        body = (
            f"the same as {first[stage.body]}"
            if stage.body in first
            else (picture(stage.body, [graph.name(u) for u in stage.operands]))
        )
        first.setdefault(stage.body, title)
        written, read = stage.operands[: stage.written], stage.operands[stage.written :]
        yield "\n  ".join([_arrow(title, graph, written, read), *body.split("\n")])


def _arrow(title: str, graph: Graph, written: Sequence[UOp], read: Sequence[UOp]) -> str:
    """``title: what is written <- what is read``."""
    head = f"{title}: {', '.join(map(graph.typed, written))}"
    if read:
        head += f" <- {', '.join(map(graph.typed, dict.fromkeys(read)))}"
    return textwrap.fill(head, WIDTH, subsequent_indent="    ")


def heading(region: Region, graph: Graph) -> str:
    """A loop or branch: how often or which way, what it writes and reads."""
    node = region.node
    how = ""
    if node.op is Op.SCAN:
        how = f", {node.arg.length} times" + (", from the last slice" if node.arg.reverse else "")
    title = f"{node.op.value} {graph.number(region.operands[0].arg)}{how}"
    return _arrow(title, graph, region.barriers, region.operands[len(region.barriers) :])


def notes(region: Region, graph: Graph) -> Iterator[str]:
    """One line for each value that a loop carries, takes a slice of, or makes slice by slice."""
    node = region.node
    if node.op is Op.HOST:
        yield f"calls {argument(node.arg.run)}"
        return
    if node.op is Op.CALL:
        if not graph.inner[node]:
            yield f"{node.arg.name}, the same as call {graph.called[node.src[0]]}"
        return
    if node.op is Op.COND:
        index = next(s for s in node.src if s.op is not Op.FUNCTION)
        yield f"by {graph.name(index)}, clamped to 0..{node.arg.branches - 1}"
        return
    body = graph.inner[node][-1]
    function, arg = body.function, node.arg
    operands = [s for s in node.src if s.op is not Op.FUNCTION]
    before = arg.consts if node.op is Op.SCAN else arg.cond_consts + arg.body_consts
    carries = arg.carries if node.op is Op.SCAN else len(operands) - before
    moved = function.arg.params[len(function.arg.params) - (len(operands) - before) :]
    out = {b.src[0].arg: graph.name(b) for b in region.barriers}
    for i, (p, source) in enumerate(zip(moved, operands[before:], strict=True)):
        name, given = body.typed(param(p)), graph.name(source)
        if i < carries:
            last = f", at last {out[i]}" if i in out else ""
            yield f"carry {name}: first {given}, then {body.name(function.src[i])}{last}"
        else:
            yield f"slice {name} of {given}"
    for i, u in enumerate(function.src[carries:], carries):
        if i in out:
            yield f"slices {body.typed(u)} make {out[i]}"


TITLES: dict[Op, Callable[[UOp], Sequence[str]]] = {
    Op.SCAN: lambda node: ("",),
    Op.WHILE: lambda node: ("condition", "body"),
    Op.COND: lambda node: [f"case {i}" for i in range(node.arg.branches)],
    Op.CALL: lambda node: [node.arg.name],
    Op.HOST: lambda node: (),
}
"""What the functions of a loop, a branch or a call are called."""


def sort(body: UOp, buffers: Sequence[str]) -> str:
    """A sort stays one node to the end, and so does a kernel that is given as text."""
    node = body.src[0].src[0]
    if node.op is Op.KERNEL:
        return f"{node.arg.name}, text written by hand, {node.arg.tiles} tile(s)"
    assert node.op is Op.SORT
    keys = f"{node.arg.keys} key{'s' if node.arg.keys > 1 else ''}"
    operands = ", ".join(buffers[s.arg.index] for s in node.src)
    return f"sort rows of {operands} by {keys}, stable"
