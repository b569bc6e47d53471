"""Rematerialisation (gradient checkpointing): `checkpoint`, `checkpoint_name`.

Reverse mode stores the operands of a checkpointed function, and the values that a policy selects;
all others are recomputed when the cotangents have arrived::

    y = custom[f] x              forward: nothing is stored but x
    dy = linear[f] x, s, dx      s: the values that the policy saves
    x' = after x, ct             backward: f runs again on x', and is transposed

``after`` makes the second run differ from the first, so that common-subexpression elimination does
not merge them, and orders it after ``ct``, so that its values do not live longer than needed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, overload

from tfn import tree
from tfn._support.frozen import frozen
from tfn._support.validate import a_function, shown
from tfn.errors import ArgumentError
from tfn.trace import bind, refs, runtime
from tfn.trace.argument import Linear
from tfn.trace.build import after, several
from tfn.trace.inline import unfold
from tfn.trace.jaxpr import Jaxpr, inline
from tfn.trace.op import SEVERAL, Op
from tfn.trace.uop import UOp, rebuild, substitute, walk
from tfn.transforms import custom_rules
from tfn.transforms.arguments import (
    Argnums,
    Function,
    P,
    R,
    argument_names,
    as_value,
    name_of,
    wraps,
)
from tfn.transforms.body import VIEWS, Lanes, closed, depending, fresh, opened, rematerialised
from tfn.transforms.checkpoint_policies import Named, Policy, everything_saveable, nothing_saveable
from tfn.transforms.custom import custom, enclosed
from tfn.transforms.custom_rules import Lane, Tangents, lanes, through
from tfn.transforms.scan_rules import Batch, Pull, Push
from tfn.transforms.static_args import Names, Selection
from tfn.transforms.tracing import record

STRATEGIES = ("as written", "nothing", "each loop")
"""Alternatives to a program's own checkpoints, for those who compare: none of them; or the body of
each loop, too."""

_STRATEGY: ContextVar[str] = ContextVar("checkpointing", default=STRATEGIES[0])


@contextmanager
def checkpointing(strategy: str) -> Iterator[None]:
    """Lets functions that are traced in the block be checkpointed in another way than written.

    Args:
        strategy: one of `STRATEGIES`.
    """
    assert strategy in STRATEGIES
    token = _STRATEGY.set(strategy)
    try:
        yield
    finally:
        _STRATEGY.reset(token)


def each_loop() -> bool:
    """Whether the bodies of loops are to be checkpointed."""
    return _STRATEGY.get() == "each loop"


@frozen
class Checkpoint:
    """The rules of a checkpointed function.

    Attributes:
        policy: selects the values that are stored.
        prevent_cse: whether the second run must not be merged with the first.
        other: a function that computes the same, to be differentiated in its place.
    """

    policy: Policy
    prevent_cse: bool = True
    other: UOp | None = None

    def batched(
        self, batch: Batch, u: UOp, src: Sequence[UOp], mapped: Sequence[bool], size: int
    ) -> list[Lanes]:
        """The same rules: they do not depend on the number of lanes."""
        return lanes(batch, u, src, mapped, size, self._of)

    def _of(self, lane: Lane) -> Checkpoint:
        return self if self.other is None else replace(self, other=lane.wide(self.other))

    transpose = staticmethod(through)

    def jvp(self, push: Push, u: UOp, tangents: Tangents) -> Tangents:
        """The tangents as one linear function of operands, saved values and tangents."""
        inputs, outputs = opened(self.other or u.src[0])
        operands = dict(zip(inputs, u.src[1:], strict=True))
        tangent_of = {x: dx for x, dx in zip(inputs, tangents[1:], strict=True) if dx is not None}
        directions = {x: fresh(x) for x in tangent_of}
        slopes = push(outputs, directions)
        graphs = [dy for dy in slopes if dy is not None]
        if self.policy is everything_saveable or _STRATEGY.get() == "nothing":
            actual = operands | {directions[x]: dx for x, dx in tangent_of.items()}
            plain = iter(substitute(graphs, actual))
            return [None if dy is None else next(plain) for dy in slopes]
        saved = self._saved(graphs, inputs, list(directions.values()))
        used = set(walk(graphs, lambda node: node not in saved))
        stored = {u: fresh(u) for u in rematerialised([u for u in saved if u in used], inputs)}
        lean = substitute(graphs, stored)
        used = set(walk(lean))
        needed = [x for x in inputs if x in used]
        residuals = [operands[x] for x in needed] + substitute(stored, operands)
        recomputed = closed(lean, [*needed, *stored.values(), *directions.values()])
        arg = Linear(
            u.arg.name,
            len(residuals),
            tuple((g.shape, g.dtype) for g in graphs),
            Recomputed(recomputed, self.prevent_cse),
        )
        results = iter(several(UOp(Op.LINEAR, (*residuals, *tangent_of.values()), arg)))
        return [None if dy is None else next(results) for dy in slopes]

    def _saved(
        self, graphs: Sequence[UOp], inputs: Sequence[UOp], directions: Sequence[UOp]
    ) -> dict[UOp, None]:
        """The values that the tangents are computed from and that the policy selects."""
        linear, differentiated = depending(graphs, directions), depending(graphs, inputs)
        return dict.fromkeys(
            node
            for node in differentiated
            if node not in linear
            and node not in inputs
            and node.op not in SEVERAL  # its values are the GETs
            and self.policy(node)
        )


@frozen
class Recomputed:
    """The rules of a linear function whose residuals are recomputed in the backward pass.

    Attributes:
        function: of residuals and tangents.
        prevent_cse: whether this must not be merged with the first computation.
    """

    function: UOp
    prevent_cse: bool

    def forward(self, pull: Pull, u: UOp) -> list[UOp]:
        """The tangents themselves; nothing is computed twice."""
        inputs, outputs = opened(self.function)
        graphs = unfold(outputs, {Op.LINEAR: functools.partial(custom_rules.forward, pull)})
        return substitute(graphs, dict(zip(inputs, u.src, strict=True)))

    def transpose(
        self, pull: Pull, u: UOp, cts: Tangents, differentiated: Sequence[int]
    ) -> Tangents:
        """The cotangents of the tangents, from residuals recomputed once the cotangents exist."""
        arrived = [ct for ct in cts if ct is not None and ct.op is not Op.CONST]
        stored = u.src[: u.arg.residuals]
        late = [_later(x, arrived) for x in stored] if self.prevent_cse else list(stored)
        directions = [fresh(dx) for dx in u.src[u.arg.residuals :]]
        graphs = inline(Jaxpr(self.function), [*late, *directions])
        return pull(graphs, [directions[i - u.arg.residuals] for i in differentiated], cts)


def _later(x: UOp, others: Sequence[UOp]) -> UOp:
    """A residual, ordered after other nodes; of a view, its source is."""
    if x.op in VIEWS:
        return rebuild(x, tuple([_later(s, others) for s in x.src]))
    return x if x.op in (Op.CONST, Op.IOTA) else after(x, others)


def checkpoint_name(x: R, name: str) -> R:
    """The same values, with a name that policies select by.  `x` may be nested.

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

    def label(leaf: object) -> Any:
        value = runtime.installed().asarray(leaf)
        if value.owner is None:
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
        prevent_cse: whether the second run must not be merged with the first by the compiler; in
            the body of a loop there is nothing to merge, and False is as good.
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
    function: Function = fun
    own = Checkpoint(policy or nothing_saveable, prevent_cse)
    static = Selection.of(fun, "static", static_argnums, static_argnames)

    @wraps(fun)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        split = static.split(fun, args, kwargs, hashed=False)
        flat, structure = refs.flatten(split.dynamic)
        names = argument_names(fun, structure, split.positions)
        values = [as_value(x, name) for x, name in zip(flat, names, strict=True)]
        if bind.innermost(values) is None:
            return fun(*args, **kwargs)

        def call(xs: Sequence[Any]) -> Any:
            new_args, new_kwargs = split.join(tree.unflatten(structure, xs))
            return function(*new_args, **new_kwargs)

        recorded = record("checkpoint", fun, call, values, names)
        f, before = enclosed(recorded)
        results = custom(name_of(fun), f, [*before, *values], own, recorded.weak, recorded.cells)
        result: R = tree.unflatten(recorded.structure, results)
        return result

    return run


remat = checkpoint
