"""Collectives: exchanges of values along named axes, of `vmap` or of a mesh of devices.

They are meant for functions that run on many devices, or in many lanes of `vmap`: each has a value
of its own under the same name.  In the Examples lanes are rows of the arrays.
"""

from __future__ import annotations

from typing import Any

from tfn import tree
from tfn._support.validate import integer, integers, one_of, shown
from tfn.array import Array
from tfn.dtypes import BOOL, INT32
from tfn.eager.arrays import weaken
from tfn.eager.operands import array_of, need_real, one_axis, scalar_kind
from tfn.errors import ArgumentError
from tfn.lax import exchanges
from tfn.trace.op import Op
from tfn.trace.sharding import Exchange


def axis_index(axis_name: object) -> Array:
    """The index of this device, or lane, along named axes: int32[].

    Args:
        axis_name: the name of an axis, or a tuple of names, the major one first.

    Raises:
        AxisNameError: for a name that no axis has here, or the same twice.

    Example:
        >>> import tfn, tfn.numpy as tnp
        >>> tfn.vmap(lambda x: x + 10 * axis_index("i"), axis_name="i")(tnp.array([5, 6])).tolist()
        [5, 16]
    """
    axes = exchanges.named("axis_index", axis_name)
    if not axes:
        return array_of("axis_index", 0)
    index: Array = axes[0].index
    for a in axes[1:]:
        index = index * a.axis.size + a.index
    return index


def axis_size(axis_name: object) -> int:
    """The number of devices, or lanes, along named axes: a Python integer.

    Args:
        axis_name: the name of an axis, or a tuple of names, whose sizes are multiplied.

    Raises:
        AxisNameError: for a name that no axis has here, or the same twice.

    Example:
        >>> import tfn, tfn.numpy as tnp
        >>> tfn.vmap(lambda x: x * axis_size("i"), axis_name="i")(tnp.array([5, 6])).tolist()
        [10, 12]
    """
    return exchanges.count(exchanges.named("axis_size", axis_name))


# Reductions.


def psum(x: Any, axis_name: object, *, axis_index_groups: object = None) -> Any:
    """Sum over named axes; each device, or lane, gets it.

    Args:
        x: an array of any shape, or a tree of them; booleans are summed as int32.  The sum of a
            Python number is a Python number, so that ``psum(1, name)`` is the size of the axis.
        axis_name: the name of an axis, or a tuple of names.
        axis_index_groups: lists of indices along the axis, all of one length, that have each index
            once; the sum is taken within each list.

    Raises:
        AxisNameError: for a name that no axis has here, or the same twice.
        ArgumentError: for groups that do not divide the axis into equal parts.

    Example:
        >>> import tfn, tfn.numpy as tnp
        >>> tfn.vmap(lambda x: x / psum(x, "i"), axis_name="i")(tnp.array([1.0, 3.0])).tolist()
        [0.25, 0.75]
    """
    axes = exchanges.named("psum", axis_name)
    n = exchanges.count(axes, exchanges.checked_groups("psum", axes, axis_index_groups))

    def one(leaf: Any) -> Any:
        if type(leaf) is not bool and scalar_kind(leaf) is not None:
            return leaf * n
        value = array_of("psum", leaf)
        value = value.astype(INT32) if value.dtype == BOOL else value
        if value.owner is None:  # it is the same on all devices
            return weaken(value * n, False)
        return weaken(_reduced("psum", Op.ADD, value, axis_name, axis_index_groups), False)

    return tree.map(one, x)


