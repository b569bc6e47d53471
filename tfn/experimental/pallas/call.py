"""`pallas_call`: a kernel that is run for each point of a grid, on blocks of arrays.

for i in grid:                       a scan, which carries the results and the scratch memory
    blocks = array[index_map(i)]     dynamic slices
    kernel(blocks)                   traced once, on references
    array[index_map(i)] = blocks     dynamic updates
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from tfn import lax, tree
from tfn import numpy as tnp
from tfn.dtypes import INEXACT
from tfn.errors import ArgumentError
from tfn.experimental.pallas.refs import Block
from tfn.experimental.pallas.specs import MemoryRef, Plan, Unset, no_block_spec
from tfn.extend import ShapeDtypeStruct, a_function, frozen

_LOCAL = threading.local()


@frozen
class Point:
    """The point of the grid at which a kernel runs."""

    indices: tuple[Any, ...]
    sizes: tuple[int, ...]


def _points() -> list[Point]:
    if not hasattr(_LOCAL, "points"):
        _LOCAL.points = []
    points: list[Point] = _LOCAL.points
    return points


def _here(what: str, axis: int) -> Point:
    points = _points()
    if not points or not -len(points[-1].sizes) <= axis < len(points[-1].sizes):
        raise ArgumentError(
            f"{what} is asked for in a kernel, along an axis of its grid",
            got=f"axis {axis}" + (f" of {points[-1].sizes}" if points else ", outside of a kernel"),
        )
    return points[-1]


def program_id(axis: int) -> Any:
    """The index along an axis of the grid, in a kernel.

    Raises:
        ArgumentError: outside of a kernel, or for an axis that the grid has not.

    Example:
        >>> def kernel(out):
        ...     out[...] = program_id(0) * 10
        >>> from tfn.experimental.pallas import BlockSpec
        >>> pallas_call(kernel, ShapeDtypeStruct((3,), "int32"), grid=3,
        ...             out_specs=BlockSpec((1,), lambda i: i))().tolist()
        [0, 10, 20]
    """
    return _here("program_id", axis).indices[axis]


def num_programs(axis: int) -> int:
    """The size of an axis of the grid, in a kernel.

    Raises:
        ArgumentError: outside of a kernel, or for an axis that the grid has not.

    Example:
        >>> def kernel(out):
        ...     out[...] = num_programs(0)
        >>> pallas_call(kernel, ShapeDtypeStruct((), "int32"), grid=3)().item()
        3
    """
    return _here("num_programs", axis).sizes[axis]


def pallas_call(
    kernel: Callable[..., None],
    out_shape: Any,
    *,
    grid_spec: Any = None,
    grid: Any = (),
    in_specs: Any = no_block_spec,
    out_specs: Any = no_block_spec,
    scratch_shapes: Any = (),
    input_output_aliases: Mapping[int, int] | None = None,
    name: str | None = None,
    **hints: Any,
) -> Callable[..., Any]:
    """A function of arrays that runs a kernel for each point of a grid, the last axis fastest.

    The kernel gets references to blocks: of the operands, of the results, then scratch memory.  A
    block of a result that several points see keeps what was written; before anything is written
    to it, it is NaN, or the least integer.  Elements beyond the end of an array are zeros, and what
    is written there is lost.  All transforms work on the function.

    Args:
        kernel: ``kernel(*operands, *results, *scratch)``.
        out_shape: the types of the results, a tree.
        grid_spec: grid, specs and scratch shapes in one object, instead of these.
        grid: sizes of the grid.
        in_specs, out_specs: trees of `BlockSpec`, like the operands and the results; whole arrays
            if left out.
        scratch_shapes: types of memory that is kept from point to point.
        input_output_aliases: positions of operands whose values results begin with.
        name: accepted, for messages of other compilers.
        hints: such as ``interpret`` and ``compiler_params``, accepted and not used.

    Raises:
        ArgumentError: for specs that do not fit.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.experimental.pallas import BlockSpec
        >>> def add(x, y, out):
        ...     out[...] = x[...] + y[...]
        >>> x = tnp.arange(8.0)
        >>> rows = BlockSpec((4,), lambda i: (i,))
        >>> pallas_call(add, ShapeDtypeStruct((8,), "float32"), grid=(2,),
        ...             in_specs=[rows, rows], out_specs=rows)(x, x).tolist()
        [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0]
    """
    a_function("pallas_call", "kernel", kernel)
    prefetched = 0
    if grid_spec is not None:
        grid, in_specs, out_specs = grid_spec.grid, grid_spec.in_specs, grid_spec.out_specs
        scratch_shapes, prefetched = grid_spec.scratch_shapes, grid_spec.num_scalar_prefetch
    sizes = (grid,) if isinstance(grid, int) else tuple(map(int, grid))
    types, out_structure = tree.flatten(out_shape)
    gives = [ShapeDtypeStruct(t.shape, t.dtype) for t in types]
    aliases = dict(input_output_aliases or {})

    def run(*args: Any) -> Any:
        scalars = [tnp.asarray(x) for x in args[:prefetched]]
        leaves, in_structure = tree.flatten(args[prefetched:])
        operands = [tnp.asarray(x) for x in leaves]
        takes = [ShapeDtypeStruct(x.shape, x.dtype) for x in operands]
        inputs = _plans("in_specs", in_specs, in_structure, takes)
        outputs = _plans("out_specs", out_specs, out_structure, gives)
        padded = [_padded(x, plan) for x, plan in zip(operands, inputs, strict=True)]
        began = {
            result: operands[at - prefetched] for at, result in aliases.items() if at >= prefetched
        }
        results = [
            _padded(began[i], plan) if i in began else _unwritten(plan)
            for i, plan in enumerate(outputs)
        ]
        memory = [blank(t) for t in tree.leaves(scratch_shapes, is_leaf=is_type)]
        memory_structure = tree.structure(scratch_shapes, is_leaf=is_type)

        def step(carry: Any, number: Any) -> Any:
            results, memory = carry
            point = Point(_unraveled(number, sizes), sizes)
            more = [Block(x) for x in scalars]
            of_inputs = [_taken(x, p, point, more) for x, p in zip(padded, inputs, strict=True)]
            of_outputs = [_taken(x, p, point, more) for x, p in zip(results, outputs, strict=True)]
            kept = [Block(x) for x in memory]
            listed = tree.unflatten(memory_structure, kept)
            own = listed.values() if isinstance(listed, dict) else listed
            named = listed if isinstance(listed, dict) else {}
            outs = tree.unflatten(out_structure, of_outputs)
            many = isinstance(out_shape, (tuple, list))
            _points().append(point)
            try:
                kernel(
                    *more,
                    *tree.unflatten(in_structure, of_inputs),
                    *(outs if many else [outs]),
                    *(() if named else own),
                    **named,
                )
            finally:
                _points().pop()
            new = [
                _put(x, block, plan, point, more)
                for x, block, plan in zip(results, of_outputs, outputs, strict=True)
            ]
            return (new, [block[...] for block in kept]), None

        carry = (results, memory)
        total = prod(sizes)
        if total == 1:
            carry, _ = step(carry, 0)
        else:
            carry, _ = lax.scan(step, carry, tnp.arange(total))
        cropped = [_cropped(x, plan) for x, plan in zip(carry[0], outputs, strict=True)]
        return tree.unflatten(out_structure, cropped)

    return run


def is_type(x: Any) -> bool:
    """Whether a value is the type of memory."""
    return isinstance(x, (MemoryRef, ShapeDtypeStruct))


def _plans(
    what: str, specs: Any, structure: tree.Structure, types: Sequence[ShapeDtypeStruct]
) -> list[Plan]:
    """The blocks of all arrays."""
    if isinstance(specs, Unset) or specs is None:
        return [Plan.of(None, t) for t in types]
    is_spec = lambda x: x is None or hasattr(x, "block_shape") or isinstance(x, Unset)
    marked = tree.unflatten(structure, [0] * structure.num_leaves)
    if isinstance(marked, tuple) and isinstance(specs, list):
        specs = tuple(specs)
    elif isinstance(marked, list) and isinstance(specs, tuple):
        specs = list(specs)
    listed = tree.leaves(specs, is_leaf=is_spec)
    if len(listed) != len(types):
        raise ArgumentError(
            f"pallas_call needs {what} for each of its {len(types)} arrays",
            got=f"{len(listed)}",
            hint="BlockSpec() is the whole array",
        )
    return [Plan.of(spec, t) for spec, t in zip(listed, types, strict=True)]


def _padded(x: Any, plan: Plan) -> Any:
    """An array with zeros around it, so that all blocks fit."""
    return tnp.pad(x, plan.pads) if any(low or high for low, high in plan.pads) else x


def _cropped(x: Any, plan: Plan) -> Any:
    cut = tuple(slice(low, low + n) for (low, _), n in zip(plan.pads, plan.like.shape, strict=True))
    return x[cut] if any(low or high for low, high in plan.pads) else x


def _unwritten(plan: Plan) -> Any:
    """A result before anything is written to it."""
    shape = [n + low + high for n, (low, high) in zip(plan.like.shape, plan.pads, strict=True)]
    return blank(MemoryRef(tuple(shape), plan.like.dtype))


def blank(kind: Any) -> Any:
    """Memory that nothing was written to: NaN, the least integer, or False."""
    dtype = kind.dtype
    if dtype in INEXACT:
        value: Any = np.nan
    else:
        value = False if dtype.kind == "b" else np.iinfo(dtype).min
    return tnp.full(kind.shape, value, dtype)


def _unraveled(number: Any, sizes: Sequence[int]) -> tuple[Any, ...]:
    """The indices of a point by its number."""
    found, rest = [], number
    for n in reversed(sizes):
        found.append(rest % n if n > 1 else 0 * rest)
        rest = rest // n
    return tuple(found[::-1])


def _taken(x: Any, plan: Plan, point: Point, more: Sequence[Any]) -> Block:
    """The block of an array at a point."""
    starts = plan.spec.starts(plan.like.shape, point.indices, more)
    part = lax.dynamic_slice(x, [tnp.asarray(s, "int32") for s in starts], plan.block)
    return Block(lax.squeeze(part, plan.spec.gone()))


def _put(x: Any, block: Block, plan: Plan, point: Point, more: Sequence[Any]) -> Any:
    """An array with the block at a point written back."""
    starts = plan.spec.starts(plan.like.shape, point.indices, more)
    part = block[...].reshape(plan.block)
    return lax.dynamic_update_slice(x, part, [tnp.asarray(s, "int32") for s in starts])
