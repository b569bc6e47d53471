"""Less memory for more time: `checkpoint`, its policies, `checkpoint_name`.

Of a checkpointed function reverse mode keeps the operands, and what a policy asks to keep; all
else is computed again when the cotangents have arrived::

    y = custom[f] x              forward: nothing is kept but x
    dy = linear[f] x, s, dx      s: the values that the policy saves
    x' = after x, ct             backward: f runs again on x', and is transposed

``after`` tells the second run from the first, so that they are never merged, and from the compiler
that it must not begin before ``ct`` exists.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, overload

from tfn import tree
from tfn._support.frozen import frozen
from tfn._support.validate import a_function, shown
from tfn.errors import ArgumentError
from tfn.trace import bind
from tfn.trace.argument import Linear
from tfn.trace.build import after, several
from tfn.trace.inline import unfold
from tfn.trace.jaxpr import Jaxpr, inline
from tfn.trace.op import SEVERAL, Op
from tfn.trace.uop import UOp, rebuild, substitute, walk
from tfn.transforms import custom_rules
from tfn.transforms.arguments import Argnums, P, R, argument_names, as_value, name_of
from tfn.transforms.body import VIEWS, closed, depending, fresh, opened, thinned
from tfn.transforms.checkpoint_policies import (
    Named,
    Policy,
    everything_saveable,
    nothing_saveable,
)
from tfn.transforms.custom import custom, enclosed
from tfn.transforms.custom_rules import Lane, Tangents, through
from tfn.transforms.scan_rules import Pull, Push
from tfn.transforms.static_args import Names, Selection
from tfn.transforms.tracing import record


@frozen
class Checkpoint:
    """The rules of a checkpointed function.

    Attributes:
        policy: which of its values are kept.
        prevent_cse: whether the second run is told from the first.
        other: a function that computes the same, to be differentiated in its place.
    """

    policy: Policy
    prevent_cse: bool = True
    other: UOp | None = None

    def lanes(self, lane: Lane) -> Checkpoint:
        """The same: it does not depend on how many lanes there are."""
        return self if self.other is None else replace(self, other=lane.wide(self.other))

    def transpose(self, pull: Pull, u: UOp, cts: Tangents, moving: Sequence[int]) -> Tangents:
        """As it is written."""
        return through(pull, u, cts, moving)

    def jvp(self, push: Push, u: UOp, tangents: Tangents) -> Tangents:
        """The tangents as one linear function of operands, saved values and tangents."""
        inputs, outputs = opened(self.other or u.src[0])
        operands = dict(zip(inputs, u.src[1:], strict=True))
        given = {x: dx for x, dx in zip(inputs, tangents[1:], strict=True) if dx is not None}
        directions = {x: fresh(x) for x in given}
        slopes = push(outputs, directions)
        graphs = [dy for dy in slopes if dy is not None]
        if self.policy is everything_saveable:
            actual = operands | {directions[x]: dx for x, dx in given.items()}
            plain = iter(substitute(graphs, actual))
            return [None if dy is None else next(plain) for dy in slopes]
        saved = self._saved(graphs, inputs, list(directions.values()))
        used = set(walk(graphs, lambda node: node not in saved))
        kept = {u: fresh(u) for u in thinned([u for u in saved if u in used], inputs)}
        lean = substitute(graphs, kept)
        used = set(walk(lean))
        needed = [x for x in inputs if x in used]
        residuals = [operands[x] for x in needed] + substitute(kept, operands)
        again = closed(lean, [*needed, *kept.values(), *directions.values()])
        arg = Linear(
            u.arg.name,
            len(residuals),
            tuple((g.shape, g.dtype) for g in graphs),
            Again(again, self.prevent_cse),
        )
        made = iter(several(UOp(Op.LINEAR, (*residuals, *given.values()), arg)))
        return [None if dy is None else next(made) for dy in slopes]

    def _saved(
        self, graphs: Sequence[UOp], inputs: Sequence[UOp], directions: Sequence[UOp]
    ) -> dict[UOp, None]:
        """What the policy keeps of the values that the tangents are made from."""
        linear, moving = depending(graphs, directions), depending(graphs, inputs)
        return dict.fromkeys(
            node
            for node in moving
            if node not in linear
            and node not in inputs
            and node.op not in SEVERAL  # the values that can be kept are its GETs
            and self.policy(node)
        )


@frozen
class Again:
    """The rules of a linear function whose residuals are computed once more.

    Attributes:
        function: of residuals and tangents.
        apart: whether this is told from the first time.
    """

    function: UOp
    apart: bool

    def forward(self, pull: Pull, u: UOp) -> list[UOp]:
        """The tangents as they are written; nothing is computed twice."""
        inputs, outputs = opened(self.function)
        graphs = unfold(outputs, {Op.LINEAR: functools.partial(custom_rules.forward, pull)})
        return substitute(graphs, dict(zip(inputs, u.src, strict=True)))

    def transpose(self, pull: Pull, u: UOp, cts: Tangents, moving: Sequence[int]) -> Tangents:
        """The cotangents of the tangents, from residuals read when the cotangents are there."""
        arrived = [ct for ct in cts if ct is not None and ct.op is not Op.CONST]
        kept = u.src[: u.arg.residuals]
        held = [_later(x, arrived) for x in kept] if self.apart else list(kept)
        directions = [fresh(dx) for dx in u.src[u.arg.residuals :]]
        graphs = inline(Jaxpr(self.function), [*held, *directions])
        return pull(graphs, [directions[i - u.arg.residuals] for i in moving], cts)


def _later(x: UOp, others: Sequence[UOp]) -> UOp:
    """A residual read late; of a view, what is viewed."""
    if x.op in VIEWS:
        return rebuild(x, tuple([_later(s, others) for s in x.src]))
    return x if x.op in (Op.CONST, Op.IOTA) else after(x, others)


def checkpoint_name(x: R, name: str) -> R:
    """The same values, with a name by which policies know them.  `x` may be nested.

    Example:
        >>> float(checkpoint_name(2.0, "hidden"))
        2.0
    """
    if not isinstance(name, str):
        raise ArgumentError(
            "checkpoint_name needs a string as name",
            got=f"name={shown(name)}",
            hint='write the name that the policy will ask for: "hidden"',
        )

    def label(leaf: Any) -> Any:
        value = bind.face().asarray(leaf)
        if value.trace is None:
            return value
        x = fresh(value)
        (named,) = custom(name, closed([x], [x]), [value], Named(), [value.weak_type])
        return named

    labelled: R = tree.map(label, x)
    return labelled


@overload
def checkpoint(
    fun: Callable[P, R],
    *,
    prevent_cse: bool = True,
    policy: Policy | None = None,
    static_argnums: Argnums = (),
    static_argnames: Names = (),
    concrete: bool = False,
) -> Callable[P, R]: ...


@overload
def checkpoint(
    fun: None = None,
    *,
    prevent_cse: bool = True,
    policy: Policy | None = None,
    static_argnums: Argnums = (),
    static_argnames: Names = (),
    concrete: bool = False,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def checkpoint(
    fun: Callable[P, R] | None = None,
    *,
    prevent_cse: bool = True,
    policy: Policy | None = None,
    static_argnums: Argnums = (),
    static_argnames: Names = (),
    concrete: bool = False,
) -> Callable[P, R] | Callable[[Callable[P, R]], Callable[P, R]]:
    """Let reverse mode compute a function a second time instead of keeping its values.

    Usable as ``@checkpoint``, ``@checkpoint(policy=...)`` and ``checkpoint(f, ...)``; `remat` is
    another name for it.  Values and derivatives stay the same.

    Args:
        prevent_cse: whether the second run must be told from the first; without, a compiler may
            merge them, except in the body of a loop, where there is nothing to merge.
        policy: which values are kept nevertheless; see `checkpoint_policies`.  None keeps none.
        static_argnums, static_argnames: arguments that are Python values.
        concrete: accepted; values that are known can be looked at in any case.

    Example:
        >>> import tfn
        >>> f = tfn.checkpoint(lambda x: tfn.numpy.sin(tfn.numpy.sin(x)))
        >>> round(float(tfn.grad(f)(1.0)), 4)
        0.36
    """
    if fun is None:
        return lambda f: checkpoint(
            f,
            prevent_cse=prevent_cse,
            policy=policy,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
        )
    if not callable(fun):
        a_function("checkpoint", "fun", fun)
    if policy is not None:
        a_function("checkpoint", "policy", policy)
    own = Checkpoint(policy or nothing_saveable, prevent_cse)
    static = Selection.of(fun, "static", static_argnums, static_argnames)

    @functools.wraps(fun)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        split = static.split(fun, args, kwargs)
        flat, structure = tree.flatten(split.dynamic)
        names = argument_names(fun, structure, split.positions)
        values = [as_value(x, name) for x, name in zip(flat, names, strict=True)]
        if bind.innermost(values) is None:
            return fun(*args, **kwargs)

        def call(xs: Sequence[Any]) -> Any:
            new_args, new_kwargs = split.join(tree.unflatten(structure, xs))
            return fun(*new_args, **new_kwargs)

        recorded = record("checkpoint", fun, call, values, names)
        f, before, acts = enclosed(recorded)
        found = custom(name_of(fun), f, [*before, *values], own, recorded.weak, acts)
        result: R = tree.unflatten(recorded.structure, found)
        return result

    return run


remat = checkpoint
