"""`pmap`: one call of a function on each device, a thin face on `shard_map`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tfn import tree
from tfn._support.validate import a_function
from tfn.config import MOST_DEVICES
from tfn.errors import ArgumentError
from tfn.trace import bind, runtime
from tfn.trace.mesh import AbstractMesh
from tfn.trace.named_sharding import PartitionSpec
from tfn.trace.op import Op
from tfn.transforms.arguments import Argnums, Function, argument_names, name_of
from tfn.transforms.jit import jit
from tfn.transforms.shard.shard_map import shard_map
from tfn.transforms.vmap import Mapped, mapped_axes, mapped_size

UNNAMED = "pmap"
"""The name of the axis if the user gives none."""


def pmap(
    fun: Function,
    axis_name: Any = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: Argnums = (),
    devices: Sequence[object] | None = None,
    axis_size: int | None = None,
    donate_argnums: Argnums = (),
) -> Callable[..., Any]:
    """Map a function over an axis of its arguments, one element on each device, compiled whole.

    `shard_map` inside `jit` says more clearly what is where; this is for programs that use it.

    Args:
        fun: the function of one element; collectives may name the axis.
        axis_name: of the mapped axis.
        in_axes: the mapped axis of each argument, None for one that all devices get.
        out_axes: where the axis goes in the results; None for a result that is equal everywhere.
        static_broadcasted_argnums: arguments that are Python values; `in_axes` has None for them.
        devices: as many as the axis has elements; the first ones if None.
        axis_size: the size of the axis, needed if nothing is mapped.
        donate_argnums: arguments whose memory may be reused.

    Raises:
        ShapeError: if mapped axes differ in size.
        ArgumentError: if the size is not the number of `devices`, or more than a process can have,
            or nothing is mapped.

    Example:
        >>> import tfn
        >>> import tfn.numpy as tnp
        >>> pmap(lambda x: x / tfn.lax.psum(x, "i"), "i")(tnp.ones((1, 2))).tolist()
        [[1.0, 1.0]]
    """
    a_function("pmap", "fun", fun)
    name = UNNAMED if axis_name is None else axis_name

    static = static_broadcasted_argnums
    fixed = {static} if isinstance(static, int) else set(static)

    def run(*args: Any, **kwargs: Any) -> Any:
        at = [i for i in range(len(args)) if i not in fixed and i - len(args) not in fixed]
        moving = tuple(args[i] for i in at)
        leaves, structure = tree.flatten((moving, kwargs))
        by_position = isinstance(in_axes, (tuple, list)) and len(in_axes) == len(args)
        given = tuple(in_axes[i] for i in at) if by_position else in_axes
        axes = [*mapped_axes("in_axes", given, moving), *[0] * len(tree.leaves(kwargs))]
        names = argument_names(fun, structure, at)
        mapped = [
            Mapped(i, names[i], leaves[i], axis) for i, axis in enumerate(axes) if axis is not None
        ]
        size = mapped_size(mapped, axis_size, fun)
        if size > MOST_DEVICES or (devices is not None and len(devices) != size):
            some = "no" if devices is None else len(devices)
            raise ArgumentError(
                f"pmap of {name_of(fun)} over an axis of size {size} needs as many devices",
                got=f"{some} devices, of which a process has {MOST_DEVICES} at most",
                hint="pass devices=tfn.devices()[:n] for n elements, or map by vmap",
            )
        specs: list[Any] = [PartitionSpec()] * len(leaves)
        for m in mapped:
            leaves[m.at] = m.value
            specs[m.at] = PartitionSpec(*[None] * m.axis, name)

        def of_part(*parts: Any) -> Any:
            flat = list(parts)
            for m in mapped:
                flat[m.at] = bind.bind(Op.RESHAPE, flat[m.at], arg=m.element.shape)
            moved, named = tree.unflatten(structure, flat)
            whole = list(args)
            for i, value in zip(at, moved, strict=True):
                whole[i] = value
            result = fun(*whole, **named)
            ends = mapped_axes("out_axes", out_axes, result)
            given, out_structure = tree.flatten(result)
            values = [runtime.installed().asarray(y) for y in given]
            rows = [
                y if end is None else bind.bind(Op.RESHAPE, y, arg=_opened(y.shape, end))
                for y, end in zip(values, ends, strict=True)
            ]
            out_specs[:] = [
                PartitionSpec() if end is None else PartitionSpec(*[None] * (end % y.ndim), name)
                for y, end in zip(rows, ends, strict=True)
            ]
            out_structures[:] = [out_structure]
            return rows

        out_specs: list[Any] = []
        out_structures: list[tree.Structure] = []
        rows = shard_map(
            of_part,
            mesh=AbstractMesh((size,), (name,)),
            in_specs=tuple(specs),
            out_specs=out_specs,
            check_vma=False,
        )(*leaves)
        return tree.unflatten(out_structures[0], rows)

    functools.update_wrapper(run, fun)
    return jit(run, static_argnums=static, donate_argnums=donate_argnums)


def _opened(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """A shape with one more axis of size 1."""
    at = axis % (len(shape) + 1)
    return (*shape[:at], 1, *shape[at:])
