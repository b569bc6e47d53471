"""Meshes over many processes: each axis becomes one over processes and one within a process.

    Mesh('data': 4) on 2 processes of 2 devices   ->   'data@hosts': 2, 'data': 2
    psum over data   ->   psum over data, on the stack of this process;  psum over data@hosts

Then the partitioner, and the stack of the devices of a process, do what they do on one process: an
exchange has its part within the process first, and moves the least between processes.  What is left
are exchanges over axes of processes.  All arithmetic is compiled, and fixed in its order, for every
dtype.  Three kinds of messages between processes move bytes; the sum of a large value is one of its
own, since it is made in pieces, see `tfn.distributed.reduction`::

    all_gather            message
    psum, small           message all_gather, a sum of its rows
    psum, large           message all_reduce; between GPUs of a process, whose arithmetic is
                          compiled, message all_to_all, a sum of its rows, message all_gather
    psum_scatter          message all_to_all, a sum of its rows
    all_to_all, ppermute  message
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce as fold
from math import prod
from typing import Any

from tfn.dtypes import INT32
from tfn.trace.argument import Host, VmapMethod
from tfn.trace.build import (
    concat,
    eq,
    gather,
    moveaxis,
    reduce,
    reshape,
    several,
    shrink,
    where,
    zeros,
)
from tfn.trace.inline import plain
from tfn.trace.jaxpr import Jaxpr, function
from tfn.trace.op import Op
from tfn.trace.processes import Coordinates, HostGrid, Message
from tfn.trace.sharding import OPEN, Axis, Collective, Exchange, Names, Partition, Spec
from tfn.trace.uop import UOp, const, rebuild, substitute, walk
from tfn.transforms.shard.collective_rules import collective, of_each_group
from tfn.transforms.shard.divide import Opened, divide

GATHER_SUM_MAX_BYTES = 64 << 10
"""The largest value that is summed from a gather of all of them: one message instead of two.  A
message of 64 KiB takes 20 us between processes of one machine, of which 2 us are its start."""
SUFFIX = "@hosts"
"""The end of the name of an axis over processes."""

Rewrite = Callable[[UOp], UOp]


def rewritten(outputs: Sequence[UOp], rules: Mapping[Op, Rewrite]) -> list[UOp]:
    """Graphs with ops replaced, in nested functions too; a rule gets the node on new sources."""
    # Not `mapped`, by which lines are inherited: for profiles an exchange is the line of its nodes,
    # and a sum of what others have sent belongs to the message, which is there itself.
    new: dict[UOp, UOp] = {}
    for u in walk(outputs):
        if u.op is Op.FUNCTION:
            new[u] = function(rewritten(u.src, rules), u.arg.params)
        else:
            node = rebuild(u, tuple([new[s] for s in u.src]))
            new[u] = rules[u.op](node) if u.op in rules else node
    return [new[u] for u in outputs]


class Fine:
    """A mesh whose axes are split at the borders of processes.

    Attributes:
        outer: for each axis of the mesh the one over processes, if it has one.
        inner: for each axis the one within a process, if it has one.
        mesh: all of them, in order.
    """

    def __init__(self, mesh: Sequence[Axis], hosts: HostGrid) -> None:
        self.coarse, self.hosts = tuple(mesh), hosts
        self.outer: dict[Any, Axis] = {}
        self.inner: dict[Any, Axis] = {}
        axes: list[Axis] = []
        for axis, h in zip(mesh, hosts.sizes, strict=True):
            if h > 1:
                self.outer[axis.name] = Axis(f"{axis.name}{SUFFIX}", h)
                axes.append(self.outer[axis.name])
            if h == 1 or axis.size > h:
                self.inner[axis.name] = Axis(axis.name, axis.size // h)
                axes.append(self.inner[axis.name])
        self.mesh = tuple(axes)

    # Names of the mesh of the user, as those of the fine mesh, and back.

    def names(self, names: Names) -> Names:
        """The axes for some of the user's."""
        sides = (self.outer, self.inner)
        return tuple([side[n].name for n in names for side in sides if n in side])

    def partition(self, arg: Partition | None) -> Partition | None:
        """The same division over the fine mesh."""
        if arg is None or arg.mesh != self.coarse:
            return arg
        spec = tuple([names if names == OPEN else self.names(names) for names in arg.spec])
        unchecked = set(self.names(tuple([axis.name for axis in arg.unchecked])))
        both = tuple([axis for axis in self.mesh if axis.name in unchecked])
        return Partition(self.mesh, spec, self.names(arg.manual), both, self.names(arg.lanes))

    def settled(self, spec: Spec) -> Spec:
        """The nearest division that one over the user's mesh can say: whole axes only."""
        return tuple([self.names(self._whole(names)) for names in spec])

    def back(self, arg: Partition) -> Partition:
        """A settled division, over the user's mesh."""
        return Partition(self.coarse, tuple([self._whole(names) for names in arg.spec]))

    def _whole(self, names: Names) -> Names:
        """The user's axes of which all parts are there, one after another, from the first on."""
        parts = {self.names((axis.name,)): axis.name for axis in self.coarse}
        found: list[Any] = []
        while names:
            both = names[:2] if names[:2] in parts else names[:1]
            if both not in parts:
                break
            found.append(parts[both])
            names = names[len(both) :]
        return tuple(found)

    # Ops that name an axis.

    def rules(self) -> dict[Op, Rewrite]:
        """The rules by which ops over the mesh become ops over the fine one."""
        divided: Rewrite = lambda u: UOp(u.op, u.src, self.partition(u.arg))
        return {
            Op.AXIS: lambda u: self.index(u.arg.name),
            Op.COLLECTIVE: self.exchange,
            **dict.fromkeys((Op.SHARD, Op.UNSHARD, Op.CONSTRAIN), divided),
        }

    def index(self, name: Any) -> UOp:
        """The index of this device along an axis of the user's mesh."""
        outer, inner = self.outer.get(name), self.inner.get(name)
        if outer is None or inner is None:
            return UOp(Op.AXIS, (), outer or inner)
        return UOp(Op.AXIS, (), outer) * inner.size + UOp(Op.AXIS, (), inner)

    def exchange(self, u: UOp) -> UOp:
        """An exchange along an axis as exchanges within processes and between them."""
        x, arg = u.src[0], u.arg
        outer, inner = self.outer.get(arg.axis.name), self.inner.get(arg.axis.name)
        if outer is None:
            return u
        if arg.groups is not None:
            return self._of_groups(x, arg, outer, inner)
        if arg.kind is Exchange.PERMUTE:
            return _permuted(x, arg, outer, inner)
        within, between = replace(arg, axis=inner), replace(arg, axis=outer)
        if inner is None:
            return _over(between, x)
        h, n = outer.size, inner.size
        if arg.kind in (Exchange.REDUCE, Exchange.VARY):
            return _over(between, _over(within, x))
        if arg.kind is Exchange.GATHER:
            return reshape(_over(between, _over(within, x)), (h * n, *x.shape))
        rows = reshape(x, (h, n, *x.shape[1:]))
        if arg.kind is Exchange.PICK:
            return _over(within, _over(between, rows))
        rows = _over(within, moveaxis(rows, 1, 0))
        if arg.kind is Exchange.SCATTER:
            return _over(between, rows)
        return reshape(_over(between, moveaxis(rows, 1, 0)), x.shape)

    def _of_groups(self, x: UOp, arg: Collective, outer: Axis, inner: Axis | None) -> UOp:
        """The same groups within each process exchange there; all others gather everything."""
        n, groups = inner.size if inner else 1, arg.groups or ()
        local = [sorted(g) for g in groups]
        within = {tuple([i % n for i in g]) for g in local if g[0] // n == g[-1] // n}
        if inner and len(within) * outer.size == len(groups) and sum(map(len, within)) == n:
            orders = {tuple([i % n for i in g]) for g in groups}
            if len(orders) == len(within):
                return _over(replace(arg, axis=inner, groups=tuple(sorted(orders))), x)
        index = self.index(arg.axis.name)
        rows = self.exchange(collective(Exchange.GATHER, x, index, arg.axis, invariant=True))
        stack = of_each_group(rows, arg)
        return self.exchange(collective(Exchange.PICK, stack, index, arg.axis))


def _over(arg: Collective, x: UOp) -> UOp:
    return UOp(Op.COLLECTIVE, (x, UOp(Op.AXIS, (), arg.axis)), arg)


def _permuted(x: UOp, arg: Collective, outer: Axis, inner: Axis | None) -> UOp:
    """PERMUTE: rows that go the same way between processes go together, each once."""
    h, n = outer.size, inner.size if inner else 1
    rows = _over(Collective(Exchange.GATHER, inner), x) if inner else reshape(x, (1, *x.shape))
    ways: dict[tuple[int, int], list[tuple[int, int]]] = {}  # (row here, row there): processes
    for begin, to in arg.pairs:
        ways.setdefault((begin % n, to % n), []).append((begin // n, to // n))
    sent: dict[tuple[tuple[int, int], ...], list[int]] = {}
    for (row, _), pairs in ways.items():
        abroad = tuple(sorted([pair for pair in pairs if pair[0] != pair[1]]))
        if abroad and row not in sent.setdefault(abroad, []):
            sent[abroad].append(row)
    arrived: dict[tuple[Any, int], UOp] = {}
    for abroad, listed in sent.items():
        together = concat([_row(rows, i) for i in listed], 0)
        got = _over(Collective(Exchange.PERMUTE, outer, pairs=abroad), together)
        arrived |= {(abroad, i): _row(got, at) for at, i in enumerate(listed)}
    here = UOp(Op.AXIS, (), outer)
    given = []
    for there in range(n):
        value = zeros((1, *x.shape), x.dtype)
        for (row, to), pairs in ways.items():
            if to == there:
                abroad = tuple(sorted([pair for pair in pairs if pair[0] != pair[1]]))
                stays = {begin for begin, end in pairs if begin == end}
                if abroad:
                    ends = {end for _, end in abroad}
                    value = _on(here, ends, h, arrived[abroad, row], value)
                value = _on(here, stays, h, _row(rows, row), value)
        given.append(value)
    stack = concat(given, 0)
    return _over(Collective(Exchange.PICK, inner), stack) if inner else reshape(stack, x.shape)


def _row(x: UOp, i: int) -> UOp:
    rest = x.shape[1:]
    return shrink(x, (i, *(0 for _ in rest)), (i + 1, *rest))


def _on(here: UOp, places: set[int], count: int, x: UOp, y: UOp) -> UOp:
    """`x` in the processes of some places along an axis, `y` in all others."""
    if len(places) == count or not places:
        return x if places else y
    if 2 * len(places) > count:
        return _on(here, set(range(count)) - places, count, y, x)
    tests = [eq(here, const(i, INT32)) for i in sorted(places)]
    return where(_spread(fold(lambda a, b: a | b, tests), x.shape), x, y)


def _spread(condition: UOp, shape: tuple[int, ...]) -> UOp:
    return UOp(Op.EXPAND, (reshape(condition, (1,) * len(shape)),), shape)


def opened(
    f: UOp, mesh: tuple[Axis, ...], params: Sequence[Partition | None], hosts: HostGrid
) -> tuple[Opened, Opened, tuple[Partition, ...]]:
    """A FUNCTION of global values, divided among the devices of processes.

    Returns:
        (whole, local, results): over the fine mesh; over the axes within a process, with exchanges
        along axes over processes left; and how results are divided over the user's mesh.
    """
    fine = Fine(mesh, hosts)
    f = plain(f)
    refined = function(rewritten(f.src, fine.rules()), f.arg.params)
    between = [axis.name for axis in fine.outer.values()]
    parts = [fine.partition(arg) for arg in params]
    whole = divide(refined, fine.mesh, parts, fine.settled, between)
    sizes = [((), INT32)] * len(hosts.sizes)
    node = UOp(Op.HOST, (), Host(Coordinates(hosts), tuple(sizes), VmapMethod.REFUSE))
    place = dict(zip([axis.name for axis in mesh], several(node), strict=True))
    outer = {axis.name: place[name] for name, axis in fine.outer.items()}
    pairs = list(zip(whole.mesh, whole.indices, strict=True))
    known = {index: outer[axis.name] for axis, index in pairs if axis.name in outer}
    kept = [(axis, index) for axis, index in pairs if axis.name not in outer]
    within = tuple([axis for axis, _ in kept])

    def local(arg: Partition) -> Partition:
        spec = [tuple([name for name in names if name not in outer]) for names in arg.spec]
        return Partition(within, tuple(spec))

    part = Opened(
        tuple(substitute(whole.outputs, known)),
        whole.leaves,
        tuple([index for _, index in kept]),
        within,
        tuple(map(local, whole.params)),
        tuple(map(local, whole.results)),
    )
    return whole, part, tuple(map(fine.back, whole.results))


# Exchanges between processes as messages.


def carried(jaxpr: Jaxpr, mesh: Sequence[Axis], hosts: HostGrid) -> Jaxpr:
    """A program of one process, with messages for its exchanges along axes over processes.

    Args:
        mesh: that of the user.
    """
    numbers = {f"{axis.name}{SUFFIX}": (i, str(axis.name)) for i, axis in enumerate(mesh)}

    def lowered(u: UOp) -> UOp:
        number, name = numbers[u.arg.axis.name]
        return _Line(name, number, hosts).exchange(u)

    outputs = rewritten(jaxpr.outputs, {Op.COLLECTIVE: lowered})
    return Jaxpr(function(_fused(outputs), jaxpr.params))


class _Line:
    """The processes along an axis of the mesh."""

    def __init__(self, name: str, axis: int, hosts: HostGrid) -> None:
        self.name, self.axis, self.hosts = name, axis, hosts

    def message(self, kind: Exchange, x: UOp, pairs: Any = (), op: Op | None = None) -> UOp:
        """The bytes of a value exchanged between processes."""
        shape = (self.hosts.sizes[self.axis], *x.shape) if kind is Exchange.GATHER else x.shape
        if not x.size:
            return zeros(shape, x.dtype)
        message = Message(kind, self.name, self.axis, self.hosts, tuple(pairs), op)
        defers = prod(shape) * x.dtype.itemsize > GATHER_SUM_MAX_BYTES and not self.hosts.local
        host = Host(message, ((shape, x.dtype),), VmapMethod.REFUSE, defers=defers)
        return several(UOp(Op.HOST, (x,), host))[0]

    def exchange(self, u: UOp) -> UOp:
        """An exchange as messages, and what is computed from them."""
        (x, index), arg = u.src, u.arg
        if arg.kind is Exchange.VARY:
            return x
        if arg.kind is Exchange.PICK:
            start = reshape(index, (1,))
            return reshape(gather(x, start, (1, *x.shape[1:])), x.shape[1:])
        if arg.kind is Exchange.SCATTER:
            return reduce(self.message(Exchange.TRANSPOSE, x), Op.ADD, (0,))
        if arg.kind is Exchange.REDUCE:
            return self._reduced(x, arg.op, arg.axis.size)
        return self.message(arg.kind, x, arg.pairs)

    def _reduced(self, x: UOp, op: Op, n: int) -> UOp:
        if x.size * x.dtype.itemsize <= GATHER_SUM_MAX_BYTES or x.size < n:
            return reduce(self.message(Exchange.GATHER, x), op, (0,))
        if self.hosts.local:
            return self._reduced_in_parts(x, op, n)
        return self.message(Exchange.REDUCE, x, op=op)

    def _reduced_in_parts(self, x: UOp, op: Op, n: int) -> UOp:
        """Each device adds up its part of a value, and gives it to all."""
        rest = -x.size % n
        flat = reshape(x, (x.size,))
        padded = concat([flat, zeros((rest,), x.dtype)], 0) if rest else flat
        rows = reshape(padded, (n, (x.size + rest) // n))
        own = reduce(self.message(Exchange.TRANSPOSE, rows), op, (0,))
        whole = reshape(self.message(Exchange.GATHER, own), (x.size + rest,))
        return reshape(shrink(whole, (0,), (x.size,)), x.shape)


def _is_message(u: UOp) -> bool:
    return u.op is Op.HOST and isinstance(u.arg.run, Message)


def _fused(outputs: Sequence[UOp]) -> list[UOp]:
    """Messages of one kind that no other one has to come between, as one message of several values.

    In each function alone: what is in a loop goes in each of its steps.  A large one stays alone:
    it begins when its value is there.
    """
    order = list(walk(outputs))
    before: dict[UOp, int] = {}  # the longest chain of messages that a value waits for
    for u in order:
        sources = () if u.op is Op.FUNCTION else u.src
        before[u] = max([before[s] + _waits(s) for s in sources], default=0)
    together: dict[Any, list[UOp]] = {}
    for u in order:
        if _is_message(u):
            together.setdefault(_group(u, before), []).append(u)
    new: dict[UOp, UOp] = {}
    for u in sorted(order, key=lambda u: (u.op is not Op.FUNCTION, before[u], _waits(u))):
        if u.op is Op.FUNCTION:
            new[u] = function(_fused(u.src), u.arg.params)
        elif u.op is Op.GET and _is_message(u.src[0]):
            message = u.src[0]
            at = together[_group(message, before)].index(message)
            new[u] = UOp(Op.GET, (new[message],), at)
        elif _is_message(u):
            group = together[_group(u, before)]
            host = replace(u.arg, results=tuple([each.arg.results[0] for each in group]))
            new[u] = UOp(Op.HOST, tuple([new[each.src[0]] for each in group]), host)
        else:
            new[u] = rebuild(u, tuple([new[s] for s in u.src]))
    return [new[u] for u in outputs]


def _group(message: UOp, before: Mapping[UOp, int]) -> Any:
    """The same for messages that go together."""
    return message if message.arg.defers else (message.arg.run, before[message])


def _waits(u: UOp) -> bool:
    return _is_message(u) or any(s.op is Op.FUNCTION for s in u.src)
