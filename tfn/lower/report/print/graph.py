"""Graph printer: the equations of a function, under the kernels that compute them.

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

An equation that several kernels compute, each for itself, is printed under each of them.  A branch,
or a loop too large for one kernel, is no kernel; its functions are cut like any other and printed
in its equation.  Their kernels are numbered after it, 1.0, 1.1 and so on; values that they only
read keep their names, and values that they compute have names of their own.  A function that is
called several times is printed in the first of its calls.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence

from tfn._support.validate import shown
from tfn.lower.fuse.ranges import IndexedKernel, Region
from tfn.trace.jaxpr import argument, equation, literal, names, param
from tfn.trace.op import SEVERAL, Op
from tfn.trace.regions import ROWS, form
from tfn.trace.uop import UOp, walk

Cut = Callable[[UOp], tuple[UOp, Sequence[IndexedKernel | Region]]]
"""From a function to the same with barriers, and its kernels in running order."""


class Graph:
    """The equations of each kernel in running order, and a name for every value.

    Attributes:
        function, stages: the function with barriers, and its kernels.
        label: the prefix of the numbers of its kernels.
        first: the number of its first kernel.
        names: of parameters, of scalars, and of the results of equations.
        kernels: the number and nodes of each kernel.
        inner: the functions of each loop, branch and call; none of a call that repeats another.
        called: the number of the first call of each function.
    """

    def __init__(
        self,
        function: UOp,
        cut: Cut,
        label: str = "",
        first: int = 0,
        param_names: Sequence[str] = (),
        fresh: Iterator[str] | None = None,
        called: dict[UOp, str] | None = None,
    ) -> None:
        self.function, self.stages = cut(function)
        self.label, self.first, self.cut = label, first, cut
        # One supply of names for all functions: inner values are named like no outer value.
        self.fresh = fresh or names()
        self.called = {} if called is None else called
        params = [param(p) for p in function.arg.params]
        self.names = dict(zip(params, param_names or self.fresh))
        self.kernels: list[tuple[int, list[UOp]]] = []
        self.inner: dict[UOp, list[Graph]] = {}
        members: dict[int, list[UOp]] = {}
        for node in walk(self.function.src):
            if node.op is Op.GBARRIER:
                members.setdefault(node.arg, []).append(node)
        regions = {stage.node for stage in self.stages if isinstance(stage, Region)}
        running = dict.fromkeys(stage.operands[0].arg for stage in self.stages)
        idle = [
            number for number in members if number not in running
        ]  # of values without elements: nothing to compute
        for number in (*idle, *running):
            nodes = list(_inside(members[number], number))
            self.kernels.append((number, nodes))
            for node in nodes:
                if node not in self.names:
                    self.names[node] = literal(node.arg) if _inline(node) else next(self.fresh)
                if node in regions:
                    self.inner[node] = list(self._functions(node, number))

    def _functions(self, node: UOp, number: int) -> Iterator[Graph]:
        """The functions of a loop or branch; carries have the same name in all of them."""
        bodies = [s for s in node.src if s.op is Op.FUNCTION]
        # A function called again is printed in its first call only.
        if node.op is Op.CALL and self.called.setdefault(bodies[0], self.number(number)) != (
            self.number(number)
        ):
            return
        label, first = f"{self.number(number)}.", 0
        params = self._params(node) if node.op in ROWS else []
        for function, param_names in zip(bodies, params, strict=True):
            graph = Graph(function, self.cut, label, first, param_names, self.fresh, self.called)
            first += len(graph.kernels)
            yield graph

    def _params(self, node: UOp) -> list[list[str]]:
        """Names of the parameters of each function: carries and slices have their own."""
        parts = form(node)
        moved = [next(self.fresh) for _ in (*parts.carries, *parts.arrays)]
        rows = [[*map(self._read, row)] for row in parts.consts]
        return [[*rows[min(k, len(rows) - 1)], *moved] for k in range(len(parts.functions))]

    def _read(self, node: UOp) -> str:
        """The name in a function of a value from outside: the same, unless that is a literal."""
        return next(self.fresh) if _inline(node) else self.name(node)

    def __str__(self) -> str:
        params = [param(p) for p in self.function.arg.params]
        lines = [f"{{ lambda ; {' '.join(map(self.typed, params))}. let"]
        for number, nodes in self.kernels:
            kind = next((node.op.value for node in nodes if node in self.inner), "kernel")
            lines.append(f"  {kind} {self.number(number)}:")
            lines += [textwrap.indent(text, "    ") for _, text in self.equations(nodes)]
        outputs = self.function.src
        results = ", ".join(map(self.name, outputs)) + ("," if len(outputs) == 1 else "")
        return "\n".join([*lines, f"  in ({results}) }}"])

    def equations(self, nodes: Iterable[UOp]) -> Iterator[tuple[UOp, str]]:
        """The equations of the nodes of a kernel; scalars are written where they are used."""
        return ((node, self._line(node)) for node in nodes if not _inline(node))

    def _line(self, node: UOp) -> str:
        name = self.names[node]
        if node.op is Op.GBARRIER:
            return f"{name}:{shown(node)} = barrier {self.names[node.src[0]]}"
        if node in self.inner:
            sources = " ".join(self.names[s] for s in node.src if s.op is not Op.FUNCTION)
            arg = node.arg.name if node.op is Op.CALL else argument(node.arg)
            if not self.inner[node]:
                return f"{name} = {node.op.value}[{arg}] {sources}"
            bodies = ",\n".join([arg, *map(str, self.inner[node])])
            return f"{name} = {node.op.value}[\n{textwrap.indent(bodies, '  ')}\n] {sources}"
        kind = "" if node.op in SEVERAL else f":{shown(node)}"
        return f"{name}{kind} = {equation(node, self.names)}"

    def number(self, number: int) -> str:
        """The number of a kernel in the whole program: ``3``, ``1.0``."""
        return f"{self.label}{self.first + number}"

    def typed(self, node: UOp) -> str:
        """A value with its type: ``a:f32[3]``."""
        return self.name(node) if _inline(node) else f"{self.name(node)}:{shown(node)}"

    def name(self, node: UOp) -> str:
        """A value's name; scratch memory has none of its own."""
        return self.names.get(node, "scratch")


def _inline(node: UOp) -> bool:
    return node.op is Op.CONST and not node.shape


def _inside(barriers: Sequence[UOp], number: int) -> Iterator[UOp]:
    """The nodes of one kernel, sources first; values of other kernels are not entered."""

    def own(node: UOp) -> bool:
        return node.op is not Op.GBARRIER or node.arg == number

    for node in walk(barriers, own):
        if own(node) and node.op is not Op.PARAM and node.op is not Op.FUNCTION:
            yield node
