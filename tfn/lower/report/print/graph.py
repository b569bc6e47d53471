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

An equation that several kernels compute, each for itself, stands under each of them.  A branch, or
a loop too large for one kernel, is none itself; its functions are cut like any other and stand in
its equation.  Their kernels are numbered after it, 1.0, 1.1 and so on, what they only read keeps
its name, and what they make has a name that nothing else has.  A function that is called several
times stands in the first of its calls.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence

from tfn.lower.fuse.ranges import IndexedKernel, Region
from tfn.trace.jaxpr import argument, equation, literal, names, param
from tfn.trace.op import SEVERAL, Op
from tfn.trace.type_checks import show
from tfn.trace.uop import UOp, walk

Inside = Callable[[UOp], tuple[UOp, Sequence[IndexedKernel | Region]]]
"""A function -> the same with barriers, and its kernels in running order."""


class Graph:
    """The equations of each kernel in running order, and a name for every value.

    Attributes:
        function, stages: what is printed, with barriers, and in kernels.
        label: how the numbers of its kernels begin.
        first: the number of its first kernel.
        names: of parameters, of scalars, and of what the equations define.
        kernels: (number, nodes) for each kernel.
        inner: the functions of each loop, branch and call; none of a call that repeats another.
        called: for each function that is called, the number of its first call.
    """

    def __init__(
        self,
        function: UOp,
        inside: Inside,
        label: str = "",
        first: int = 0,
        given: Sequence[str] = (),
        fresh: Iterator[str] | None = None,
        called: dict[UOp, str] | None = None,
    ) -> None:
        self.function, self.stages = inside(function)
        self.label, self.first, self.inside = label, first, inside
        self.fresh = fresh or names()
        self.called = {} if called is None else called
        params = [param(p) for p in function.arg.params]
        self.names = dict(zip(params, given or self.fresh))
        self.kernels: list[tuple[int, list[UOp]]] = []
        self.inner: dict[UOp, list[Graph]] = {}
        members: dict[int, list[UOp]] = {}
        for node in walk(self.function.src):
            if node.op is Op.GBARRIER:
                members.setdefault(node.arg, []).append(node)
        apart = {stage.node for stage in self.stages if isinstance(stage, Region)}
        running = dict.fromkeys(stage.operands[0].arg for stage in self.stages)
        idle = [number for number in members if number not in running]  # nothing in them to compute
        for number in (*idle, *running):
            nodes = list(_inside(members[number], number))
            self.kernels.append((number, nodes))
            for node in nodes:
                if node not in self.names:
                    self.names[node] = literal(node.arg) if _inline(node) else next(self.fresh)
                if node in apart:
                    self.inner[node] = list(self._functions(node, number))

    def _functions(self, node: UOp, number: int) -> Iterator[Graph]:
        """The functions of a loop or branch; what they carry has one name in all of them."""
        bodies = [s for s in node.src if s.op is Op.FUNCTION]
        if node.op is Op.CALL and self.called.setdefault(bodies[0], self.number(number)) != (
            self.number(number)
        ):
            return
        operands = [s for s in node.src if s.op is not Op.FUNCTION]
        label, first = f"{self.number(number)}.", 0
        for function, given in zip(bodies, GIVEN[node.op](self, node, operands), strict=True):
            graph = Graph(function, self.inside, label, first, given, self.fresh, self.called)
            first += len(graph.kernels)
            yield graph

    def _scan(self, node: UOp, operands: Sequence[UOp]) -> list[list[str]]:
        moved = [next(self.fresh) for _ in operands[node.arg.consts :]]
        return [[*map(self._read, operands[: node.arg.consts]), *moved]]

    def _while(self, node: UOp, operands: Sequence[UOp]) -> list[list[str]]:
        middle, last = node.arg.cond_consts, node.arg.cond_consts + node.arg.body_consts
        carries = [next(self.fresh) for _ in operands[last:]]
        consts = (operands[:middle], operands[middle:last])
        return [[*map(self._read, known), *carries] for known in consts]

    def _cond(self, node: UOp, operands: Sequence[UOp]) -> list[list[str]]:
        return [list(map(self._read, operands[1:]))] * node.arg.branches

    def _call(self, node: UOp, operands: Sequence[UOp]) -> list[list[str]]:
        return [list(map(self._read, operands))]

    def _read(self, node: UOp) -> str:
        """What a function calls a value from outside: the same, unless it has no name there."""
        return next(self.fresh) if _inline(node) else self.name(node)

    def __str__(self) -> str:
        params = [param(p) for p in self.function.arg.params]
        lines = [f"{{ lambda ; {' '.join(map(self.typed, params))}. let"]
        for number, nodes in self.kernels:
            kind = next((node.op.value for node in nodes if node in self.inner), "kernel")
            lines.append(f"  {kind} {self.number(number)}:")
            for node in nodes:
                if not _inline(node):
                    lines.append(textwrap.indent(self._line(node), "    "))
        outputs = self.function.src
        results = ", ".join(map(self.name, outputs)) + ("," if len(outputs) == 1 else "")
        return "\n".join([*lines, f"  in ({results}) }}"])

    def _line(self, node: UOp) -> str:
        name = self.names[node]
        if node.op is Op.GBARRIER:
            return f"{name}:{show(node)} = barrier {self.names[node.src[0]]}"
        if node in self.inner:
            sources = " ".join(self.names[s] for s in node.src if s.op is not Op.FUNCTION)
            arg = node.arg.name if node.op is Op.CALL else argument(node.arg)
            if not self.inner[node]:
                return f"{name} = {node.op.value}[{arg}] {sources}"
            bodies = ",\n".join([arg, *map(str, self.inner[node])])
            return f"{name} = {node.op.value}[\n{textwrap.indent(bodies, '  ')}\n] {sources}"
        kind = "" if node.op in SEVERAL else f":{show(node)}"
        return f"{name}{kind} = {equation(node, self.names)}"

    def number(self, number: int) -> str:
        """The number of a kernel in the whole program: ``3``, ``1.0``."""
        return f"{self.label}{self.first + number}"

    def typed(self, node: UOp) -> str:
        """A value with its type: ``a:f32[3]``."""
        return self.name(node) if _inline(node) else f"{self.name(node)}:{show(node)}"

    def name(self, node: UOp) -> str:
        """A value's name; memory that only a sort uses has none of its own."""
        return self.names.get(node, "scratch")


GIVEN: Mapping[Op, Callable[[Graph, UOp, Sequence[UOp]], list[list[str]]]] = {
    Op.SCAN: Graph._scan,
    Op.WHILE: Graph._while,
    Op.COND: Graph._cond,
    Op.CALL: Graph._call,
    Op.HOST: lambda graph, node, operands: [],
}


def _inline(node: UOp) -> bool:
    return node.op is Op.CONST and not node.shape


def _inside(barriers: Sequence[UOp], number: int) -> Iterator[UOp]:
    """The nodes of one kernel, sources first; what other kernels made is not entered."""

    def own(node: UOp) -> bool:
        return node.op is not Op.GBARRIER or node.arg == number

    for node in walk(barriers, own):
        if own(node) and node.op is not Op.PARAM and node.op is not Op.FUNCTION:
            yield node
