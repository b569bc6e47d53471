"""Run-time checks as a transform: failures become one more result of a program.

A function becomes one that also returns the code of the first check that failed, 0 for none, and
the arrays that the message of each check needs.  `CHECKS` is the table of the ops that can fail; a
check of the user is a HOST node that raises, until this transform replaces it. ::

    y = log x                y = log x
                      ->     code = where(any(y != y), 1, 0)

A loop carries the first failure; of a branch only the function that is chosen counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tfn import tree
from tfn._support.frozen import frozen
from tfn.dtypes import BOOL, INEXACT, INT32
from tfn.errors import CheckError
from tfn.trace import source_lines
from tfn.trace.argument import Host, VmapMethod
from tfn.trace.build import (
    broadcast_in_dim,
    choose,
    concat,
    eq,
    full_like,
    gather,
    iota,
    ne,
    reduce,
    reshape,
    several,
    where,
    zeros,
)
from tfn.trace.inline import inlined
from tfn.trace.jaxpr import Jaxpr, inline
from tfn.trace.op import Op, Shape
from tfn.trace.regions import form
from tfn.trace.uop import UOp, const, rebuild, walk
from tfn.transforms.body import closed, fresh, opened, repeat_while, scan
from tfn.transforms.callback import shown

NONE = const(0, INT32)


@frozen
class Site:
    """A check and its message.

    Attributes:
        message: a format string for its payload.
        where: the user's line.
        structure: of the payload, as (args, kwargs).
    """

    message: str
    where: str
    structure: tree.Structure

    def text(self, payload: Sequence[object]) -> str:
        """The message of a failure, with the user's line."""
        args, kwargs = tree.unflatten(self.structure, payload)
        return self.message.format(*args, **kwargs) + (
            f"\n  at: {self.where}" if self.where else ""
        )

    @property
    def size(self) -> int:
        """The number of arrays that the message needs."""
        return self.structure.num_leaves


def text(sites: Sequence[Site], code: int, payload: Sequence[object]) -> str | None:
    """The message of a code; None for 0."""
    if not code:
        return None
    start = sum(site.size for site in sites[: code - 1])
    site = sites[code - 1]
    return site.text([shown(np.array(x)) for x in payload[start : start + site.size]])


@frozen
class Raises:
    """A function of the host: given a token, a code and the payload of all sites, it raises.

    Attributes:
        sites: the checks.
        quiet: whether it does not raise, so that it has a meaning for `checked` alone.
    """

    sites: tuple[Site, ...]
    quiet: bool = False

    def __call__(self, results: Sequence[np.ndarray], operands: Sequence[np.ndarray]) -> None:
        """Raise the error of the code.

        Raises:
            CheckError: unless it is 0, or the token does not hold.
        """
        token, code, *payload = operands
        speaks = token[()] and not self.quiet
        message = text(self.sites, int(code), payload) if speaks else None
        if message is not None:
            raise CheckError(message, where="")
        results[0][...] = token


@frozen
class Failures:
    """The failures of some checks: a code, 0 for none, and the payload of each site."""

    code: UOp
    payload: Mapping[int, tuple[UOp, ...]]

    def then(self, other: Failures) -> Failures:
        """The first of both."""
        if self.code is NONE:
            return other
        code = where(eq(self.code, NONE), other.code, self.code)
        return Failures(code, {**self.payload, **other.payload})

    def flat(self, numbers: Sequence[int]) -> list[UOp]:
        """The code, and the payload of these sites."""
        return [self.code, *(u for n in numbers for u in self.payload[n])]


NOTHING = Failures(NONE, {})