def pmean(x: Any, axis_name: object, *, axis_index_groups: object = None) -> Any:
    """Mean over named axes; each device, or lane, gets it.

    Args:
        x: an array of any shape, or a tree of them; the mean of integers is a float.
        axis_name: the name of an axis, or a tuple of names.
        axis_index_groups: lists of indices along the axis; see `psum`.

    Raises:
        AxisNameError: for a name that no axis has here, or the same twice.
        ArgumentError: for groups that do not divide the axis into equal parts.

    Example:
        >>> import tfn, tfn.numpy as tnp
        >>> tfn.vmap(lambda x: x - pmean(x, "i"), axis_name="i")(tnp.array([1.0, 3.0])).tolist()
        [-1.0, 1.0]
    """
    axes = exchanges.named("pmean", axis_name)
    n = exchanges.count(axes, exchanges.checked_groups("pmean", axes, axis_index_groups))
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)
    return tree.map(lambda leaf: leaf / n, total)


def pmax(x: Any, axis_name: object, *, axis_index_groups: object = None) -> Any:
    """Largest value over named axes, NaN if there is one; each device, or lane, gets it.

    Its derivative goes to the largest values, in equal parts if there are several.

    Args:
        x: an array of any shape, or a tree of them; of booleans it is whether any is true.
        axis_name: the name of an axis, or a tuple of names.
        axis_index_groups: lists of indices along the axis; see `psum`.

    Raises:
        AxisNameError: for a name that no axis has here, or the same twice.
        ArgumentError: for groups that do not divide the axis into equal parts.
        DTypeError: for complex numbers.

    Example:
        >>> import tfn, tfn.numpy as tnp
        >>> tfn.vmap(lambda x: x - pmax(x, "i"), axis_name="i")(tnp.array([1.0, 3.0])).tolist()
        [-2.0, 0.0]
    """
    return _reduced("pmax", Op.MAX, x, axis_name, axis_index_groups)


def pmin(x: Any, axis_name: object, *, axis_index_groups: object = None) -> Any:
    """Smallest value over named axes, NaN if there is one; each device, or lane, gets it.

    Its derivative goes to the smallest values, in equal parts if there are several.

    Args:
        x: an array of any shape, or a tree of them; of booleans it is whether all are true.
        axis_name: the name of an axis, or a tuple of names.
        axis_index_groups: lists of indices along the axis; see `psum`.

    Raises:
        AxisNameError: for a name that no axis has here, or the same twice.
        ArgumentError: for groups that do not divide the axis into equal parts.
        DTypeError: for complex numbers.

    Example:
        >>> import tfn, tfn.numpy as tnp
        >>> tfn.vmap(lambda x: x - pmin(x, "i"), axis_name="i")(tnp.array([1.0, 3.0])).tolist()
        [0.0, 2.0]
    """
    return _reduced("pmin", Op.MIN, x, axis_name, axis_index_groups)


def _reduced(what: str, op: Op, x: Any, axis_name: object, axis_index_groups: object) -> Any:
    axes = exchanges.named(what, axis_name)
    groups = exchanges.checked_groups(what, axes, axis_index_groups)
    if op is not Op.ADD:
        need_real(what, *tree.leaves(x))
    args = tuple(
        arg
        for a in axes
        for arg in exchanges.collectives(
            Exchange.REDUCE, [a], groups, op=op, invariant=a.checked and groups is None
        )
    )
    return exchanges.of_each(what, x, axes, exchanges.one_by_one, args)


def psum_scatter(
    x: Any,
    axis_name: object,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: object = None,
    tiled: bool = False,
) -> Any:
    """Sum over named axes, of which each device, or lane, gets one part: a reduce-scatter.

    Args:
        x: an array with an axis for the devices, or a tree of them; booleans are summed as int32.
        axis_name: the name of an axis of n devices, or a tuple of names.
        scatter_dimension: the axis of the sum that is divided.
        axis_index_groups: lists of n indices along the axis; see `psum`.
        tiled: whether the axis is divided into n parts; otherwise it has n elements, of which each
            device gets one, without the axis.

    Raises:
        AxisNameError: for a name that no axis has here, or the same twice.
        AxisError: for an axis that the arrays do not have.
        ShapeError: if the size of the axis is not n, or with `tiled` not a multiple of n.
        ArgumentError: for groups that do not divide the axis into equal parts.

    Example:
        >>> import tfn, tfn.numpy as tnp
        >>> x = tnp.array([[1, 2], [30, 40]])
        >>> tfn.vmap(lambda row: psum_scatter(row, "i"), axis_name="i")(x).tolist()
        [31, 42]
    """
    axes = exchanges.named("psum_scatter", axis_name)
    groups = exchanges.checked_groups("psum_scatter", axes, axis_index_groups)
    args = exchanges.collectives(Exchange.SCATTER, axes, groups)
    n = exchanges.count(axes, groups)

    def one(leaf: object) -> Any:
        value = array_of("psum_scatter", leaf)
        value = value.astype(INT32) if value.dtype == BOOL else value
        axis = one_axis("psum_scatter", scatter_dimension, value.ndim)
        exchanges.splits("psum_scatter", "scatter_dimension", axis, value.shape, n, tiled)
        return exchanges.of_each(
            "psum_scatter", value, axes, exchanges.scattered, args, axis, bool(tiled)
        )

    return tree.map(one, x)


