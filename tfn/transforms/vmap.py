"""Vectorization: `vmap` turns a function of one element into a function of many.

The function is recorded on leaves without the mapped axis; `batch.batch` then puts the axis in
front of everything that depends on them.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from tfn import tree
from tfn._support.validate import a_function, integer, shown
from tfn.dtypes import INT32
from tfn.errors import ArgumentError, AxisError, ShapeError, ShardingTypeError, TreeError
from tfn.trace import effects, refs
from tfn.trace.build import cast, iota, moveaxis
from tfn.trace.named_sharding import names_of as names_of_axes
from tfn.trace.sharding import Axis, Names
from tfn.trace.uop import UOp
from tfn.transforms.annotations import checked
from tfn.transforms.arguments import Function, P, R, argument_names, as_value, name_of, show, wraps
from tfn.transforms.batch import batch
from tfn.transforms.body import Lanes
from tfn.transforms.grad import variable
from tfn.transforms.shapes import ShapeDtypeStruct
from tfn.transforms.shard import axes as named_axes
from tfn.transforms.shard import layout
from tfn.transforms.shard.axes import NamedAxis
from tfn.transforms.shard.collective_rules import lanes_over
from tfn.transforms.tracing import Recording, record


def vmap(
    fun: Callable[P, R],
    in_axes: object = 0,
    out_axes: object = 0,
    axis_name: Hashable = None,
    axis_size: int | None = None,
    spmd_axis_name: object = None,
) -> Callable[P, R]:
    """Map a function over an axis of its arguments.

    Args:
        in_axes: the mapped axis of each argument: an integer, None for an argument that is the
            same for all, or a tuple of these, or of trees that begin like the arguments.
            Arguments given by keyword are mapped over axis 0.
        out_axes: where the axis goes in the results; None for a result that is not mapped.
        axis_name: a name for the axis, which collectives such as `tfn.lax.psum` can use.
        axis_size: the size of the axis, needed if nothing is mapped.
        spmd_axis_name: the axis of a mesh, or a tuple of them, over which the lanes are divided
            where `tfn.lax.with_sharding_constraint` divides values of the function.

    Raises:
        ShapeError: if mapped axes differ in size, naming each argument.
        AxisError: for an axis that an argument does not have.
        ArgumentError: if nothing is mapped, or a mapped result has out_axes None.

    Example:
        >>> import tfn.numpy as tnp
        >>> vmap(lambda x, y: x * y, in_axes=(0, None))(tnp.arange(3), 2).tolist()
        [0, 2, 4]
    """
    a_function("vmap", "fun", fun)
    spec = tree.structure(in_axes, lambda x: x is None)
    if not isinstance(in_axes, (tuple, list)) and not spec.is_leaf():
        raise ArgumentError(
            "in_axes of vmap is an integer, None, or a tuple with an entry for each argument",
            got=f"in_axes={shown(in_axes)}",
            hint="wrap it for one argument: in_axes=({...},)",
        )
    if axis_size is not None:
        axis_size = integer("vmap", "axis_size", axis_size, 0)
    if getattr(axis_name, "__hash__", None) is None:
        raise ArgumentError(
            "vmap needs a name as axis_name",
            got=f"axis_name={shown(axis_name)}",
            hint="name the axis by a string; each vmap maps one axis",
        )

    naming = axis_name, axis_size, spmd_axis_name

    @functools.lru_cache(maxsize=64)
    def names_of(structure: tree.Structure) -> list[str]:
        return argument_names(fun, structure)

    @wraps(fun)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        leaves, structure = tree.flatten((args, kwargs))
        axes = mapped_axes("in_axes", in_axes, args) + [0] * len(tree.leaves(kwargs))
        if refs.among(leaves):
            out: R = _over_refs(fun, leaves, structure, axes, (out_axes, *naming))
            return out
        names = names_of(structure)
        mapped = [
            Mapped(i, names[i], leaves[i], axis) for i, axis in enumerate(axes) if axis is not None
        ]
        size = mapped_size(mapped, axis_size, fun)
        over = mapped_over(mapped, fun)

        named: list[NamedAxis] = []

        def call(inputs: Sequence[Any]) -> Any:
            filled = list(leaves)
            for m, x in zip(mapped, inputs, strict=True):
                filled[m.at] = x
            new_args, new_kwargs = tree.unflatten(structure, filled)
            if axis_name is not None:
                named.append(named_axes.lane_axis(Axis(axis_name, size)))
            with named_axes.named(named):
                return checked(name_of(fun), fun, new_args, new_kwargs)

        elements, labels = [m.element for m in mapped], [m.name for m in mapped]
        recorded = record("vmap", fun, call, elements, labels, known=False)
        lanes = {
            x: moveaxis(variable(m.value, m.value), m.axis, 0)
            for x, m in zip(recorded.inputs, mapped, strict=True)
        }
        lanes |= {a.index.uop: cast(iota((size,), 0), INT32) for a in named}
        graphs = [*recorded.outputs, *recorded.after]
        if over or spmd_axis_name is not None:
            graphs = lanes_over(graphs, over or names_of_axes(spmd_axis_name))
        results = batch(graphs, lanes, size)
        count = len(recorded.outputs)
        _set_state(recorded, results[count:])
        del results[count:]
        outputs = _outputs(recorded, results, out_axes, size)
        (values,) = recorded.evaluate(outputs, weak=recorded.weak)
        result: R = tree.unflatten(recorded.structure, values)
        return result

    return run


def _over_refs(
    function: Function,
    leaves: Sequence[Any],
    structure: tree.Structure,
    axes: Sequence[int | None],
    options: tuple[Any, ...],
) -> Any:
    """`vmap` over references: each lane has one of its own, whose last value is a result too."""
    at = [i for i, x in enumerate(leaves) if refs.is_ref(x) and axes[i] is not None]

    def of_one(*inputs: Any) -> Any:
        filled = list(inputs)
        for i in at:
            filled[i] = refs.new_ref(inputs[i])
        args, kwargs = tree.unflatten(structure, filled)
        out = function(*args, **kwargs)
        return out, [filled[i][...] for i in at]

    held: list[Any] = [
        refs.Held(x) if refs.is_ref(x) and axis is None else x for x, axis in zip(leaves, axes)
    ]
    inputs = [x[...] if refs.is_ref(x) else x for x in held]
    out_axes, *naming = options
    out, last = vmap(of_one, tuple(axes), (out_axes, [axes[i] for i in at]), *naming)(*inputs)
    for i, value in zip(at, last, strict=True):
        leaves[i][...] = value
    return out


def _set_state(recorded: Recording, last: Sequence[Lanes]) -> None:
    """The state of a trace from that over all lanes.

    Raises:
        ArgumentError: for a reference that lanes write different values to.
    """
    for cell, y in zip(recorded.cells, last, strict=True):
        if y.many and cell is not effects.TOKEN:
            raise ArgumentError(
                f"the lanes of {recorded.trace.name} write different values to one reference",
                got=f"{cell!r}, of which all lanes have the same",
                hint="pass the reference as an argument that is mapped, or reduce the value",
            )
        effects.set_current(recorded.trace, cell, y.graph)


class Mapped:
    """A leaf of the arguments that is mapped: its place, name, value and axis."""

    __slots__ = ("at", "axis", "element", "name", "over", "size", "value")

    def __init__(self, at: int, name: str, leaf: object, axis: int) -> None:
        self.at, self.name, self.value = at, name, as_value(leaf, name)
        shape = self.value.shape
        if not -len(shape) <= axis < len(shape):
            raise AxisError(
                f"vmap cannot map {name} over axis {axis}",
                got=f"{name}: {show(self.value)}",
                hint="use None in in_axes for an argument that is the same for all",
            )
        self.axis = axis % len(shape)
        self.size = shape[self.axis]
        rest = shape[: self.axis] + shape[self.axis + 1 :]
        self.element = ShapeDtypeStruct(rest, self.value.dtype, self.value.weak_type)
        self.over: Names = ()
        if (divided := layout.of(self.value)) is not None:
            self.over = divided.spec[self.axis]
            self.element = self.element.with_layout(divided.without_axis(self.axis))


def mapped_axes(what: str, prefix: object, full: object) -> list[int | None]:
    """One axis for each leaf of `full`."""
    prefix = tuple(prefix) if type(prefix) is list and what == "in_axes" else prefix
    axes, structure = tree.flatten(prefix, is_leaf=lambda x: x is None)
    try:
        parts = tree.flatten_up_to(structure, full)
    except ValueError as error:
        name = "args" if what == "in_axes" else "result"
        where = tree.difference(prefix, full, name, lambda x: x is None)
        raise TreeError(
            f"{what} of vmap does not fit {'the arguments' if what == 'in_axes' else 'the result'}",
            got=f"{what}={prefix!r}, which differs {where}" if where else str(error),
            hint="give an axis, or None, for each argument or for each part of it",
        ) from None
    for axis in axes:
        if axis is not None and type(axis) is not int:
            raise ArgumentError(
                f"{what} of vmap takes integers and None",
                got=f"{what}={prefix!r}",
                hint=f"write {what}=0",
            )
    return [a for a, part in zip(axes, parts, strict=True) for _ in tree.leaves(part)]


def mapped_size(mapped: Sequence[Mapped], axis_size: int | None, function: Function) -> int:
    """The one size of the mapped axes.

    Raises:
        ShapeError: if they differ, naming each argument.
        ArgumentError: if nothing is mapped, and no size is given.
    """
    sizes: list[int] = [m.size for m in mapped]
    if axis_size is not None:
        sizes.append(axis_size)
    if not sizes:
        raise ArgumentError(
            f"vmap of {name_of(function)} has no mapped axis",
            got="in_axes of None alone" if axis_size is None else "no axis",
            hint="map at least one argument in in_axes, or give axis_size",
        )
    if len(set(sizes)) > 1:
        lines = [f"{m.name}: axis {m.axis} of {show(m.value)} has size {m.size}" for m in mapped]
        lines += [] if axis_size is None else [f"axis_size={axis_size}"]
        usual = Counter(sizes).most_common(1)[0][0]
        odd = ", ".join(m.name for m in mapped if m.size != usual) or "axis_size"
        raise ShapeError(
            f"vmap of {name_of(function)} needs mapped axes of one size",
            got="; ".join(lines),
            hint=f"the odd one is {odd}; give it another axis in in_axes, or None",
        )
    return sizes[0]


def mapped_over(mapped: Sequence[Mapped], function: Function) -> Names:
    """The explicit axes of a mesh that divide the mapped axes.

    Raises:
        ShardingTypeError: if they differ, naming two arguments.
    """
    different = {m.over: m for m in mapped}
    if len(different) > 1:
        shown_types = [
            f"{m.name}: {layout.show(m.value, layout.of(m.value))}" for m in different.values()
        ]
        raise ShardingTypeError(
            f"vmap of {name_of(function)} needs mapped axes that are divided in the same way",
            got="; ".join(shown_types),
            hint="tfn.reshard brings one of them to the sharding of the other",
        )
    return next(iter(different), ())


def _outputs(recorded: Recording, lanes: Sequence[Lanes], out_axes: object, size: int) -> list[UOp]:
    """The graphs over all lanes, with the new axis at `out_axes`."""
    numbers = tree.unflatten(recorded.structure, range(len(lanes)))
    axes = mapped_axes("out_axes", out_axes, numbers)

    def path(i: int) -> str:
        return tree.places(recorded.structure)[i][1]

    outputs = []
    for i, (lane, axis) in enumerate(zip(lanes, axes, strict=True)):
        if axis is None and lane.many:
            raise ArgumentError(
                f"the result{path(i)} of vmap differs from lane to lane",
                got="out_axes=None",
                hint="give the axis a place in out_axes, or reduce over it",
            )
        if axis is None:
            outputs.append(lane.graph)
            continue
        full = lane.full(size)
        if not -full.ndim <= axis < full.ndim:
            raise AxisError(
                f"vmap cannot put the mapped axis at {axis} of the result{path(i)}",
                got=f"{full.ndim} axes",
                hint=f"out_axes goes from {-full.ndim} to {full.ndim - 1}",
            )
        outputs.append(moveaxis(full, 0, axis % full.ndim))
    return outputs
