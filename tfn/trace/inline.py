"""Inlining: operations replaced by their meaning, in nested functions too.

    y = custom[f] x    ->    the body of f, over x

A replacement may contain leaves: arrays that a rule of the user has captured.  The body of a loop
cannot refer to them, since a FUNCTION is closed; `sealed` passes them in as constants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from tfn.trace.argument import HostFunction, HostSlot, Param
from tfn.trace.build import several
from tfn.trace.jaxpr import Jaxpr, function, inline, leaves, param
from tfn.trace.loop_cleanup import tidy
from tfn.trace.op import MANUAL, Op
from tfn.trace.regions import ROWS, form
from tfn.trace.uop import UOp, mapped, remembered, substitute, walk

Rule = Callable[[UOp], Sequence[UOp]]
"""From a node that has several results, of which the sources are unfolded, to those results."""


def unfold(outputs: Sequence[UOp], rules: Mapping[Op, Rule]) -> list[UOp]:
    """The same values without the ops that have a rule."""
    replacements: dict[UOp, Sequence[UOp]] = {}

    def unfolded(node: UOp, again: UOp) -> Any:
        if node.op is Op.GET and node.src[0] in replacements:
            return replacements[node.src[0]][node.arg]
        result = sealed(again)
        if node.op in rules:
            replacements[node] = rules[node.op](result)
        return result

    return mapped(outputs, unfolded, lambda f: function(unfold(f.src, rules), f.arg.params))


def has(outputs: Sequence[UOp], op: Op) -> bool:
    """Whether an op is among graphs, or in functions that they nest."""
    return any(u.op is op or (u.op is Op.FUNCTION and _within(u, op)) for u in walk(outputs))


@remembered
def _within(f: UOp, op: Op) -> bool:
    return has(f.src, op)


@remembered
def names_devices(f: UOp) -> bool:
    """Whether a FUNCTION has ops of many devices, or a nested one does."""
    return any(u.op in MANUAL or (u.op is Op.FUNCTION and names_devices(u)) for u in walk(f.src))


@remembered
def inspects(f: UOp) -> bool:
    """Whether a FUNCTION, or a nested one, asks for the sharding of a value."""
    return any(
        (u.op is Op.HOST and u.arg.inspects is not None) or (u.op is Op.FUNCTION and inspects(u))
        for u in walk(f.src)
    )


def inlined(outputs: Sequence[UOp]) -> list[UOp]:
    """Graphs in which functions with rules of their own are replaced by their bodies."""
    if not has(outputs, Op.CUSTOM):
        return list(outputs)
    return unfold(outputs, {Op.CUSTOM: lambda u: inline(Jaxpr(u.src[0]), u.src[1:])})


def plain(f: UOp) -> UOp:
    """A FUNCTION without CUSTOM nodes, as it is run once no transform needs their rules."""
    return _plain(f) if _within(f, Op.CUSTOM) else f


@remembered
def _plain(f: UOp) -> UOp:
    return function(tidy(inlined(f.src)), f.arg.params)


def runnable(f: UOp) -> tuple[UOp, tuple[HostFunction, ...]]:
    """A FUNCTION with slots in the place of Python functions of the user, and these functions.

    Example:
        >>> import tfn
        >>> row = tfn.ShapeDtypeStruct((3,), "float32")
        >>> jaxpr = tfn.make_jaxpr(lambda x: tfn.pure_callback(abs, row, x))(row)
        >>> function, (run,) = runnable(jaxpr.function)
        >>> function is jaxpr.function, run.function is abs
        (False, True)
    """
    return _runnable(f) or (f, ())


@remembered
def _runnable(f: UOp) -> tuple[UOp, tuple[HostFunction, ...]] | None:
    """None for a function that is run unchanged: a node that remembered itself would never die."""
    if not any(_within(f, op) for op in (Op.CUSTOM, Op.HOST, Op.KERNEL, Op.TUPLE)):
        return None
    slots: dict[HostFunction, HostSlot] = {}

    def slotted(u: UOp) -> Sequence[UOp]:
        run = u.arg.run
        slot = slots.setdefault(run, HostSlot(len(slots), str(getattr(run, "__name__", run))))
        return several(UOp(u.op, u.src, replace(u.arg, run=slot)))

    def unbatched(u: UOp) -> Sequence[UOp]:
        return several(UOp(u.op, u.src, replace(u.arg, batch=None)))

    rules: dict[Op, Rule] = {Op.HOST: slotted, Op.KERNEL: unbatched, Op.TUPLE: lambda u: u.src}
    outputs = unfold(plain(f).src, rules)
    return function(outputs, f.arg.params), tuple(slots)


@remembered
def for_grid(f: UOp) -> UOp | None:
    """A FUNCTION whose functions of the host are programs, where they have one; None if none has.

    ::

        host[trsm] a b   ->   reshape, dot, scan, ...
    """
    found = False

    def replaced(u: UOp) -> Sequence[UOp]:
        nonlocal found
        of = getattr(u.arg.run, "grid_program", None)
        program = of and of(tuple([(s.shape, s.dtype) for s in u.src]))
        if program is None:
            return several(u)
        found = True
        return inline(program, u.src)

    outputs = unfold(plain(f).src, {Op.HOST: replaced})
    return function(outputs, f.arg.params) if found else None


def runnable_anew(f: UOp) -> UOp:
    """The function of `runnable`, made once more, so that lines of the source are inherited."""
    made = cast(Any, _runnable).__wrapped__(f)
    return made[0] if made else f


def sealed(node: UOp) -> UOp:
    """A loop or branch whose functions have no leaves: those they had are passed as constants."""
    if node.op not in ROWS:
        return node
    parts = form(node)
    strays = list(dict.fromkeys(u for f in parts.functions for u in leaves(f.src)))
    if not strays:
        return node
    functions = tuple(taking(f, 0, strays) for f in parts.functions)
    consts = tuple((*strays, *row) for row in parts.consts)
    return UOp(*parts._replace(functions=functions, consts=consts).fields)


def taking(f: UOp, at: int, strays: Sequence[UOp]) -> UOp:
    """A FUNCTION whose leaves have become its parameters `at`, `at` + 1, ..."""
    old: tuple[Param, ...] = f.arg.params
    added = [Param(0, u.shape, u.dtype) for u in strays]
    params = tuple(replace(p, index=i) for i, p in enumerate([*old[:at], *added, *old[at:]]))
    rest = [*params[:at], *params[at + len(strays) :]]
    renamed = {param(p): param(q) for p, q in zip(old, rest, strict=True)}
    renamed |= zip(strays, map(param, params[at:]))
    return function(substitute(f.src, renamed), params)