# Exchanges without arithmetic.


def all_gather(
    x: Any,
    axis_name: object,
    *,
    axis_index_groups: object = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = "varying",
) -> Any:
    """The values of all devices, or lanes, for each of them.

    Args:
        x: an array of any shape, or a tree of them.
        axis_name: the name of an axis of n devices, or a tuple of names.
        axis_index_groups: lists of n indices along the axis; see `psum`.
        axis: of the result, where the values are.
        tiled: whether they are joined along an axis that exists; otherwise `axis` is a new axis of
            size n.
        to: "varying", or "invarying" for a result that is known to be the same on all devices,
            which is `all_gather_invariant`.

    Raises:
        AxisNameError: for a name that no axis has here, or the same twice.
        AxisError: for an axis that the arrays do not have.
        ArgumentError: for groups that do not divide the axis into equal parts.

    Example:
        >>> import tfn, tfn.numpy as tnp
        >>> tfn.vmap(lambda x: all_gather(x, "i"), axis_name="i")(tnp.array([5, 6])).tolist()
        [[5, 6], [5, 6]]
    """
    one_of("all_gather", "to", to, ("varying", "invarying"))
    if to == "invarying" and axis_index_groups is not None:
        raise ArgumentError(
            "all_gather within groups differs from group to group",
            got=f"to={to!r}, axis_index_groups={shown(axis_index_groups)}",
            hint="pass to='varying'",
        )
    return _gathered("all_gather", x, axis_name, axis_index_groups, axis, tiled, to == "invarying")


def all_gather_invariant(x: Any, axis_name: object, *, axis: int = 0, tiled: bool = False) -> Any:
    """`all_gather` whose result is known to be the same on all devices.

    It can leave `shard_map` as a replicated result, and its transpose is the own part of the
    cotangent; that of `all_gather` is `psum_scatter`.

    Args:
        x: an array of any shape, or a tree of them.
        axis_name: the name of an axis, or a tuple of names.
        axis, tiled: see `all_gather`.

    Raises:
        AxisNameError: for a name that no axis has here, or the same twice.
        AxisError: for an axis that the arrays do not have.

    Example:
        >>> import tfn, tfn.numpy as tnp
        >>> gather = lambda x: all_gather_invariant(x, "i")
        >>> tfn.vmap(gather, out_axes=None, axis_name="i")(tnp.array([5, 6])).tolist()
        [5, 6]
    """
    return _gathered("all_gather_invariant", x, axis_name, None, axis, tiled, True)


def _gathered(
    what: str, x: Any, axis_name: object, groups: object, axis: int, tiled: bool, invariant: bool
) -> Any:
    axes = exchanges.named(what, axis_name)
    checked = exchanges.checked_groups(what, axes, groups)
    args = exchanges.collectives(Exchange.GATHER, axes, checked, invariant=invariant)

    def one(leaf: object) -> Any:
        value = array_of(what, leaf)
        at = one_axis(what, axis, value.ndim + (not tiled))
        return exchanges.of_each(what, value, axes, exchanges.gathered, args, at, bool(tiled))

    return tree.map(one, x)


