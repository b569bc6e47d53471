"""Constraints on the division of values among devices."""

from __future__ import annotations

from typing import TypeVar

from tfn.eager.shards import constrain_value
from tfn.eager.transfer import put_tree

T = TypeVar("T")


def with_sharding_constraint(x: T, shardings: object) -> T:
    """The same values, divided as shardings say: the compiler divides everything else around them.

    Within `jit` any size can be divided: parts are padded, and no result shows it.  Outside of it
    arrays are brought to the devices, and an axis whose size does not divide stays whole.

    Args:
        x: a tree of arrays.
        shardings: a `NamedSharding`, or a `PartitionSpec` of the mesh that is set, whose
            UNCONSTRAINED axes are left to the compiler: one for all, or a tree of them that begins
            like `x`; None leaves an array as it is.

    Raises:
        ShapeError: if a spec has more entries than an array axes.
        ArgumentError: for a spec without a mesh.

    Example:
        >>> import tfn, tfn.numpy as tnp
        >>> rows = tfn.NamedSharding(tfn.make_mesh((1,), "x"), tfn.P("x"))
        >>> y = tfn.jit(lambda x: with_sharding_constraint(2 * x, rows))(tnp.ones(2))
        >>> y.sharding.is_equivalent_to(rows, y.ndim)
        True
    """
    if shardings is None:
        return x
    result: T = put_tree("with_sharding_constraint", x, shardings, constrain_value)
    return result
