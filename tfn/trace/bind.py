"""Execute at once, or record: the one decision.

Every operation of the public face comes through `bind`.  If an operand belongs to a running
trace, a node is recorded; otherwise the executor that the face has plugged in runs the op now.

A trace is known when its inputs are concrete arrays (under `grad`, `jvp`, `vjp`, `linearize`
outside `jit`): then any value in it can be computed when Python asks for it, and `if x > 0` works.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from tfn.dtypes import DType
from tfn.errors import Line, UnexpectedTracerError, show_line, user_line
from tfn.trace.argument import Host, Leaf
from tfn.trace.aval import Kind
from tfn.trace.inline import has, inlined
from tfn.trace.jaxpr import Jaxpr, alone, close, inline
from tfn.trace.loop_cleanup import tidy
from tfn.trace.op import LOOPS, SEVERAL, Op, Shape
from tfn.trace.uop import UOp, substitute, walk


class Trace:
    """One run of a Python function on abstract values.

    Attributes:
        name: of the function, for messages.
        depth: how many traces run around it.
        live: whether the function is still running.
        concretized: whether Python looked at a value, so that the graph depends on values.
        captured: the leaf of each array from outside that met the trace, by identity.
        places: where the user's code made each value.
        memo: values already computed in a known trace.
        inner: the trace of a branch that runs inside: it records what is done to values of this
            trace too, so that it is done only if the branch is chosen.
        known: whether its inputs may have values.
        begin, token: what its effects begin with, and what they have come to; None if there are
            none.  See `trace.effects`.
    """

    __slots__ = (
        "name",
        "depth",
        "live",
        "concretized",
        "captured",
        "memo",
        "inner",
        "where",
        "known",
        "begin",
        "token",
        "places",
    )

    def __init__(self, name: str, depth: int, known: bool = True) -> None:
        self.name, self.depth, self.known = name, depth, known
        self.begin: UOp | None = None
        self.token: UOp | None = None
        self.live, self.concretized = True, False
        self.captured: dict[int | UOp, UOp] = {}
        self.memo: dict[UOp, Any] = {}
        self.inner: Trace | None = None
        self.places: dict[UOp, Line] = {}
        self.where = user_line()

    @property
    def acts(self) -> bool:
        """Whether something in it has an effect."""
        return self.token is not self.begin


class Value(Protocol):
    """What the face's Array shows to this floor."""

    shape: Shape
    dtype: DType
    weak_type: bool
    kind: Kind | None  # shape and dtype as one object; None if traced
    uop: UOp | None  # None if concrete
    trace: Trace | None  # None if concrete
    known: bool  # whether it can be computed now


Door = Callable[..., Any]
DOOR_BYTES = 3_000
"""Bytes of a door and of what it is found by."""


class Making(NamedTuple):
    """What it took to make a program.

    Attributes:
        trace_ns, lower_ns, compile_ns: time from the user's function to a graph, to text, to
            machine code that is loaded.
        kernels: distinct ones among those of the program.
        compiled: objects that had to be compiled.
        from_disk: objects that were found on the disk; others were in memory already.
        size_bytes: what it takes while it is kept, estimated.
    """

    trace_ns: int = 0
    lower_ns: int = 0
    compile_ns: int = 0
    kernels: int = 0
    compiled: int = 0
    from_disk: int = 0
    size_bytes: int = 0


class Face(Protocol):
    """What the face plugs in."""

    def asarray(self, value: Any, dtype: Any = None) -> Any:
        """A Value from whatever a user may pass."""

    def adopt(self, data: Any) -> Any:
        """A Value that shares the memory of a NumPy array.  Raises ArgumentError if it cannot."""

    def read(self, value: Any) -> Any:
        """The data of a concrete Value, as a read-only NumPy array."""

    def weaken(self, value: Any, weak: bool) -> Any:
        """The same Value with a dtype that is weak, or is not."""

    def wrap(self, uop: UOp, trace: Trace, known: bool, weak: bool = False) -> Any:
        """A Value of a running trace."""

    def check_room(self, size_bytes: int) -> None:
        """Raise OutOfMemoryError if there is no room for so much."""

    def evaluate(self, uop: UOp) -> Any:
        """The Value of a graph that depends on none, now, without compiling anything."""

    def execute(self, op: Op, arg: Any, operands: Sequence[Any], weak: bool = False) -> Any:
        """One op, now, on concrete Values."""

    def call(
        self, jaxpr: Jaxpr, operands: Sequence[Any], donated: frozenset[int] = frozenset()
    ) -> list[Any]:
        """A whole closed function, now, compiled, on concrete Values.

        Those whose numbers are `donated` are deleted; results may take their memory.
        """

    def making(self, jaxpr: Jaxpr) -> Making:
        """What its program took, all zero if none has been made."""

    def footprint(self, jaxpr: Jaxpr, donated: frozenset[int] = frozenset()) -> Any:
        """The memory that a run takes, known before it runs."""

    def door(
        self,
        jaxpr: Jaxpr,
        takes: Sequence[Any],
        gives: Any,
        given: Sequence[bool | None],
        made: Sequence[bool],
        captured: Sequence[Any] = (),
        donated: frozenset[int] = frozenset(),
    ) -> Door | None:
        """The same as a native function of the arguments as they are, where there can be one.

        `takes` and `gives` are the arguments and the result, with numbers of parameters and of
        outputs for Values; `given` and `made` say which are weak, None for either; `captured` are
        the last parameters, and those of the numbers `donated` lose their memory.  It answers
        NotImplemented, and has done nothing, if its arguments are not as described.
        """