def all_to_all(
    x: Any,
    axis_name: object,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: object = None,
    tiled: bool = False,
) -> Any:
    """Part i of the value of device j becomes part j of the value of device i.

    Args:
        x: an array with an axis for the devices, or a tree of them.
        axis_name: the name of an axis of n devices, or a tuple of names.
        split_axis: the axis that is divided.
        concat_axis: the axis of the result where the parts are.
        axis_index_groups: lists of n indices along the axis; see `psum`.
        tiled: whether the axis is divided into n parts, and parts are joined along an axis that
            exists; otherwise the axis has n elements and vanishes, and `concat_axis` is a new axis
            of size n.

    Raises:
        AxisNameError: for a name that no axis has here, or the same twice.
        AxisError: for an axis that the arrays do not have.
        ShapeError: if the size of the axis is not n, or with `tiled` not a multiple of n.
        ArgumentError: for groups that do not divide the axis into equal parts.

    Example:
        >>> import tfn, tfn.numpy as tnp
        >>> x = tnp.array([[1, 2], [3, 4]])
        >>> tfn.vmap(lambda row: all_to_all(row, "i", 0, 0), axis_name="i")(x).tolist()
        [[1, 3], [2, 4]]
    """
    axes = exchanges.named("all_to_all", axis_name)
    groups = exchanges.checked_groups("all_to_all", axes, axis_index_groups)
    args = exchanges.collectives(Exchange.TRANSPOSE, axes, groups)
    n = exchanges.count(axes, groups)

    def one(leaf: object) -> Any:
        value = array_of("all_to_all", leaf)
        split = one_axis("all_to_all", split_axis, value.ndim)
        to = one_axis("all_to_all", concat_axis, value.ndim)
        exchanges.splits("all_to_all", "split_axis", split, value.shape, n, tiled)
        return exchanges.of_each(
            "all_to_all", value, axes, exchanges.transposed, args, split, to, bool(tiled)
        )

    return tree.map(one, x)


