"""Checkpoint policies: the values that a checkpointed function stores for the backward pass.

A policy is called with each node of the function that the backward pass depends on, and returns
whether its value may be stored.  Any function from a `UOp` to a bool is a policy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfn._support.frozen import frozen
from tfn._support.validate import shown
from tfn.errors import ArgumentError
from tfn.trace.argument import Custom
from tfn.trace.op import Op
from tfn.trace.uop import UOp
from tfn.transforms.body import Lanes
from tfn.transforms.custom_rules import Tangents, lanes, through
from tfn.transforms.scan_rules import Batch, Push

Policy = Callable[[UOp], bool]


def everything_saveable(node: UOp) -> bool:
    """Keep everything: as if there were no checkpoint."""
    return True


def nothing_saveable(node: UOp) -> bool:
    """Keep the operands alone."""
    return False


def dots_saveable(node: UOp) -> bool:
    """Keep the results of matrix products."""
    return node.op is Op.DOT


def dots_with_no_batch_dims_saveable(node: UOp) -> bool:
    """Keep the results of matrix products that are not batched: those of weights, mostly."""
    return node.op is Op.DOT and not node.arg.batch_a


@frozen
class _ByName:
    """A policy by name: for listed names, for unlisted ones, and for values without a name."""

    names: frozenset[str]
    listed: bool
    unlisted: bool
    others: bool

    def __call__(self, node: UOp) -> bool:
        name = name_given(node)
        if name is None:
            return self.others
        return self.listed if name in self.names else self.unlisted


def _texts(policy: str, names: tuple[str, ...]) -> frozenset[str]:
    """Names of values, which are texts."""
    for name in names:
        if not isinstance(name, str):
            raise ArgumentError(
                f"{policy} takes names", got=shown(name), hint="those that checkpoint_name gives"
            )
    return frozenset(names)


def save_only_these_names(*names: str) -> Policy:
    """Keep the values with these names."""
    texts = _texts("save_only_these_names", names)
    return _ByName(texts, listed=True, unlisted=False, others=False)


def save_any_names_but_these(*names: str) -> Policy:
    """Keep the values with a name, but for these."""
    texts = _texts("save_any_names_but_these", names)
    return _ByName(texts, listed=False, unlisted=True, others=False)


def save_anything_except_these_names(*names: str) -> Policy:
    """Keep everything but the values with these names."""
    texts = _texts("save_anything_except_these_names", names)
    return _ByName(texts, listed=False, unlisted=True, others=True)


@frozen
class _Either:
    policies: tuple[Policy, ...]

    def __call__(self, node: UOp) -> bool:
        return any(policy(node) for policy in self.policies)


def save_from_both_policies(*policies: Policy) -> Policy:
    """Keep the values that at least one of the policies keeps."""
    return _Either(policies)


checkpoint_dots = dots_saveable
checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable


@frozen
class Named:
    """The rules of a value with a name: the identity."""

    def batched(
        self, batch: Batch, u: UOp, src: Sequence[UOp], mapped: Sequence[bool], size: int
    ) -> list[Lanes]:
        """The same name for all lanes."""
        return lanes(batch, u, src, mapped, size, lambda lane: self)

    transpose = staticmethod(through)

    def jvp(self, push: Push, u: UOp, tangents: Tangents) -> Tangents:
        """The tangents as they are."""
        return tangents[1:]


def name_given(node: UOp) -> str | None:
    """The name that `checkpoint_name` gave to a value, if any."""
    whole = node.src[0] if node.op is Op.GET else node
    if whole.op is Op.CUSTOM and isinstance(whole.arg.rules, Named):
        arg: Custom = whole.arg
        return arg.name
    return None
