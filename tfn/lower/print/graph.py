"""A function with barriers, its equations under the kernel that computes them.

Before -> after::

    e = barrier[0] (sin a);  g = barrier[1] (dot e b)

    { lambda ; a:f32[4,8] b:f32[8,5]. let
      kernel 0:
        c:f32[4,8] = sin a
        d:f32[4,8] = barrier c
      kernel 1:
        e:f32[4,5] = dot_general[...] d b
        f:f32[4,5] = barrier e
      in (f,) }

An equation that several kernels compute, each for itself, stands under each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfn.lower.ranges import Stage
from tfn.trace.jaxpr import equation, literal, names, param
from tfn.trace.op import SEVERAL, Op
from tfn.trace.primitives import show
from tfn.trace.uop import UOp, walk


class Graph:
    """The equations of each kernel in running order, and a name for every value.

    Attributes:
        names: of parameters, of scalars, and of what the equations define.
        kernels: (number, nodes) for each kernel.
    """

    def __init__(self, function: UOp, stages: Sequence[Stage]) -> None:
        self.function = function
        self.names: dict[UOp, str] = {}
        self.kernels: list[tuple[int, list[UOp]]] = []
        fresh = names()
        for p in function.arg.params:
            self.names[param(p)] = next(fresh)
        members: dict[int, list[UOp]] = {}
        for node in walk(function.src):
            if node.op is Op.GBARRIER:
                members.setdefault(node.arg, []).append(node)
        running = dict.fromkeys(stage.operands[0].arg for stage in stages)
        idle = [number for number in members if number not in running]  # nothing in them to compute
        for number in (*idle, *running):
            nodes = list(_inside(members[number], number))
            self.kernels.append((number, nodes))
            for node in nodes:
                if node not in self.names:
                    self.names[node] = literal(node.arg) if _inline(node) else next(fresh)

    def __str__(self) -> str:
        names = self.names
        params = [param(p) for p in self.function.arg.params]
        lines = [f"{{ lambda ; {' '.join(f'{names[p]}:{show(p)}' for p in params)}. let"]
        for number, nodes in self.kernels:
            lines.append(f"  kernel {number}:")
            lines += [f"    {self._line(node)}" for node in nodes if not _inline(node)]
        outputs = self.function.src
        results = ", ".join(names[u] for u in outputs) + ("," if len(outputs) == 1 else "")
        return "\n".join([*lines, f"  in ({results}) }}"])

    def _line(self, node: UOp) -> str:
        name = self.names[node]
        if node.op is Op.GBARRIER:
            return f"{name}:{show(node)} = barrier {self.names[node.src[0]]}"
        kind = "" if node.op in SEVERAL else f":{show(node)}"
        return f"{name}{kind} = {equation(node, self.names)}"

    def typed(self, node: UOp) -> str:
        """A value with its type: ``a:f32[3]``."""
        return f"{self.name(node)}:{show(node)}"

    def name(self, node: UOp) -> str:
        """A value's name; memory that only a sort uses has none of its own."""
        return self.names.get(node, "scratch")


def _inline(node: UOp) -> bool:
    return node.op is Op.CONST and not node.shape


def _inside(barriers: Sequence[UOp], number: int) -> Iterator[UOp]:
    """The nodes of one kernel, sources first; what other kernels made is not entered."""

    def own(node: UOp) -> bool:
        return node.op is not Op.GBARRIER or node.arg == number

    for node in walk(barriers, own):
        if own(node) and node.op is not Op.PARAM:
            yield node
