"""Branches, loops, sequences and optional values: operations that run graphs or hold many arrays.

A graph of a branch or body is a function `run(graph, values) -> results` of the values of its
inputs; what it reads besides is what the graph around it has defined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tfn import lax
from tfn import numpy as jnp
from tfn.errors import ConcretizationTypeError, NotAvailableError
from tfn.onnx.graph import Graph
from tfn.onnx.ops.known import Value, integers, library

Run = Callable[[Graph, Sequence[Value]], list[Value]]


def truth(condition: Value) -> bool | None:
    """Whether a condition holds; None while only its type is known."""
    try:
        return bool(np.asarray(condition).reshape(-1)[0])
    except ConcretizationTypeError:
        return None


def If(condition: Value, then_branch: Graph, else_branch: Graph, run: Run) -> Value:
    """The results of one of two graphs."""
    holds = truth(condition)
    if holds is not None:
        return tuple(run(then_branch if holds else else_branch, ()))

    def branch(graph: Graph) -> Callable[[], tuple[Value, ...]]:
        return lambda: tuple(map(jnp.asarray, run(graph, ())))

    return lax.cond(condition.reshape(()), branch(then_branch), branch(else_branch))


END = np.iinfo(np.int64).max
"""The number of steps of a loop for which a file gives none."""


def Loop(count: Value, condition: Value, *carries: Value, body: Graph, run: Run) -> Value:
    """A loop of known length that goes on to its end is a scan, other known ones are unrolled, and
    one whose end is traced is a `while_loop`, which returns no rows."""
    states = len(carries)
    steps = None if count is None else integers_or_none(count)
    goes_on = True if condition is None else truth(condition)
    if goes_on is None or (count is not None and steps is None):
        return _while(count, condition, carries, body, run)
    values = list(carries)
    rows: list[list[Value]] = [[] for _ in body.outputs[1 + states :]]
    step = 0
    while goes_on and (steps is None or step < steps):
        out = run(body, [np.array(step, np.int64), np.array(True), *values])
        goes_on, values = truth(out[0]), out[1 : 1 + states]
        for row, value in zip(rows, out[1 + states :]):
            row.append(value)
        step += 1
        if goes_on is None:
            return _while(count, out[0], values, body, run, step, rows)
    return (*values, *(_stacked(row, body.outputs[1 + states + i]) for i, row in enumerate(rows)))


def integers_or_none(value: Value) -> int | None:
    """A known number; None while only its type is known."""
    try:
        return int(np.asarray(value).reshape(-1)[0])
    except ConcretizationTypeError:
        return None


def _stacked(row: list[Value], value: Any) -> Value:
    if row:
        return library(*row).stack(row)
    sizes = tuple(n if isinstance(n, int) else 0 for n in value.shape or ())
    return np.zeros((0, *sizes), value.dtype)


def _while(
    count: Value,
    condition: Value,
    carries: Sequence[Value],
    body: Graph,
    run: Run,
    step: int = 0,
    rows: Sequence[Any] = (),
) -> Value:
    if len(body.outputs) > 1 + len(carries) or any(rows):
        raise NotAvailableError(
            "a Loop that returns a row for each step needs a number of steps that is known",
            got="a condition, or a number of steps, that is traced",
            hint="call the model outside of jit, or export it with a fixed number of steps",
        )
    limit = jnp.asarray(np.int64(END) if count is None else count).reshape(())
    start = jnp.asarray(True if condition is None else condition).reshape(())

    def test(state: Any) -> Value:
        return state[1] & (state[0] < limit)

    def again(state: Any) -> Any:
        out = run(body, [state[0], state[1], *state[2]])
        values = tuple(jnp.asarray(v).astype(c.dtype) for v, c in zip(out[1:], state[2]))
        return state[0] + 1, jnp.asarray(out[0]).reshape(()), values

    first = (jnp.asarray(np.int64(step)), start, tuple(map(jnp.asarray, carries)))
    return lax.while_loop(test, again, first)[2]


def Scan(
    *values: Value,
    body: Graph,
    num_scan_inputs: int,
    run: Run,
    scan_input_axes: Sequence[int] | None = None,
    scan_input_directions: Sequence[int] | None = None,
    scan_output_axes: Sequence[int] | None = None,
    scan_output_directions: Sequence[int] | None = None,
    directions: Sequence[int] | None = None,
    opset: int = 9,
) -> Value:
    """A graph over the rows of arrays, with a state."""
    if opset < 9:  # batched, and with lengths
        _, *rest = values
        states = len(rest) - num_scan_inputs
        one = partial(
            Scan,
            body=body,
            num_scan_inputs=num_scan_inputs,
            run=run,
            scan_input_directions=directions,
        )
        results = [one(*(v[i] for v in rest)) for i in range(rest[0].shape[0])]
        return tuple(jnp.stack(list(rows)) for rows in zip(*results))
    states = len(values) - num_scan_inputs
    carries = tuple(map(jnp.asarray, values[:states]))
    axes = scan_input_axes or (0,) * num_scan_inputs
    ways = scan_input_directions or (0,) * num_scan_inputs
    rows = tuple(
        jnp.flip(moved, 0) if way else moved
        for moved, way in zip(
            (jnp.moveaxis(jnp.asarray(v), a, 0) for v, a in zip(values[states:], axes)), ways
        )
    )

    def step(carry: Any, row: Any) -> Any:
        out = run(body, [*carry, *row])
        new = tuple(jnp.asarray(v).astype(c.dtype) for v, c in zip(out, carry))
        return new, tuple(map(jnp.asarray, out[states:]))

    last, made = lax.scan(step, carries, rows)
    axes, ways = scan_output_axes or (0,) * len(made), scan_output_directions or (0,) * len(made)
    return (
        *last,
        *(jnp.moveaxis(jnp.flip(v, 0) if way else v, 0, a) for v, a, way in zip(made, axes, ways)),
    )


def SequenceEmpty(dtype: int = 1) -> Value:
    """A sequence without elements."""
    return []


def SequenceConstruct(*values: Value) -> Value:
    """A sequence of arrays."""
    return list(values)


def SequenceInsert(sequence: Value, value: Value, position: Value = None) -> Value:
    """A sequence with one more array."""
    at = len(sequence) if position is None else integers(position, "a position")[0]
    at = at + len(sequence) if at < 0 else at
    return [*sequence[:at], value, *sequence[at:]]


def SequenceErase(sequence: Value, position: Value = None) -> Value:
    """A sequence with one array less."""
    at = (len(sequence) - 1 if position is None else integers(position, "a position")[0]) % len(
        sequence
    )
    return [*sequence[:at], *sequence[at + 1 :]]


def SequenceAt(sequence: Value, position: Value) -> Value:
    """An array of a sequence."""
    return sequence[integers(position, "a position")[0]]


def SequenceLength(sequence: Value) -> Value:
    """The number of arrays of a sequence."""
    return np.array(len(sequence), np.int64)


def SequenceMap(sequence: Value, *others: Value, body: Graph, run: Run) -> Value:
    """A graph for each array of a sequence."""
    results = [
        run(body, [value, *(o[i] if isinstance(o, list) else o for o in others)])
        for i, value in enumerate(sequence)
    ]
    return tuple([r[i] for r in results] for i in range(len(body.outputs)))


def ConcatFromSequence(sequence: Value, axis: int, new_axis: int = 0) -> Value:
    """The arrays of a sequence as one."""
    xp = library(*sequence)
    return (xp.stack if new_axis else xp.concatenate)(sequence, axis)


def SplitToSequence(x: Value, split: Value = None, axis: int = 0, keepdims: int = 1) -> Value:
    """The parts of an array as a sequence."""
    n = x.shape[axis]
    if split is None:
        sizes = (1,) * n
    else:
        sizes = integers(split, "sizes")
        if np.ndim(split) == 0:
            each = sizes[0]
            sizes = tuple(min(each, n - i) for i in range(0, n, each))
    parts = library(x).split(x, np.cumsum(sizes)[:-1].tolist(), axis)
    squeezed = split is None and not keepdims
    return [library(p).squeeze(p, axis) for p in parts] if squeezed else list(parts)


def Optional(value: Value = None, type: Any = None) -> Value:
    """A value, or none."""
    return value


def OptionalHasElement(value: Value = None) -> Value:
    """Whether there is a value."""
    return np.array(value is not None)


def OptionalGetElement(value: Value) -> Value:
    """The value that is there."""
    return value


def Constant(**given: Any) -> Value:
    """The value of an attribute."""
    (name, value), *_ = given.items()
    if name in ("value", "sparse_value"):
        return value
    return np.asarray(
        value, {"value_float": np.float32, "value_floats": np.float32}.get(name, np.int64)
    )


# fmt: off
OPS: dict[str, Callable[..., Any]] = {
    "If": If, "Loop": Loop, "Scan": Scan, "SequenceEmpty": SequenceEmpty,
    "SequenceConstruct": SequenceConstruct, "SequenceInsert": SequenceInsert,
    "SequenceErase": SequenceErase, "SequenceAt": SequenceAt, "SequenceLength": SequenceLength,
    "SequenceMap": SequenceMap, "ConcatFromSequence": ConcatFromSequence,
    "SplitToSequence": SplitToSequence, "Optional": Optional,
    "OptionalHasElement": OptionalHasElement,
    "OptionalGetElement": OptionalGetElement, "Constant": Constant,
}
# fmt: on
