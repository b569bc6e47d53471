"""Loops: `scan`, `while_loop`, `fori_loop`, `map`.

The body is traced once, whatever the number of repetitions, and the loop runs as one program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tfn import tree
from tfn._support.validate import a_function, integer
from tfn.array import Array, ArrayLike
from tfn.dtypes import BOOL, INTEGERS, promote_types
from tfn.errors import ArgumentError, DTypeError, ShapeError
from tfn.lax import loop_blocks
from tfn.lax.closed_functions import (
    Closed,
    called,
    closed,
    perform,
    settle,
    values,
    with_numbers,
    with_state,
)
from tfn.lax.elementwise import cast
from tfn.lax.loop_blocks import LoopPlan, checkpointed, unrolled
from tfn.lax.movement import concatenate, reshape, slice_in_dim
from tfn.lax.operand import array
from tfn.trace import build, refs, traces
from tfn.trace.argument import Param
from tfn.trace.jaxpr import function, param
from tfn.trace.uop import UOp
from tfn.transforms.arguments import name_of, show
from tfn.transforms.checkpoint import checkpoint, each_loop
from tfn.transforms.disable import DISABLED
from tfn.transforms.shapes import ShapeDtypeStruct
from tfn.transforms.shard import layout
from tfn.transforms.vmap import vmap


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: object,
    xs: object = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
    *,
    checkpoint_every: int | str | None = None,
) -> Any:
    """Carries a value along the first axis of `xs`, and stacks an output for each step.

    In Python::

        ys = []
        for x in xs:
            carry, y = f(carry, x)
            ys.append(y)
        return carry, stack(ys)

    Args:
        f: takes a carry and a slice of `xs`, gives a carry of the same type and a slice of ys.
        init: the first carry, a tree of arrays.
        xs: a tree of arrays of one length along their first axis; None if there are none.
        length: the number of steps, needed if there are no `xs`.
        reverse: begin with the last slice; ys keep the order of xs.
        unroll: how many steps to write out in one turn of the loop; True for all of them.
        _split_transpose: accepted as in JAX and ignored.
        checkpoint_every: reverse mode keeps only the carries after so many steps, and runs the
            steps between them again; "sqrt" for the square root of all steps.  None keeps what
            the derivative needs of each step.

    Returns:
        The last carry, and ys.

    Raises:
        ShapeError: if lengths differ, naming each array.
        TreeError, DTypeError: if the body changes the structure or a type of the carry.

    Example:
        >>> import tfn.numpy as tnp
        >>> total, sums = scan(lambda c, x: (c + x, c + x), 0, tnp.arange(4))
        >>> int(total), sums.tolist()
        (6, [0, 1, 3, 6])
    """
    a_function("scan", "f", f)
    if refs.among(tree.leaves(xs)):
        return _over_refs(f, init, xs, partial(scan, length=length, reverse=reverse, unroll=unroll))
    if DISABLED[0]:
        arrays, names, over = values("xs", xs)
        if steps := _length(arrays, names, length):  # of none, only a trace knows the outputs
            return _scan_in_python(f, init, over, arrays, range(steps), reverse)
    if each_loop():
        f = checkpoint(f)

    def planned(steps: int) -> LoopPlan:
        every = checkpointed(checkpoint_every, steps)
        return LoopPlan(steps, reverse, unrolled(unroll, steps), every)

    return scan_by(planned, f, init, xs, length)


def _scan_in_python(
    f: Callable[[Any, Any], tuple[Any, Any]],
    carry: Any,
    over: tree.Structure,
    arrays: Sequence[Array],
    steps: range,
    reverse: bool,
) -> Any:
    """The same as a loop of Python, within `disable_jit`."""
    outputs = []
    for i in reversed(steps) if reverse else steps:
        carry, y = f(carry, tree.unflatten(over, [x[i] for x in arrays]))
        outputs.append(y)
    ordered = outputs[::-1] if reverse else outputs
    rows = [[array(leaf) for leaf in tree.leaves(y)] for y in ordered]
    stacked = [
        concatenate([reshape(y, (1, *y.shape)) for y in column], 0)
        for column in zip(*rows, strict=True)
    ]
    return carry, tree.unflatten(tree.structure(ordered[0]), stacked)


def scan_by(
    planned: Callable[[int], LoopPlan],
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: object,
    xs: object,
    length: int | None = None,
) -> Any:
    """The same, with its steps as a plan for their number says."""
    arrays, names, over = values("xs", xs)
    steps = _length(arrays, names, length)
    start, paths, structure = values("carry", init)
    where = f"scan ({name_of(f)})"
    layouts = [layout.sliced(where, name, x) for name, x in zip(names, arrays)]
    slices = [
        replace(ShapeDtypeStruct.of(x), shape=x.shape[1:]).with_layout(at)
        for x, at in zip(arrays, layouts)
    ]

    def close_body(types: list[ShapeDtypeStruct]) -> tuple[Closed, tree.Structure]:
        both = tree.unflatten(structure, types), tree.unflatten(over, slices)
        body = closed("scan", f, [*types, *slices], tree.structure(both))
        result = body.structure
        if result.type is not tuple or result.num_children != 2:
            raise ArgumentError(
                f"the body of {where} must return a pair (carry, y)",
                got=tree.show(result),
                hint="return (carry, None) if there is nothing to stack",
            )
        return body, result.child(0)

    first, body, step = settle(where, start, paths, structure, close_body)
    plan, weak = planned(steps), body.weak

    state = [cell.read() for cell in body.cells]
    before, last = len(body.captured), len(body.captured) + len(state) + len(first)

    def make(nodes: list[UOp]) -> list[UOp]:
        consts, carries, stacked = nodes[:before], nodes[before:last], nodes[last:]
        return loop_blocks.scan(step, consts, carries, stacked, plan)

    operands = [*body.captured, *state, *first, *arrays]
    operands = with_numbers(operands, before + len(state), init)
    results = perform(make, operands, weak, body.cells)
    carry, ys = results[: len(first)], results[len(first) :]
    return tree.unflatten(structure, carry), tree.unflatten(body.structure.child(1), ys)


def _over_refs(
    f: Callable[[Any, Any], tuple[Any, Any]], init: object, xs: object, loop: Callable[..., Any]
) -> Any:
    """A scan over references: each step has one to a slice, whose last value is an output too."""
    leaves, structure = tree.flatten(xs)

    def step(carry: Any, slices: list[Any]) -> Any:
        parts = [refs.new_ref(x) if refs.is_ref(y) else x for x, y in zip(slices, leaves)]
        carry, y = f(carry, tree.unflatten(structure, parts))
        return carry, (y, [x[...] if refs.is_ref(x) else None for x in parts])

    arrays = [x[...] if refs.is_ref(x) else x for x in leaves]
    carry, (ys, last) = loop(step, init, arrays)
    for ref, value in zip(leaves, last, strict=True):
        if refs.is_ref(ref):
            ref[...] = value
    return carry, ys


def _length(arrays: Sequence[Array], names: Sequence[str], length: int | None) -> int:
    for x, name in zip(arrays, names):
        if not x.shape:
            raise ShapeError(
                "scan goes along the first axis, and a scalar has none",
                got=f"{name}: {show(x)}",
                hint="put what all steps share into the carry, or close over it",
            )
    lengths = [] if length is None else [integer("scan", "length", length, 0)]
    sizes = {x.shape[0] for x in arrays}.union(lengths)
    if len(sizes) > 1:
        got = [f"{name}: {show(x)}" for name, x in zip(names, arrays)]
        got += [] if length is None else [f"length={length}"]
        raise ShapeError(
            "scan needs arrays of one length along their first axis",
            got=", ".join(got),
            hint="cut or pad the longer ones; moveaxis puts another axis first",
        )
    if not sizes:
        raise ArgumentError(
            "scan needs arrays to go along, or a length",
            got="no arrays, length=None",
            hint="give length=, the number of steps",
        )
    (steps,) = sizes
    return steps


def while_loop(
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    init_val: object,
    *,
    max_steps: int | None = None,
    checkpoint_every: int | str | None = "sqrt",
) -> Any:
    """Applies a body to a value while a condition of the value holds.

    In Python::

        while cond_fun(val):
            val = body_fun(val)
        return val

    The number of steps is not known beforehand, so there is no reverse mode, unless `max_steps`
    bounds it: then the loop stops there at the latest.  Under `vmap` it runs until every lane has
    finished.

    Args:
        cond_fun: from the value to a boolean scalar.
        body_fun: from the value to the next one, of the same type.
        init_val: the first value, a tree of arrays.
        max_steps: how many steps there can be.
        checkpoint_every: with `max_steps`, after how many steps reverse mode keeps the value; the
            steps between are run again.  With "sqrt" its memory grows with the square root of
            `max_steps`; None keeps what the derivative needs of each step.

    Returns:
        The last value, a tree like `init_val`.

    Raises:
        ShapeError, DTypeError: if the condition is not a boolean scalar, or the body changes a
            type of the value.
        TreeError: if the body changes its structure.

    Example:
        >>> int(while_loop(lambda n: n < 100, lambda n: n * 2, 3))
        192
    """
    a_function("while_loop", "cond_fun", cond_fun)
    a_function("while_loop", "body_fun", body_fun)
    if max_steps is not None:
        max_steps = integer("while_loop", "max_steps", max_steps, 0)
    if DISABLED[0]:
        value, steps = init_val, 0
        while (max_steps is None or steps < max_steps) and cond_fun(value):
            value, steps = body_fun(value), steps + 1
        return value
    start, paths, structure = values("value", init_val)
    where = f"while_loop ({name_of(body_fun)})"
    outer = tree.structure((tree.unflatten(structure, start),))

    def close_body(types: list[ShapeDtypeStruct]) -> tuple[Closed, tree.Structure]:
        body = closed("while_loop", body_fun, types, outer)
        return body, body.structure

    first, body, body_function = settle(where, start, paths, structure, close_body)
    types = [ShapeDtypeStruct(v.shape, v.dtype, w) for v, w in zip(first, body.weak, strict=True)]
    test = closed("while_loop cond", cond_fun, types, outer)
    if not test.structure.is_leaf() or test.types[0].shape or test.types[0].dtype != BOOL:
        got = ", ".join(show(t) for t in test.types)
        raise (ShapeError if any(t.shape for t in test.types) else DTypeError)(
            f"the condition of while_loop ({name_of(cond_fun)}) must be one boolean scalar",
            got=got or "nothing",
            hint="compare, and reduce with .any() or .all()",
        )
    a, b = len(test.captured), len(body.captured)
    cells = tuple(dict.fromkeys([*test.cells, *body.cells]))
    count = len(cells)

    def make(nodes: list[UOp]) -> list[UOp]:
        consts, more, carries = nodes[:a], nodes[a : a + b], nodes[a + b :]
        cond, step = test.function, body_function
        if cells:
            stepping = replace(body, function=body_function)
            cond, step, carries = _acting(test, stepping, cells, consts, more, carries)
            consts, more = [], [*consts, *more]
        if max_steps is not None:
            every = checkpointed(checkpoint_every, max_steps) or max(max_steps, 1)
            outputs = loop_blocks.bounded(cond, step, consts, more, carries, max_steps, every)
        else:
            names = paths if len(paths) == len(carries) else ()
            outputs = build.repeat_while(cond, step, consts, more, carries, names)
        return [*outputs[:count], *outputs[count + 1 :]] if cells else outputs

    state = [cell.read() for cell in cells]
    operands = [*test.captured, *body.captured, *state, *first]
    operands = with_numbers(operands, a + b + count, init_val)
    results = perform(make, operands, body.weak, cells)
    return tree.unflatten(structure, results)


def _acting(
    test: Closed,
    body: Closed,
    cells: Sequence[traces.Cell],
    consts: Sequence[UOp],
    more: Sequence[UOp],
    carries: Sequence[UOp],
) -> tuple[UOp, UOp, list[UOp]]:
    """Rewrites a loop with effects to carry state and its condition, whose effects occur once.

    The first of the carries are the values of `cells`.  The result is the condition, the body,
    which takes all consts, and the first carries.
    """
    k, a = len(cells), len(consts)

    def condition(constants: Sequence[UOp], carried: Sequence[UOp]) -> list[UOp]:
        return with_state(test, cells, constants, carried[:k], carried[k:])

    start = [*condition(consts, carries), *carries[k:]]
    nodes = [param(Param(i, x.shape, x.dtype)) for i, x in enumerate([*consts, *more, *start])]
    now = nodes[a + len(more) :]
    outputs = with_state(body, cells, nodes[a : a + len(more)], now[:k], now[k + 1 :])
    turn = function([*condition(nodes[:a], outputs), *outputs[k:]], tuple(u.arg for u in nodes))
    carried = tuple(Param(i, x.shape, x.dtype) for i, x in enumerate(start))
    going = function([param(carried[k])], carried)
    return going, turn, start


def fori_loop(
    lower: ArrayLike,
    upper: ArrayLike,
    body_fun: Callable[[Any, Any], Any],
    init_val: object,
    *,
    unroll: int | bool | None = None,
    checkpoint_every: int | str | None = None,
) -> Any:
    """Applies ``val = body_fun(i, val)`` for i from `lower` to ``upper - 1``.

    If the bounds are known while tracing, it is a `scan` and has a reverse mode; else it is a
    `while_loop`.

    Args:
        lower, upper: integers; `body_fun` gets i in their dtype.
        body_fun: takes the index, a scalar, and the value, and returns the next value of the same
            type.
        init_val: the first value, a tree of arrays; the result if there are no steps.
        unroll, checkpoint_every: as for `scan`; only with known bounds.

    Returns:
        The last value, a tree like `init_val`.

    Raises:
        DTypeError: if a bound is not an integer scalar; else as for `scan`.

    Example:
        >>> int(fori_loop(1, 5, lambda i, total: total * i, 1))
        24
    """
    a_function("fori_loop", "body_fun", body_fun)
    low, high = _bound("lower", lower), _bound("upper", upper)
    dtype = promote_types(low.dtype, high.dtype)
    start, paths, structure = values("value", init_val)
    where = f"fori_loop ({name_of(body_fun)})"
    counter = ShapeDtypeStruct((), dtype, low.weak_type and high.weak_type)

    def close_body(types: list[ShapeDtypeStruct]) -> tuple[Closed, tree.Structure]:
        arguments = tree.structure((0, tree.unflatten(structure, types)))
        body = closed("fori_loop", body_fun, [counter, *types], arguments)
        return body, body.structure

    first, body, body_function = settle(where, start, paths, structure, close_body)
    n, count = len(body.captured), len(body.cells)
    i = param(body_function.arg.params[n + count])
    step = function(
        [*body_function.src[:count], i + 1, *body_function.src[count:]],
        body_function.arg.params,
    )
    low, high = cast(low, dtype), cast(high, dtype)

    def forward(nodes: list[UOp]) -> list[UOp]:
        steps = max(int(high) - int(low), 0)
        consts, carries = nodes[:n], nodes[n:]
        plan = LoopPlan(
            steps, unroll=unrolled(unroll, steps), every=checkpointed(checkpoint_every, steps)
        )
        outputs = loop_blocks.scan(step, consts, carries, [], plan)
        return outputs[:count] + outputs[count + 1 :]

    def unknown(nodes: list[UOp]) -> list[UOp]:
        end, consts, carries = nodes[0], nodes[1 : 1 + n], nodes[1 + n :]
        params = tuple(Param(k, u.shape, u.dtype) for k, u in enumerate([end, *carries]))
        test = function([param(params[1 + count]) < param(params[0])], params)
        outputs = build.repeat_while(test, step, [end], consts, carries)
        return outputs[:count] + outputs[count + 1 :]

    state = [cell.read() for cell in body.cells]
    if low.owner is None and high.owner is None:
        operands = [*body.captured, *state, low, *first]
        operands = with_numbers(operands, n + count, (int(low), init_val))
        results = perform(forward, operands, body.weak, body.cells)
    elif unroll not in (None, 1, False) or checkpoint_every is not None:
        raise ArgumentError(
            "fori_loop can only be unrolled or checkpointed if its bounds are known",
            got=f"unroll={unroll}, checkpoint_every={checkpoint_every}",
            hint="mark the bounds static in jit, or leave these out",
        )
    else:
        operands = [high, *body.captured, *state, low, *first]
        operands = with_numbers(operands, 1 + n + count, (lower, init_val))
        results = perform(unknown, operands, body.weak, body.cells)
    return tree.unflatten(structure, results)


def _bound(name: str, value: ArrayLike) -> Array:
    x = array(value)
    if x.shape or x.dtype not in INTEGERS:
        kind = ShapeError if x.shape else DTypeError
        raise kind(
            f"fori_loop needs an integer scalar as {name}",
            got=f"{name}={show(x)}",
            hint="for another condition use while_loop",
        )
    return x


def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """Applies a function to each slice along the first axis, one after the other, and stacks the
    results.

    With `batch_size`, blocks of that size go through `vmap`: less memory than `vmap` over all
    of them, and less time than one by one.

    Args:
        f: from a tree of slices of `xs` to a tree of arrays.
        xs: a tree of arrays of one length along their first axis.
        batch_size: number of slices at a time, at least 1; one by one if None.

    Returns:
        A tree like the result of `f`, with a first axis of that length.

    Raises:
        ShapeError: if lengths differ, naming each array.
        ArgumentError: if there are no arrays, or `batch_size` is not positive.

    Example:
        >>> import tfn.numpy as tnp
        >>> map(lambda x: x * x, tnp.arange(4)).tolist()
        [0, 1, 4, 9]
    """

    def step(carry: None, x: Any) -> tuple[None, Any]:
        return None, called("map", f, x)

    a_function("map", "f", f)
    if batch_size is None:
        return scan(step, None, xs)[1]
    batch_size = integer("map", "batch_size", batch_size, 1)
    arrays, names, structure = values("xs", xs)
    steps = _length(arrays, names, None)
    turns, remainder = divmod(steps, batch_size)
    middle = steps - remainder

    def part(start: int, stop: int, shape: tuple[int, ...]) -> Any:
        cut = [slice_in_dim(x, start, stop) for x in arrays]
        return tree.unflatten(structure, [reshape(x, (*shape, *x.shape[1:])) for x in cut])

    if not turns:
        return vmap(f)(xs)
    blocks = map(vmap(f), part(0, middle, (turns, batch_size)))
    whole = tree.map(lambda y: reshape(y, (middle, *y.shape[2:])), blocks)
    if not remainder:
        return whole
    rest = vmap(f)(part(middle, steps, (remainder,)))
    return tree.map(lambda a, b: concatenate([a, b], 0), whole, rest)
