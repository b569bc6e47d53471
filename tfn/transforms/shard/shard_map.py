"""`shard_map`: a function of the parts that each device holds; `pmap`, its older face.

The function is traced on parts.  Around its graph stand SHARD, from a global value to the part of
this device, and UNSHARD, back; what is between them may use collectives over the mesh::

    shard_map(f, in_specs=P("x"), out_specs=P())(v)   ->   unshard[()] f(shard[(x)] v)

Derivatives and `vmap` work on this graph as on any other; `partition` divides what is around it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tfn import tree
from tfn._support.validate import a_function
from tfn.errors import ArgumentError, AxisError, ShapeError, TreeError
from tfn.trace import effects
from tfn.trace.mesh import AbstractMesh, Mesh, mesh_in_use
from tfn.trace.named_sharding import NamedSharding, PartitionSpec
from tfn.trace.op import Op
from tfn.trace.sharding import Partition, check_divides
from tfn.trace.uop import UOp, substitute
from tfn.transforms.annotations import checked
from tfn.transforms.arguments import Function, P, R, argument_names, as_value, name_of, show
from tfn.transforms.grad import variable
from tfn.transforms.shapes import ShapeDtypeStruct
from tfn.transforms.shard import axes, layout, vary
from tfn.transforms.tracing import record


class _Inferred:
    """The specs that the types of arguments have."""

    def __repr__(self) -> str:
        return "INFERRED"


INFERRED = _Inferred()


def shard_map(
    f: Callable[P, R] | None = None,
    /,
    *,
    mesh: Mesh | AbstractMesh | None = None,
    in_specs: Any = INFERRED,
    out_specs: Any,
    axis_names: Any = frozenset(),
    check_vma: bool = True,
) -> Any:
    """Map a function over the parts of its arguments on the devices of a mesh.

    Usable as ``shard_map(f, ...)`` and as a decorator with arguments.

    Args:
        f: takes the parts of the arguments, and returns the parts of the results; collectives such
            as `tfn.lax.psum` may name the axes of the mesh.
        mesh: the devices; if None, those of `set_mesh`.
        in_specs: a `PartitionSpec` for each argument, or for a tree of arguments: how it is
            divided.  None for an argument that is passed as it is.  If left out, arguments are
            divided as their types say, over explicit axes of the mesh.
        out_specs: how the results are put together from their parts.  Over axes that a spec does
            not name, the parts have to be equal.
        axis_names: the axes of the mesh over which `f` works on parts; all of them if empty.  Over
            the others its values are whole, and the compiler divides them.
        check_vma: whether it is checked that parts are equal where `out_specs` says so; then
            derivatives need no sums for values that are the same on all devices.

    Raises:
        ArgumentError: without a mesh, or for parts that are not equal.
        AxisError: for a name that is not an axis of the mesh.
        ShapeError: if a size does not divide, or a spec has more entries than an array axes.
        TreeError: if specs do not fit the arguments or the results.

    Example:
        >>> import tfn
        >>> import tfn.numpy as tnp
        >>> from tfn.sharding import PartitionSpec as P
        >>> mesh = tfn.make_mesh((1,), ("x",))
        >>> total = shard_map(
        ...     lambda v: tfn.lax.psum(v.sum(), "x"), mesh=mesh, in_specs=P("x"), out_specs=P()
        ... )
        >>> float(total(tnp.arange(8.0)))
        28.0
    """
    if f is None:
        return functools.partial(
            shard_map,
            mesh=mesh,
            in_specs=in_specs,
            out_specs=out_specs,
            axis_names=axis_names,
            check_vma=check_vma,
        )
    a_function("shard_map", "f", f)
    function: Function = f

    @functools.wraps(function)
    def run(*args: Any) -> Any:
        region = _Region.of(function, mesh, axis_names, check_vma)
        return region.run(function, args, in_specs, out_specs)

    return run


class _Region:
    """The mesh of one call, and the axes that are manual in it."""

    def __init__(self, name: str, mesh: Mesh | AbstractMesh, manual: Sequence[Any], check: bool):
        self.name, self.mesh, self.check = name, mesh, check
        self.manual = tuple(a for a in mesh.axes if a.name in manual)
        self.names = tuple(a.name for a in self.manual)

    @staticmethod
    def of(function: Function, mesh: Any, axis_names: Any, check: bool) -> _Region:
        """The region of a call; the mesh in use if none is given."""
        mesh = mesh_in_use() if mesh is None else mesh
        if not isinstance(mesh, (Mesh, AbstractMesh)) or mesh.empty:
            raise ArgumentError(
                f"shard_map of {name_of(function)} needs a mesh",
                got=repr(mesh)[:80],
                hint="pass mesh=tfn.make_mesh(sizes, names), or set one with tfn.set_mesh",
            )
        manual = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        for name in manual:
            if name not in mesh.shape:
                raise AxisError(
                    f"shard_map of {name_of(function)} over {name!r}, which the mesh does not have",
                    got=repr(mesh),
                    hint=f"axis_names are some of {', '.join(map(repr, mesh.axis_names))}",
                )
        return _Region(name_of(function), mesh, manual or mesh.axis_names, check)

    def partition(self, spec: PartitionSpec, shape: tuple[int, ...], what: str) -> Partition:
        """The division of a value by a spec over manual axes."""
        try:
            arg = NamedSharding(self.mesh, spec).partition(len(shape))
        except ShapeError:
            raise ShapeError(
                f"{spec} is longer than the shape of {what} of {self.name}",
                got=f"{what} of shape {shape}",
                hint="a spec has one entry for each axis, or fewer; P() for a scalar",
            ) from None
        strangers = [name for names in arg.spec for name in names if name not in self.names]
        if strangers:
            raise AxisError(
                f"{spec} divides {what} of {self.name} over {strangers[0]!r}, which is not manual",
                got=f"axis_names={set(self.names)}",
                hint="specs name manual axes alone; the compiler divides values over the others",
            )
        rest = () if self.check else tuple(a for a in self.manual if a.name not in arg.names)
        explicit = self.mesh.abstract_mesh.explicit_axes
        return Partition(arg.mesh, arg.spec, self.names, rest, explicit=explicit)

    def _spec_of_type(self, leaf: Any) -> PartitionSpec:
        """The spec of an argument over the manual axes, by its type."""
        found = layout.of(as_value(leaf, "an argument"))
        spec = found.spec if found is not None else ()
        return PartitionSpec(*[tuple([n for n in names if n in self.names]) for names in spec])

    def run(self, function: Function, args: tuple[Any, ...], ins: Any, outs: Any) -> Any:
        """The results for arguments."""
        leaves, structure = tree.flatten(args)
        if ins is INFERRED:
            specs = [self._spec_of_type(leaf) for leaf in leaves]
        else:
            specs = _specs("in_specs", ins, args, self.name)
        names = argument_names(function, tree.flatten((args, {}))[1])
        given = [i for i, spec in enumerate(specs) if spec is not None]
        values = [as_value(leaves[i], names[i]) for i in given]
        divided = [
            self.partition(specs[i], value.shape, names[i])
            for i, value in zip(given, values, strict=True)
        ]
        for i, value, arg in zip(given, values, divided, strict=True):
            check_divides(f"{specs[i]} for {names[i]} of shard_map", value.shape, arg)
        kinds = [
            ShapeDtypeStruct(arg.local(v.shape), v.dtype, v.weak_type).with_layout(
                layout.within(layout.of(v), self.names)
            )
            for v, arg in zip(values, divided, strict=True)
        ]
        frames: list[axes.NamedAxis] = []

        def call(inputs: Sequence[Any]) -> object:
            filled = list(leaves)
            for i, x, arg, value in zip(given, inputs, divided, values, strict=True):
                x.uop.arg.varying = frozenset(arg.names) | vary.of(value)
                filled[i] = x
            frames.extend(axes.lane_axis(a, True, self.check) for a in self.manual)
            for frame in frames:
                frame.index.uop.arg.varying = frozenset({frame.axis.name})
            with axes.named(frames):
                return checked(self.name, function, tree.unflatten(structure, filled), {})

        recorded = record("shard_map", function, call, kinds, [names[i] for i in given], False)
        outputs = [*recorded.outputs, *recorded.after]
        numbers = tree.unflatten(recorded.structure, range(len(recorded.outputs)))
        given_outs = [
            PartitionSpec() if spec is None else spec
            for spec in _specs("out_specs", outs, numbers, self.name)
        ]
        places = [f"the result{path}" for _, path in tree.places(recorded.structure)]
        parts = [
            self.partition(spec, y.shape, what)
            for y, spec, what in zip(recorded.outputs, given_outs, places, strict=True)
        ]
        if self.check:
            with axes.named(frames):
                alignment = vary.Alignment(recorded.trace)
                outputs, have = alignment.run(outputs, {})
                for i, arg in enumerate(parts):
                    got = f"out_specs {given_outs[i]} for {show(outputs[i])}"
                    self._check_equal(arg, have[i], places[i], got)
                    # Equal parts of a divided result have cotangents of their own, to be added up.
                    outputs[i] = alignment.vary(outputs[i], have[i], have[i].union(arg.names))
        inside = {
            leaf: UOp(Op.SHARD, (variable(value, value),), arg)
            for leaf, value, arg in zip(recorded.inputs, values, divided, strict=True)
        }
        inside |= {frame.index.uop: UOp(Op.AXIS, (), frame.axis) for frame in frames}
        outputs = substitute(outputs, inside)
        count = len(recorded.outputs)
        for cell, last in zip(recorded.cells, outputs[count:], strict=True):
            effects.set_current(recorded.trace, cell, last)
        del outputs[count:]
        whole = [UOp(Op.UNSHARD, (y,), arg) for y, arg in zip(outputs, parts, strict=True)]
        (results,) = recorded.evaluate(whole, weak=recorded.weak)
        return tree.unflatten(recorded.structure, results)

    def _check_equal(self, arg: Partition, varying: frozenset[Any], what: str, got: str) -> None:
        """Raise unless the parts are equal over the axes that do not divide a result."""
        extra = [name for name in self.names if name in varying and name not in arg.names]
        if extra:
            raise ArgumentError(
                f"{what} of {self.name} may differ between the devices along {extra[0]!r}",
                got=f"{got}, which varies over " + ", ".join(map(repr, sorted(varying, key=str))),
                hint=f"reduce it, as lax.psum(x, {extra[0]!r}) does, name the axis in out_specs, "
                "or pass check_vma=False",
            )


def _specs(what: str, prefix: Any, full: Any, name: str) -> list[Any]:
    """A spec, or None, for each leaf of a tree."""

    def is_leaf(x: object) -> bool:
        return x is None or isinstance(x, PartitionSpec)

    if isinstance(prefix, list) and isinstance(full, tuple):
        prefix = tuple(prefix)
    specs, structure = tree.flatten(prefix, is_leaf=is_leaf)
    try:
        parts = tree.flatten_up_to(structure, full)
    except ValueError:
        where = tree.difference(prefix, full, what, is_leaf)
        raise TreeError(
            f"{what} of shard_map do not fit {name}",
            got=f"{what}={prefix!r}, which differs {where}",
            hint="give a PartitionSpec for each of them, or for each tree of them",
        ) from None
    for spec in specs:
        if not is_leaf(spec):
            raise ArgumentError(
                f"{what} of shard_map are PartitionSpecs",
                got=f"{type(spec).__name__} {spec!r}"[:80],
                hint="write P('x', None) for axes divided over 'x' and over nothing",
            )
    return [s for s, part in zip(specs, parts, strict=True) for _ in tree.leaves(part)]
