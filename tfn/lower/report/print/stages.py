"""Stage printer: all kernels of a function, each under a heading, at any stage.

kernel 0: c:f32[4,8] <- a:f32[4,8]
  ...
kernel 1: d:f32[4,8] <- c:f32[4,8]
  the same as kernel 0

Loops and branches have headings of their own, and their kernels are indented:

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
from tfn.trace.regions import form
from tfn.trace.uop import UOp

WIDTH_CHARACTERS = 100
"""Longer headings are wrapped."""

Printer = Callable[[UOp, Sequence[str]], str]
"""Prints the body of a kernel, given the names of its operands."""


def stages(graph: Graph, printer: Printer) -> str:
    """The text of each distinct kernel, in running order."""
    return "\n\n".join(_blocks(graph, printer, {}))


def _blocks(graph: Graph, printer: Printer, first: dict[UOp, str]) -> Iterator[str]:
    """Paragraphs: kernels, headings of loops, and indented the kernels of those."""
    parts: dict[int, int] = {}
    for stage in graph.stages:
        number = stage.operands[0].arg
        if isinstance(stage, Region):
            yield "\n  ".join([heading(stage, graph), *notes(stage, graph)])
            for title, inner in zip(titles(stage.node), graph.inner[stage.node]):
                gives = ", ".join(map(inner.name, inner.function.src))
                if title:
                    yield textwrap.indent(f"{title}: gives {gives}", "  ")
                for block in _blocks(inner, printer, first):
                    yield textwrap.indent(block, "    " if title else "  ")
            continue
        # A scatter is two kernels behind one barrier: a copy, and the updates.
        part = parts[number] = parts.get(number, 0) + 1
        title = f"kernel {graph.number(number)}" + (f", part {part}" if part > 1 else "")
        if stage.body in first:
            body = f"the same as {first[stage.body]}"
        else:
            body = printer(stage.body, [graph.name(u) for u in stage.operands])
        first.setdefault(stage.body, title)
        written, read = stage.operands[: stage.written], stage.operands[stage.written :]
        yield "\n  ".join([_arrow(title, graph, written, read), *body.split("\n")])


def _arrow(title: str, graph: Graph, written: Sequence[UOp], read: Sequence[UOp]) -> str:
    """``title: results <- operands``, wrapped."""
    head = f"{title}: {', '.join(map(graph.typed, written))}"
    if read:
        head += f" <- {', '.join(map(graph.typed, dict.fromkeys(read)))}"
    return textwrap.fill(head, WIDTH_CHARACTERS, subsequent_indent="    ")


def heading(region: Region, graph: Graph) -> str:
    """The heading of a loop or branch: its trip count, results and operands."""
    node = region.node
    trips = ""
    if node.op is Op.SCAN:
        trips = f", {node.arg.length} times" + (", from the last slice" if node.arg.reverse else "")
    title = f"{node.op.value} {graph.number(region.operands[0].arg)}{trips}"
    return _arrow(title, graph, region.barriers, region.operands[len(region.barriers) :])


def notes(region: Region, graph: Graph) -> Iterator[str]:
    """One line for each carry of a loop, and each array that it reads or writes by slices."""
    node = region.node
    if node.op is Op.HOST:
        yield f"calls {argument(node.arg.run)}"
        return
    if node.op is Op.CALL:
        if not graph.inner[node]:
            yield f"{node.arg.name}, the same as call {graph.called[node.src[0]]}"
        return
    if node.op is Op.COND:
        (index,) = form(node, region.reads).selector
        yield f"by {graph.name(index)}, clamped to 0..{len(graph.inner[node]) - 1}"
        return
    body = graph.inner[node][-1]  # of a while loop the condition comes first
    function, parts = body.function, form(node, region.reads)
    carries = len(parts.carries)
    moved = function.arg.params[len(parts.own(-1)) :]
    out = {b.src[0].arg: graph.name(b) for b in region.barriers}
    for i, (p, source) in enumerate(zip(moved, (*parts.carries, *parts.arrays), strict=True)):
        name, outer = body.typed(param(p)), graph.name(source)
        if i < carries:
            last = f", at last {out[i]}" if i in out else ""
            yield f"carry {name}: first {outer}, then {body.name(function.src[i])}{last}"
        else:
            yield f"slice {name} of {outer}"
    for i, u in enumerate(function.src[carries:], carries):
        if i in out:
            yield f"slices {body.typed(u)} make {out[i]}"


def titles(node: UOp) -> Sequence[str]:
    """The titles of the functions of a region."""
    if node.op is Op.HOST:
        return ()
    if node.op is Op.CALL:
        return (node.arg.name,)
    if node.op is Op.COND:
        return [f"case {i}" for i in range(len(form(node).functions))]
    return ("condition", "body") if node.op is Op.WHILE else ("",)


def whole_kernel(body: UOp, buffers: Sequence[str]) -> str:
    """One line for a kernel that is a single node at all stages: a sort, or text of the user."""
    node = body.src[0].src[0]
    if node.op is Op.KERNEL:
        return f"{node.arg.name}, text written by hand, {node.arg.tiles} tile(s)"
    assert node.op is Op.SORT
    keys = f"{node.arg.keys} key{'s' if node.arg.keys > 1 else ''}"
    operands = ", ".join(buffers[s.arg.index] for s in node.src)
    return f"sort rows of {operands} by {keys}, stable"
