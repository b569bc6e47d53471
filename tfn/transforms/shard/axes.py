"""Named axes: the axes of `vmap` and the manual axes of a mesh that collectives can name.

An axis lives while the function that it maps is traced.  Its index is a value of that trace: an
operand of every collective over the axis, which loops and calls capture as they do all others.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tfn._support.frozen import frozen
from tfn.dtypes import INT32
from tfn.errors import AxisNameError
from tfn.trace import bind, traces
from tfn.trace.sharding import Axis

_LOCAL = threading.local()

Kind = tuple[Axis, bool, bool]
"""An axis without its index, comparable: the axis, whether it is manual, whether it is checked."""


@frozen
class NamedAxis:
    """An axis that can be named now.

    Attributes:
        axis: its name and size.
        index: the index of the device, or of the lane, along it: a value of `trace`.
        trace: the trace of the function that is mapped.
        manual: whether it is an axis of a mesh, not of `vmap`.
        checked: whether values that are equal on all devices are kept apart from those that vary.
    """

    axis: Axis
    index: Any
    trace: traces.Trace
    manual: bool = False
    checked: bool = False


def live() -> list[NamedAxis]:
    """The axes that can be named in this thread, the outermost first."""
    stack: list[NamedAxis] | None = getattr(_LOCAL, "stack", None)
    if stack is None:
        stack = _LOCAL.stack = []
    return stack


def lane_axis(axis: Axis, manual: bool = False, checked: bool = False) -> NamedAxis:
    """A new axis of the function that is being traced."""
    trace = traces.running()[-1]
    index = bind.new_leaf(trace, (), INT32, f"the index along {axis.name!r}")
    return NamedAxis(axis, index, trace, manual, checked)


@contextmanager
def named(axes: Sequence[NamedAxis]) -> Iterator[None]:
    """The axes can be named during the block; inner ones hide outer ones of the same name."""
    stack = live()
    stack += axes
    try:
        yield
    finally:
        del stack[len(stack) - len(axes) :]


def find(what: str, name: object) -> NamedAxis:
    """The innermost live axis of a name; traces within it depend on it from now on.

    Raises:
        AxisNameError: if there is none; the message lists those that there are.
    """
    stack = live()
    for named_axis in reversed(stack):
        if named_axis.axis.name == name:
            _depend(named_axis)
            return named_axis
    for trace in traces.running():
        trace.uses_axes = True
    names = ", ".join(repr(a.axis.name) for a in stack)
    raise AxisNameError(
        f"{what} over the axis {name!r}, which is not a named axis here",
        got=f"named axes: {names}" if names else "no named axis: outside of vmap and shard_map",
        hint=f"call it in a function that is mapped with vmap(..., axis_name={name!r}), or in "
        "shard_map over a mesh that has the axis",
    )


def environment() -> tuple[Kind, ...]:
    """The axes that can be named now, as a key of caches."""
    return tuple((a.axis, a.manual, a.checked) for a in live())


def live_indices() -> list[Any]:
    """The indices along the axes of `environment`; traces within depend on the axes from now on."""
    for named_axis in live():
        _depend(named_axis)
    return [a.index for a in live()]


def _depend(named_axis: NamedAxis) -> None:
    """Say that traces within an axis use it."""
    for trace in traces.running()[named_axis.trace.depth :]:
        trace.uses_axes = True


def innermost() -> traces.Trace | None:
    """The trace of the innermost live axis."""
    stack = live()
    return stack[-1].trace if stack else None