@dataclass
class Checker:
    """The transform, with the checks that it has made.

    Attributes:
        kinds: the kinds of checks that it makes: user, nan, div, index.
        sites: the checks so far; the code of a check is its index, from 1.
    """

    kinds: frozenset[str]
    sites: list[Site] = field(default_factory=list)

    def graph(self, outputs: Sequence[UOp]) -> tuple[list[UOp], Failures]:
        """The same outputs, and the failures of the checks in them."""
        new: dict[UOp, UOp] = {}
        several_of: dict[UOp, list[UOp]] = {}
        total = NOTHING
        for node in walk(outputs):
            if node.op is Op.FUNCTION:
                new[node] = node
                continue
            if node.op is Op.GET and node.src[0] in several_of:
                new[node] = several_of[node.src[0]][node.arg]
                continue
            src = tuple([new.get(s, s) for s in node.src])
            rebuilt = new[node] = rebuild(node, src)
            if node.op in STRUCTURE:
                several_of[node], failures = STRUCTURE[node.op](self, rebuilt)
            else:
                failures = self.check(node, rebuilt)
            total = total.then(failures)
        return [new[u] for u in outputs], total

    def check(self, node: UOp, rebuilt: UOp) -> Failures:
        """The failures of the checks of one op."""
        total = NOTHING
        for kind, rule in CHECKS.get(node.op, ()):
            failure = rule(rebuilt) if kind in self.kinds else None
            if failure is not None:
                total = total.then(self.site(node, *failure))
        return total

    def site(self, node: UOp, fails: UOp, message: str, *payload: UOp) -> Failures:
        """A check which fails if a boolean scalar holds."""
        structure = tree.structure(((0,) * len(payload), {}))
        self.sites.append(Site(message, source_lines.of(node), structure))
        number = len(self.sites)
        return Failures(where(fails, const(number, INT32), NONE), {number: payload})

    # Structure.

    def raises(self, u: UOp) -> tuple[list[UOp], Failures]:
        """A check of the user, or an error that is raised again; other functions of the host."""
        run, token = u.arg.run, u.src[0] if u.src else None
        if not isinstance(run, Raises) or token is None:
            return several(u), self.check(u, u)
        if "user" not in self.kinds:
            return [token], NOTHING
        code, *payload = u.src[1:]
        offset, rest, payloads = len(self.sites), iter(payload), {}
        for i, site in enumerate(run.sites):
            payloads[offset + 1 + i] = tuple(next(rest) for _ in range(site.size))
        self.sites += run.sites
        here = where(eq(code, NONE) | ~token, NONE, code + offset)
        return [token], Failures(here, payloads)

    def call(self, u: UOp) -> tuple[list[UOp], Failures]:
        """A named function is inlined."""
        return self.graph(inline(Jaxpr(u.src[0]), u.src[1:]))

    def scan(self, u: UOp) -> tuple[list[UOp], Failures]:
        """The first failure is one more carry."""
        inputs, outputs = opened(u.src[0])
        outputs, failures = self.graph(outputs)
        if failures.code is NONE:
            return several(u), NOTHING
        state, parts = _State.of(failures), form(u)
        leaves = form(u, (u.src[0], *inputs))
        leaves = leaves._replace(carries=(*state.leaves, *leaves.carries))
        body = closed([*state.next(failures), *outputs], leaves.operands)
        carries = [*state.begin, *parts.carries]
        arg = u.arg
        results = scan(body, parts.own(0), carries, parts.arrays, arg.length, arg.reverse)
        return results[state.size :], state.failures(results)

    def repeat(self, u: UOp) -> tuple[list[UOp], Failures]:
        """A loop stops at a failure; its condition is checked where its operands are made."""
        parts = form(u)
        (tests, test), (inputs, outputs) = map(opened, parts.functions)
        (test_consts, body_consts), carries = parts.consts, parts.carries
        a, b = len(test_consts), len(body_consts)
        outputs, failures = self.graph(outputs)
        _, tested = self.graph(test)
        if failures.code is NONE and tested.code is NONE:
            return several(u), NOTHING
        consts = [fresh(x) for x in tests[:a]]
        later = self._at(tested, tests, [*consts, *outputs])
        failures = failures.then(later)
        state = _State.of(failures)
        inside = [*consts, *inputs[:b], *state.leaves, *inputs[b:]]
        body = closed([*state.next(failures), *outputs], inside)
        proceed = test[0] & eq(state.leaves[0], NONE)
        cond = closed([proceed], [*tests[:a], *state.leaves, *tests[a:]])
        begin = state.set(self._at(tested, tests, parts.taken(0)))
        consts_inside = [*test_consts, *body_consts]
        results = repeat_while(cond, body, test_consts, consts_inside, [*begin, *carries])
        return results[state.size :], state.failures(results)

    def _at(self, failures: Failures, inputs: Sequence[UOp], values: Sequence[UOp]) -> Failures:
        """The failures of the checks of a function at other operands."""
        numbers = sorted(failures.payload)
        values_there = iter(inline(Jaxpr(closed(failures.flat(numbers), inputs)), values))
        code = next(values_there)
        return Failures(
            code, {n: tuple(next(values_there) for _ in failures.payload[n]) for n in numbers}
        )

    def choose(self, u: UOp) -> tuple[list[UOp], Failures]:
        """The failures of the branch that is chosen."""
        parts = form(u)
        graphs = []
        for f in parts.functions:
            inputs, outputs = opened(f)
            graphs.append((inputs, *self.graph(outputs)))
        if all(failures.code is NONE for _, _, failures in graphs):
            return several(u), NOTHING
        like = {n: payload for _, _, failures in graphs for n, payload in failures.payload.items()}
        state = _State.of(Failures(NONE, like))
        branches = [
            closed([*state.set(failures), *outputs], inputs) for inputs, outputs, failures in graphs
        ]
        (index,) = parts.selector
        results = choose(index, branches, parts.operands)
        return results[state.size :], state.failures(results)


