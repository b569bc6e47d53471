"""User-defined batching: `custom_vmap`, and `sequential_vmap`, which is one lane after another."""

from __future__ import annotations

from typing import Any

from tfn import tree
from tfn.lax import map as lax_map
from tfn.transforms.arguments import Function
from tfn.transforms.custom_vmap import custom_vmap as custom_vmap


def sequential_vmap(f: Function) -> Any:
    """A function that `vmap` maps by a loop, one lane after another.

    For functions that would need too much memory in all lanes at once, and those with a
    ``while_loop`` whose lanes end at different times.

    Args:
        f: a function of arguments that have a position.

    Returns:
        The function, as a `custom_vmap`.

    Example:
        >>> import tfn
        >>> import tfn.numpy as tnp
        >>> @sequential_vmap
        ... def halvings(x):
        ...     count = lambda state: (state[0] / 2, state[1] + 1)
        ...     return tfn.lax.while_loop(lambda state: state[0] > 1, count, (x, 0))[1]
        >>> tfn.vmap(halvings)(tnp.array([1.0, 8.0, 1000.0])).tolist()
        [0, 3, 10]
    """
    function = custom_vmap(f)

    @function.def_vmap
    def rule(axis_size: int, in_batched: Any, *args: Any) -> Any:
        leaves, structure = tree.flatten(args)
        flags = tree.leaves(in_batched)
        mapped = [x for x, many in zip(leaves, flags, strict=True) if many]

        def one(lane: Any) -> Any:
            of_lane = iter(lane)
            values = [next(of_lane) if many else x for x, many in zip(leaves, flags, strict=True)]
            return function(*tree.unflatten(structure, values))

        out = lax_map(one, mapped)
        return out, tree.map(lambda y: True, out)

    return function
