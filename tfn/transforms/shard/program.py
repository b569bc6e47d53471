"""Programs of many devices: that of one device, and that of all devices of a process.

partition(jaxpr, params)   the SPMD program, over parts of the parameters
stacked(jaxpr, params)     the program over stacks of parts, without collectives; of many
                           processes, with messages between them
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

from tfn._support.frozen import frozen
from tfn.errors import ArgumentError
from tfn.trace.inline import runnable, runnable_anew
from tfn.trace.jaxpr import Jaxpr
from tfn.trace.loop_cleanup import tidy
from tfn.trace.op import MANUAL, Op
from tfn.trace.processes import HostGrid
from tfn.trace.sharding import Axis, Partition
from tfn.trace.uop import UOp, remembered, walk
from tfn.transforms.body import closed
from tfn.transforms.shard import hosts, stack
from tfn.transforms.shard.divide import Opened, divide


@frozen
class Partitioned:
    """A function divided among the devices of a mesh.

    Attributes:
        spmd: the program of one device: parameters are parts, then its index along each axis.
        mesh: the axes.
        params, results: how the values are divided.
    """

    spmd: Jaxpr
    mesh: tuple[Axis, ...]
    params: tuple[Partition, ...]
    results: tuple[Partition, ...]


@remembered
def meshes(f: UOp) -> tuple[tuple[Axis, ...], ...]:
    """The meshes that the ops of a function name, nested functions included."""
    found: dict[tuple[Axis, ...], None] = {}
    for u in walk(f.src):
        if u.op is Op.FUNCTION:
            found |= dict.fromkeys(meshes(u))
        elif u.op in MANUAL and isinstance(u.arg, Partition):
            found[u.arg.mesh] = None
    return tuple(found)


def mesh_of(f: UOp, params: Sequence[Partition | None]) -> tuple[Axis, ...] | None:
    """The one mesh of a function and of its arguments; None if there is none.

    Raises:
        ArgumentError: if there are several.
    """
    given = dict.fromkeys([arg.mesh for arg in params if arg is not None])
    different = list(given | dict.fromkeys(meshes(f)))
    if len(different) > 1:
        shown = " and ".join(
            "(" + ", ".join(f"{a.name}: {a.size}" for a in mesh) + ")" for mesh in different[:2]
        )
        raise ArgumentError(
            "one program cannot use different meshes",
            got=f"meshes {shown}",
            hint="use one mesh for all arguments and functions, or put arrays on it by device_put",
        )
    return different[0] if different else None


def partition(jaxpr: Jaxpr, params: Sequence[Partition | None]) -> Partitioned:
    """The program of one device, from a function of global values.

    Args:
        params: how each parameter is divided; None for one that is the same on all devices.
    """
    return _partition(jaxpr.function, tuple(params))


@remembered
def _opened(f: UOp, params: tuple[Partition | None, ...]) -> Opened:
    mesh = mesh_of(f, params)
    assert mesh is not None, "a function without a mesh needs no partitioning"
    return divide(f, mesh, params)


@remembered
def _partition(f: UOp, params: tuple[Partition | None, ...]) -> Partitioned:
    part = _opened(f, params)
    spmd = Jaxpr(closed(tidy(part.outputs), [*part.leaves, *part.indices]))
    return Partitioned(spmd, part.mesh, part.params, part.results)


@remembered
def _stacked(
    f: UOp, params: tuple[Partition | None, ...], on: HostGrid | None
) -> tuple[Jaxpr, tuple[Partition, ...]]:
    local, results, stack_again = _local(f, params, on)
    jaxpr = stack_again()
    _ORIGINS[runnable(jaxpr.function)[0]] = local, stack_again
    return jaxpr, results


def _local(
    f: UOp, params: tuple[Partition | None, ...], on: HostGrid | None
) -> tuple[Opened, tuple[Partition, ...], Callable[[], Jaxpr]]:
    """The graphs of a device of this process, how results are divided, and what stacks them."""
    if on is None:
        part = _opened(f, params)
        return part, part.results, lambda: stack.stacked(part)
    mesh = mesh_of(f, params)
    assert mesh is not None, "a program of many processes is over a mesh"
    _, local, results = hosts.opened(f, mesh, params, on)
    return local, results, lambda: hosts.carried(stack.stacked(local), mesh, on)


_ORIGINS: WeakKeyDictionary[UOp, tuple[Opened, Callable[[], Jaxpr]]] = WeakKeyDictionary()
"""For each program of all devices of a process the graphs of one device, and what stacks them; not
the function of global values, which remembers the program: neither would ever die."""


def origin(function: UOp) -> tuple[Opened, Callable[[], UOp]] | None:
    """The graphs of one device, and what makes the program of all devices from them once more.

    Args:
        function: of the program of all devices, `runnable`.

    Returns:
        None if it is of one device.
    """
    known = _ORIGINS.get(function)
    if known is None:
        return None
    local, stack_again = known
    return local, lambda: runnable_anew(stack_again().function)


def stacked(
    jaxpr: Jaxpr, params: Sequence[Partition | None], on: HostGrid | None = None
) -> tuple[Jaxpr, tuple[Partition, ...]]:
    """The program of all devices of this process, over stacks of parts; how results are divided.

    Args:
        on: the processes, if there are several.
    """
    return _stacked(jaxpr.function, tuple(params), on)