@frozen
class _State:
    """The state of checks that loops carry: leaves for a code and for the payload of sites."""

    numbers: tuple[int, ...]
    sizes: tuple[int, ...]
    leaves: tuple[UOp, ...]

    @staticmethod
    def of(failures: Failures) -> _State:
        numbers = tuple(sorted(failures.payload))
        sizes = tuple(len(failures.payload[n]) for n in numbers)
        return _State(numbers, sizes, tuple(fresh(u) for u in failures.flat(numbers)))

    @property
    def size(self) -> int:
        return len(self.leaves)

    @property
    def begin(self) -> list[UOp]:
        return [zeros(x.shape, x.dtype) for x in self.leaves]

    def set(self, failures: Failures) -> list[UOp]:
        """The state for some failures; zeros for the payload of other sites."""
        filled, at = {}, 1
        for n, size in zip(self.numbers, self.sizes, strict=True):
            filled[n] = failures.payload.get(n) or tuple(self.begin[at : at + size])
            at += size
        return Failures(failures.code, filled).flat(self.numbers)

    def next(self, failures: Failures) -> list[UOp]:
        """The state after a step: the first failure stays."""
        fine = eq(self.leaves[0], NONE)
        return [
            where(broadcast_in_dim(fine, old.shape, ()), new, old)
            for new, old in zip(self.set(failures), self.leaves, strict=True)
        ]

    def failures(self, results: Sequence[UOp]) -> Failures:
        """The failures in the results of a loop, which begin with the state."""
        rest = iter(results[1:])
        payload = {
            n: tuple(next(rest) for _ in range(size))
            for n, size in zip(self.numbers, self.sizes, strict=True)
        }
        return Failures(results[0], payload)


STRUCTURE: dict[Op, Callable[[Checker, UOp], tuple[list[UOp], Failures]]] = {
    Op.HOST: Checker.raises,
    Op.SCAN: Checker.scan,
    Op.WHILE: Checker.repeat,
    Op.COND: Checker.choose,
    Op.CALL: Checker.call,
}


def anywhere(x: UOp) -> UOp:
    """Whether any element holds."""
    return reduce(x, Op.MAX, range(x.ndim))


Failing = tuple[UOp, str, *tuple[UOp, ...]]
"""A boolean scalar, the message if it is true, and the payload of the message."""

Rule = Callable[[UOp], Failing | None]


def _nan(u: UOp) -> Failing | None:
    if u.dtype not in INEXACT:
        return None
    return anywhere(ne(u, u)), f"nan generated by primitive: {u.op.value}"


def _zero_divisor(u: UOp) -> Failing:
    divisor = u.src[1]
    return anywhere(eq(divisor, full_like(divisor, 0))), "division by zero"


def _outside(u: UOp) -> Failing | None:
    """Windows of a gather or scatter that do not fit: the message names the first."""
    operand, indices = u.src[:2]
    batch, k = u.arg.batch, indices.shape[-1]
    if not k or 0 in indices.shape:
        return None
    points: Shape = indices.shape[:-1]
    sizes = u.arg.sizes if u.op is Op.GATHER else u.src[2].shape[indices.ndim - 1 :]
    room = [operand.shape[batch + i] - sizes[i] for i in range(k)]
    limit = concat([const(n, indices.dtype, (1,)) for n in room], 0)
    high = broadcast_in_dim(limit, indices.shape, (indices.ndim - 1,))
    bad = reduce((indices < 0) | (indices > high), Op.MAX, (indices.ndim - 1,))
    count = int(np.prod(points, dtype=np.int64))
    bad = reshape(bad, (count,))
    at = iota((count,), 0)
    first = reduce(where(bad, at, full_like(at, count - 1)), Op.MIN, (0,))
    rows = reshape(indices, (count, k))
    index = reshape(gather(rows, reshape(first, (1, 1)), (1, k)), (k,))
    shape = operand.shape[batch:]
    message = f"out-of-bounds indexing for array of shape {shape}: index {{0}} is outside"
    return anywhere(bad), message, index


_NAN = ("nan", _nan)
_MAKE_NAN = {Op.ADD, Op.SUB, Op.MUL, Op.FMA, Op.POW, Op.LOG, Op.LOG2, Op.LOG1P, Op.SQRT, Op.RSQRT}
_MAKE_NAN |= {Op.SIN, Op.COS, Op.TAN, Op.ASIN, Op.ACOS, Op.ACOSH, Op.ATANH, Op.ERFINV, Op.DIGAMMA}
_MAKE_NAN |= {Op.REDUCE, Op.DOT, Op.CONV, Op.FFT}
CHECKS: dict[Op, tuple[tuple[str, Rule], ...]] = {
    **dict.fromkeys(_MAKE_NAN, (_NAN,)),
    Op.DIV: (("div", _zero_divisor), _NAN),
    Op.MOD: (("div", _zero_divisor), _NAN),
    Op.FLOORDIV: (("div", _zero_divisor),),
    Op.GATHER: (("index", _outside),),
    Op.SCATTER: (("index", _outside),),
}
"""The checks per op: kind, and a rule that gives (fails, message, payload) or None."""


def checked(
    outputs: Sequence[UOp], kinds: frozenset[str]
) -> tuple[list[UOp], Failures, list[Site]]:
    """The same outputs, the failures of checks of some kinds in them, and the checks."""
    checker = Checker(kinds)
    new_outputs, failures = checker.graph(inlined(outputs))
    return new_outputs, failures, checker.sites


def raising(sites: Sequence[Site], quiet: bool = False) -> Host:
    """A function of the host that raises; see `Raises`."""
    return Host(Raises(tuple(sites), quiet), (((), BOOL),), VmapMethod.FIRST, has_effects=True)
