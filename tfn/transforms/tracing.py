"""Tracing: a user's function is run once on fresh leaves, the first step of every transform.

`record` gives the graphs of the results over the leaves of the inputs; the transforms then work
on graphs alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tfn import tree
from tfn._support.frozen import frozen
from tfn.errors import ArgumentError, TfnError
from tfn.trace import bind, traces
from tfn.trace.uop import UOp
from tfn.transforms import shard
from tfn.transforms.arguments import Function, name_of, results, where
from tfn.transforms.shard import layout, vary


@frozen
class Recording:
    """The graph of a function: its inputs, results and effects.

    Attributes:
        trace: the trace, which has ended.
        inputs: the leaves it ran on.
        outputs: the graphs of its results.
        weak: which results have a weak dtype.
        structure: of the results.
        aux: the leaves of what it returned beside the results, and their structure.
    """

    trace: traces.Trace
    inputs: list[UOp]
    outputs: list[UOp]
    weak: list[bool]
    structure: tree.Structure
    aux: tuple[list[Any], tree.Structure]

    def evaluate(self, *groups: Sequence[UOp], weak: Sequence[bool] = ()) -> list[list[Any]]:
        """The values of several lists of graphs, computed together; `weak` is for all of them."""
        flat = iter(bind.evaluate([u for group in groups for u in group], self.trace, weak))
        return [[next(flat) for _ in group] for group in groups]

    def layout_of(self, u: UOp) -> layout.Layout | None:
        """The division of a value over explicit axes of a mesh."""
        if not traces.LAYOUTS.exist:
            return None
        found: layout.Layout | None = shard.layout_rules.Reading(self.trace.layouts).of(u)
        return found

    @property
    def cells(self) -> tuple[traces.Cell, ...]:
        """The state that it uses: `before` are its values as inputs, `after` as outputs."""
        return tuple(self.trace.cells)

    @property
    def before(self) -> list[UOp]:
        """The leaves of the state that it begins with."""
        return [first for first, _ in self.trace.cells.values()]

    @property
    def after(self) -> list[UOp]:
        """The graphs of the state that it ends with."""
        return [last for _, last in self.trace.cells.values()]

    @property
    def traced_aux(self) -> list[UOp]:
        """The graphs among the leaves of aux."""
        return [leaf.uop for leaf in self.aux[0] if self._owns(leaf)]

    def fill_aux(self, values: Sequence[object]) -> Any:
        """Aux with its graphs replaced by their values."""
        flat, structure = self.aux
        new = iter(values)
        return tree.unflatten(structure, [next(new) if self._owns(x) else x for x in flat])

    def _owns(self, leaf: object) -> bool:
        return getattr(leaf, "owner", None) is self.trace


def record(
    what: str,
    function: Function,
    call: Callable[[list[Any]], object],
    values: Sequence[Any],
    names: Sequence[str] = (),
    known: bool = True,
    has_aux: bool = False,
    branch: bool = False,
    apart: bool = False,
) -> Recording:
    """Run ``call`` on a leaf for each of `values`, of which only shape, dtype and weakness count.

    `what` is the transform, for the note that an error of tfn gets on its way through.  With
    `known`, the leaves have the values, so that Python may use them.  A `branch` records
    operations on values of outer traces too, and a trace `apart` those on concrete arrays as well.

    Raises:
        ArgumentError: for results that are not arrays, or without the pair that aux needs.
    """
    names = names or ("",) * len(values)
    with traces.tracing(name_of(function), branch, known, apart) as trace:
        leaves = [
            bind.new_leaf(trace, v.shape, v.dtype, name, v if known else None, v.weak_type)
            for v, name in zip(values, names, strict=True)
        ]
        if vary.is_checked():
            for leaf, v in zip(leaves, values, strict=True):
                leaf.uop.arg.varying = vary.of(v)
        if traces.LAYOUTS.exist:
            for leaf, v in zip(leaves, values, strict=True):
                trace.layouts[leaf.uop] = leaf.uop.arg.layout = layout.of(v)
        try:
            out: Any = call(leaves)
        except TfnError as error:
            error.add_note(f"  while: {what} traced {where(function)}")
            raise
        aux: Any = None
        if has_aux:
            if not isinstance(out, (tuple, list)) or len(out) != 2:
                raise ArgumentError(
                    f"with has_aux=True, {name_of(function)} must return a pair (result, aux)",
                    got=type(out).__name__,
                    hint="return (result, aux), or leave has_aux out",
                )
            out, aux = out
        values_out, structure = results(out, function)
        outputs = [bind.lift(value, trace) for value in values_out]
        if vary.is_checked():
            outputs = vary.aligned(outputs, trace)
    return Recording(
        trace,
        [leaf.uop for leaf in leaves],
        outputs,
        [v.weak_type for v in values_out],
        structure,
        tree.flatten(aux),
    )