_FACE: list[Callable[[], Face]] = []
_VIEW: list[Callable[[Jaxpr], Any]] = []
_LOCAL = threading.local()


def plug(face: Callable[[], Face], view: Callable[[Jaxpr], Any]) -> None:
    """Say who gives the face, and views; done once, by a visible line of ``tfn/__init__.py``."""
    _FACE[:], _VIEW[:] = [face], [view]


@cache
def face() -> Face:
    """The plugged face, loaded by the first one who needs it."""
    return _FACE[0]()


def view(jaxpr: Jaxpr) -> Any:
    """The stages of its way to the default device; see `tfn.inspect.show`."""
    return _VIEW[0](jaxpr)


def traces() -> list[Trace]:
    """The traces that run in this thread, the outermost first."""
    stack: list[Trace] | None = getattr(_LOCAL, "stack", None)
    if stack is None:
        stack = _LOCAL.stack = []
    return stack


@contextmanager
def tracing(name: str, branch: bool = False, known: bool = True) -> Iterator[Trace]:
    """A trace that lives for the block; see `Trace.inner` for that of a branch."""
    stack = traces()
    trace = Trace(name, len(stack) + 1, known)
    before = [(outer, outer.inner) for outer in stack] if branch else []
    for outer, _ in before:
        outer.inner = trace
    stack.append(trace)
    try:
        yield trace
    finally:
        stack.remove(trace)
        for outer, inner in before:
            outer.inner = inner
        trace.live = False
        trace.captured.clear()


def new_leaf(
    trace: Trace, shape: Shape, dtype: DType, name: str, value: Any = None, weak: bool = False
) -> Any:
    """An input of a trace, as a Value; `value` is what stands behind it, if anything does."""
    uop = UOp(Op.LEAF, (), Leaf(shape, dtype, value, name, is_input=True))
    known = value is not None and (value.trace is None or value.known)
    return face().wrap(uop, trace, known, weak)


def lift(value: Any, trace: Trace) -> UOp:
    """The node of a value in a trace: its own, or the leaf of what was captured from outside.

    A value of an outer trace is captured like a concrete array, so that the graph of a trace
    ends at its own leaves and a transform never walks into the graphs around it.
    """
    owner = value.trace
    if owner is trace:
        uop: UOp = value.uop
        return uop
    key: int | UOp = id(value)
    if owner is not None:
        check_live(value)
        key = outer = value.uop
        if outer.op is Op.CONST or outer.op is Op.IOTA:
            return cast(UOp, outer)
    leaf = trace.captured.get(key)
    if leaf is None:
        leaf = UOp(Op.LEAF, (), Leaf(value.shape, value.dtype, value, "a captured array"))
        trace.captured[key] = leaf
    return leaf


def check_live(value: Any) -> None:
    """Raise if the trace of a value has ended.

    Raises:
        UnexpectedTracerError: naming the function it leaked from.
    """
    if not value.trace.live:
        raise UnexpectedTracerError(
            f"a traced value was used after {value.trace.name} had returned: it leaked",
            got=f"{value!r}, made at {show_line(value.trace.places.get(value.uop))}, "
            f"in the trace that began at {value.trace.where}",
            hint="return the value from the function instead of storing it elsewhere",
        )


def bind(op: Op, *operands: Any, arg: Any = None, weak: bool = False) -> Any:
    """The op on Values: recorded if one of them is being traced, else executed.

    `weak` says whether the dtype of the result is.
    """
    trace: Trace | None = None
    known = True
    for value in operands:
        owner = value.trace
        if owner is not None:
            if not owner.live:
                check_live(value)
            if trace is None or owner.depth > trace.depth:
                trace = owner
            known = known and value.known
    if trace is None:
        return face().execute(op, arg, operands, weak)
    if trace.inner is not None:
        trace = trace.inner
    uop = UOp(op, tuple([v.uop if v.trace is trace else lift(v, trace) for v in operands]), arg)
    return face().wrap(uop, trace, known, weak)