def pswapaxes(x: Any, axis_name: object, axis: int, *, axis_index_groups: object = None) -> Any:
    """An axis of the arrays swapped with a named axis of the same size.

    Args:
        x: an array with an axis for the devices, or a tree of them.
        axis_name: the name of an axis, or a tuple of names.
        axis: the axis that is swapped.
        axis_index_groups: lists of indices along the axis; see `psum`.

    Raises:
        AxisNameError: for a name that no axis has here, or the same twice.
        AxisError: for an axis that the arrays do not have.
        ShapeError: if the sizes differ.
        ArgumentError: for groups that do not divide the axis into equal parts.

    Example:
        >>> import tfn, tfn.numpy as tnp
        >>> x = tnp.array([[1, 2], [3, 4]])
        >>> tfn.vmap(lambda row: pswapaxes(row, "i", 0), axis_name="i")(x).tolist()
        [[1, 3], [2, 4]]
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def ppermute(x: Any, axis_name: object, perm: object) -> Any:
    """The value of another device, or lane; zeros where none is sent.

    Args:
        x: an array of any shape, or a tree of them.
        axis_name: the name of an axis, or a tuple of names.
        perm: pairs (source, destination) of indices along the axis; no two have the same source or
            the same destination.

    Raises:
        AxisNameError: for a name that no axis has here, or the same twice.
        ArgumentError: for an index that the axis does not have, or that is twice a source or twice
            a destination.

    Example:
        >>> import tfn, tfn.numpy as tnp
        >>> shift = lambda x: ppermute(x, "i", [(0, 1), (1, 2)])
        >>> tfn.vmap(shift, axis_name="i")(tnp.array([5, 6, 7])).tolist()
        [0, 5, 6]
    """
    axes = exchanges.named("ppermute", axis_name)
    pairs = exchanges.permutation("ppermute", perm, axes)
    if not axes:
        return x
    args = exchanges.collectives(Exchange.PERMUTE, axes)
    return exchanges.of_each("ppermute", x, axes, exchanges.permuted, args, pairs)


def pshuffle(x: Any, axis_name: object, perm: object) -> Any:
    """The value of device, or lane, ``perm[i]`` for device i.

    Args:
        x: an array of any shape, or a tree of them.
        axis_name: the name of an axis, or a tuple of names.
        perm: a permutation of the indices along the axis.

    Raises:
        AxisNameError: for a name that no axis has here, or the same twice.
        ArgumentError: for what is no permutation of the indices.

    Example:
        >>> import tfn, tfn.numpy as tnp
        >>> shuffle = lambda x: pshuffle(x, "i", [2, 0, 1])
        >>> tfn.vmap(shuffle, axis_name="i")(tnp.array([5, 6, 7])).tolist()
        [7, 5, 6]
    """
    axes = exchanges.named("pshuffle", axis_name)
    sources = integers("pshuffle", "perm", perm)
    if sorted(sources) != list(range(exchanges.count(axes))):
        raise ArgumentError(
            "pshuffle needs a permutation",
            got=f"perm={shown(perm)}, over {exchanges.spelled(axes)}",
            hint="name each index once, or use ppermute, which sends some of the values",
        )
    return ppermute(x, axis_name, [(source, to) for to, source in enumerate(sources)])


def pbroadcast(x: Any, axis_name: object, source: int) -> Any:
    """The value of one device, or lane, for each of them.

    Args:
        x: an array of any shape, or a tree of them.
        axis_name: the name of an axis, or a tuple of names.
        source: the index along the axis whose value it is.

    Raises:
        AxisNameError: for a name that no axis has here, or the same twice.
        ArgumentError: for an index that the axis does not have.

    Example:
        >>> import tfn, tfn.numpy as tnp
        >>> tfn.vmap(lambda x: pbroadcast(x, "i", 1), axis_name="i")(tnp.array([5, 6])).tolist()
        [6, 6]
    """
    axes = exchanges.named("pbroadcast", axis_name)
    at = integer("pbroadcast", "source", source)
    exchanges.check_index("pbroadcast", at, axes, f"source={at}")
    args = exchanges.collectives(Exchange.REDUCE, axes)
    return exchanges.of_each("pbroadcast", x, axes, exchanges.from_source, args, at)


# Types of values on many devices.


def pvary(x: Any, axis_name: object) -> Any:
    """The same value, as one that may differ along named axes; its transpose is `psum`.

    Only `shard_map` with ``check_vma=True`` makes a difference; elsewhere all values may differ.

    Args:
        x: an array of any shape, or a tree of them.
        axis_name: the name of an axis, or a tuple of names.

    Raises:
        AxisNameError: for a name that no axis has here, or the same twice.

    Example:
        >>> import tfn, tfn.numpy as tnp
        >>> tfn.vmap(lambda x: pvary(x, "i"), axis_name="i")(tnp.array([5, 6])).tolist()
        [5, 6]
    """
    axes = [a for a in exchanges.named("pvary", axis_name) if a.checked]
    if not axes:
        return x
    args = exchanges.collectives(Exchange.VARY, axes)
    return exchanges.of_each("pvary", x, axes, exchanges.one_by_one, args)


def pcast(x: Any, axis_name: object, *, to: str) -> Any:
    """The same value as one of another type: see `pvary`.

    Args:
        x: an array of any shape, or a tree of them.
        axis_name: the name of an axis, or a tuple of names.
        to: "varying", for a value that may differ along the axes.

    Raises:
        AxisNameError: for a name that no axis has here, or the same twice.
        ArgumentError: for another type.

    Example:
        >>> import tfn, tfn.numpy as tnp
        >>> cast = lambda x: pcast(x, "i", to="varying")
        >>> tfn.vmap(cast, axis_name="i")(tnp.array([5, 6])).tolist()
        [5, 6]
    """
    one_of("pcast", "to", to, ("varying",))
    return pvary(x, axis_name)