def innermost(values: Sequence[Any]) -> Trace | None:
    """The deepest live trace among values, or the branch inside it; None if all are concrete."""
    found: Trace | None = None
    for value in values:
        if value.trace is not None:
            check_live(value)
            if found is None or value.trace.depth > found.depth:
                found = value.trace
    return found if found is None or found.inner is None else found.inner


def evaluate(outputs: Sequence[UOp], trace: Trace, weak: Sequence[bool] = ()) -> list[Any]:
    """The values of graphs over leaves that all have a value.

    Inside an outer trace the leaves are replaced by what stands behind them, and nothing runs.
    Otherwise the graph is compiled whole, or, if Python has looked at a value of `trace`, run
    op by op, because such a graph is different each time.  `weak` says which outputs are weak.
    The effects of the trace happen too, or become those of the outer trace.
    """
    weak = weak or (False,) * len(outputs)
    if trace.token is None or not trace.acts:
        return _evaluate(outputs, trace, weak)
    *values, token = _evaluate([*outputs, trace.token], trace, (*weak, False))
    if token.trace is not None:
        token.trace.token = token.uop
    return values


def _evaluate(outputs: Sequence[UOp], trace: Trace, weak: Sequence[bool]) -> list[Any]:
    order = list(walk(outputs))
    if any(node.op in LOOPS for node in order):
        outputs = tidy(outputs, order)
        order = list(walk(outputs))
    used = [node for node in order if node.op is Op.LEAF]
    outer = innermost([leaf.arg.value for leaf in used])
    if outer is not None:
        replace = {leaf: lift(leaf.arg.value, outer) for leaf in used}
        unknown = {n for n in used if n.arg.value.trace is not None and not n.arg.value.known}
        if unknown:
            for node in order:
                if not unknown.isdisjoint(node.src):
                    unknown.add(node)
        return [
            face().wrap(new, outer, old not in unknown, is_weak)
            for old, new, is_weak in zip(
                outputs, substitute(outputs, replace, order), weak, strict=True
            )
        ]
    if any(node.op is Op.FUNCTION for node in order) and has(outputs, Op.CUSTOM):
        outputs = tidy(inlined(outputs))
    # An output that is an array already is that array, or at least shares its memory.
    values = {u: u.arg.value for u in outputs if u.op is Op.LEAF}
    rest = list(dict.fromkeys(u for u in outputs if u not in values))
    if trace.concretized:
        values |= {u: run_now(u, trace) for u in rest}
        trace.memo.clear()
    elif rest:
        jaxpr, captured = close(rest, [])
        values |= zip(rest, face().call(jaxpr, [leaf.arg.value for leaf in captured]), strict=True)
    return [face().weaken(values[u], is_weak) for u, is_weak in zip(outputs, weak, strict=True)]


def call(
    jaxpr: Jaxpr, operands: Sequence[Any], weak: Sequence[bool], acts: bool = False
) -> list[Any]:
    """A closed function on Values: inlined into the innermost trace among them, or run now.

    If it `acts`, its first output is the token to which that of the trace, which is among the
    operands, has come; it is not among the results.
    """
    trace = innermost(operands)
    if trace is None:
        results = face().call(jaxpr, operands)[acts:]
        return [face().weaken(x, is_weak) for x, is_weak in zip(results, weak, strict=True)]
    known = all(value.trace is None or value.known for value in operands)
    uops = inline(jaxpr, [lift(value, trace) for value in operands])
    if acts:
        trace.token, *uops = uops
    return [face().wrap(u, trace, known, w) for u, w in zip(uops, weak, strict=True)]


def call_host(host: Host, operands: Sequence[Any]) -> list[Any]:
    """The results of a function of the host, now, on concrete Values."""
    results = [np.empty(shape, dtype) for shape, dtype in host.results]
    host.run(results, [face().read(x) for x in operands])
    return [face().asarray(x) for x in results]


def run_now(uop: UOp, trace: Trace) -> Any:
    """The value of one node of a known trace, op by op, each node once."""
    memo = trace.memo
    for node in walk([uop], lambda node: node not in memo):
        if node in memo:
            continue
        if node.op is Op.LEAF:
            value = node.arg.value
            memo[node] = value if value.trace is None else run_now(value.uop, value.trace)
        elif node.op is Op.FUNCTION:
            continue
        elif node.op is Op.HOST:
            memo[node] = call_host(node.arg, [memo[s] for s in node.src])
        elif node.op in SEVERAL:
            jaxpr, operands = alone(node)
            memo[node] = face().call(jaxpr, [memo[s] for s in operands])
        elif node.op is Op.GET:
            memo[node] = memo[node.src[0]][node.arg]
        else:
            memo[node] = face().execute(node.op, node.arg, [memo[s] for s in node.src])
    return memo[uop]
