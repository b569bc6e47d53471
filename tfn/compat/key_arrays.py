"""Functions that move elements, of random keys: JAX has arrays of keys, tfn keys with words.

    jnp.stack([key, key])  ->  Key(vmap(stack, -1, -1)(words, words))

A function of the table `MOVES` moves keys as it moves numbers: word by word.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tfn import numpy as tnp
from tfn import tree, vmap
from tfn.dtypes import KeyType
from tfn.errors import DTypeError, TreeError
from tfn.extend import shown
from tfn.random import Key

# fmt: off
MOVES: dict[str, frozenset[str]] = {
    "jax.numpy": frozenset((
        "append", "array", "array_split", "asarray", "atleast_1d", "atleast_2d", "atleast_3d",
        "broadcast_to", "choose", "compress", "concatenate", "copy", "delete", "dstack",
        "empty_like", "expand_dims", "flip", "fliplr", "flipud", "full_like", "hstack", "insert",
        "meshgrid", "moveaxis", "ones_like", "permute_dims", "ravel", "repeat", "reshape", "roll",
        "rollaxis", "rot90", "select", "split", "squeeze", "stack", "swapaxes", "take",
        "take_along_axis", "tile", "transpose", "unstack", "vstack", "where", "zeros_like",
    )),
    "jax.lax": frozenset((
        "broadcast", "broadcast_in_dim", "concatenate", "dynamic_index_in_dim", "dynamic_slice",
        "dynamic_slice_in_dim", "dynamic_update_index_in_dim", "dynamic_update_slice",
        "dynamic_update_slice_in_dim", "expand_dims", "gather", "index_in_dim", "reshape", "rev",
        "select", "slice", "slice_in_dim", "squeeze", "transpose",
    )),
}
"""By module: the functions whose results are elements of their operands, or are like them."""
# fmt: on


VALUES = {"where": slice(1, 3), "append": slice(2)}
"""The operands whose elements the result has, of functions with several: all are keys, or none."""


def moving_keys(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that takes random keys where it takes arrays.

    Example:
        >>> import tfn, tfn.numpy as tnp
        >>> keys = moving_keys(tnp.stack)([tfn.random.key(0), tfn.random.key(1)])
        >>> keys.shape, tfn.random.key_data(keys).tolist()
        ((2,), [[0, 0], [0, 1]])
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not any(map(_has_keys, (*args, *kwargs.values()))):
            return function(*args, **kwargs)
        values = args[VALUES.get(function.__name__, slice(0))]
        if not all(map(_is_key, values)):
            raise DTypeError(
                f"{function.__name__} of keys needs keys",
                got=", ".join(map(shown, values)),
                hint="tfn.random.wrap_key_data(words) makes keys of uint32 words",
            )
        leaves, structure = tree.flatten((args, kwargs), is_leaf=_is_key)
        places = [i for i, leaf in enumerate(leaves) if _is_key(leaf)]

        def of_a_word(*words: Any) -> Any:
            for i, word in zip(places, words, strict=True):
                leaves[i] = word
            its_args, its_kwargs = tree.unflatten(structure, leaves)
            return function(*its_args, **its_kwargs)

        words = [leaves[i].data for i in places]
        return tree.map(Key, vmap(of_a_word, in_axes=-1, out_axes=-1)(*words))

    return call


MAKES = frozenset((("jax.numpy", "zeros"), ("jax.numpy", "ones"), ("jax.numpy", "empty")))
"""The functions that make an array of a shape and a dtype, which may be that of keys."""

FILLS = frozenset((("jax.numpy", "full"), ("jax.lax", "full")))
"""The functions that make an array of a shape and a value, which may be a key."""


def making_keys(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes an array of a shape, of a dtype of keys too.

    Example:
        >>> import tfn, tfn.numpy as tnp
        >>> making_keys(tnp.zeros)(3, tfn.random.key(0).dtype).shape
        (3,)
    """

    @functools.wraps(function)
    def call(shape: Any, dtype: Any = None, **options: Any) -> Any:
        if not isinstance(dtype, KeyType):
            return function(shape, dtype, **options)
        sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
        return Key(function((*sizes, dtype.itemsize // 4), "uint32", **options))

    return call


def filling_keys(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes an array of a shape and a value, of one key too.

    Example:
        >>> import tfn, tfn.numpy as tnp
        >>> filling_keys(tnp.full)((2,), tfn.random.key(0)).shape
        (2,)
    """

    @functools.wraps(function)
    def call(shape: Any, fill_value: Any, *args: Any, **options: Any) -> Any:
        if not _is_key(fill_value):
            return function(shape, fill_value, *args, **options)
        return moving_keys(tnp.broadcast_to)(fill_value, shape)

    return call


COMPARES = frozenset((("jax.numpy", "allclose"), ("jax.numpy", "isclose")))
"""The functions that compare numbers that are close; keys are close if they are equal."""


def comparing_keys(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that compares arrays, also of keys.

    Example:
        >>> import tfn, tfn.numpy as tnp
        >>> key = tfn.random.key(0)
        >>> bool(comparing_keys(tnp.allclose)(key, tfn.random.clone(key)))
        True
    """

    @functools.wraps(function)
    def call(a: Any, b: Any, *args: Any, **kwargs: Any) -> Any:
        if not (_is_key(a) or _is_key(b)):
            return function(a, b, *args, **kwargs)
        return function(a == b if _is_key(a) else b == a, True)

    return call


MAPS = frozenset((("jax.tree", "map"), ("jax.tree_util", "tree_map")))
"""The functions that are made to take a key for a leaf, beside a leaf of another tree."""


def mapping_keys(function: Callable[..., Any]) -> Callable[..., Any]:
    """`tree.map`, of which a key is a leaf where the other trees have a leaf that is no key.

    Example:
        >>> import tfn
        >>> mapping_keys(tree.map)(tfn.random.bernoulli, [tfn.random.key(0)], [1.0])[0].item()
        True
    """

    @functools.wraps(function)
    def call(f: Callable[..., Any], whole: Any, *rest: Any, **options: Any) -> Any:
        if not rest:
            return function(f, whole, **options)
        began: list[bool] = []

        def of_leaves(*leaves: Any) -> Any:
            began.append(True)
            return f(*leaves)

        try:
            return function(of_leaves, whole, *rest, **options)
        except TreeError:
            if began:
                raise
        is_leaf = options.pop("is_leaf", None)

        def is_leaf_or_key(x: Any) -> bool:
            return _is_key(x) or (is_leaf is not None and is_leaf(x))

        return function(f, whole, *rest, is_leaf=is_leaf_or_key, **options)

    return call


OF_KEYS = {COMPARES: comparing_keys, MAPS: mapping_keys, MAKES: making_keys, FILLS: filling_keys}
"""The functions that take keys, other than those that move elements, and the wrappers of each."""


def _is_key(x: object) -> bool:
    return type(x) is Key


def _has_keys(x: object) -> bool:
    return type(x) is Key or (isinstance(x, (list, tuple)) and any(map(_has_keys, x)))
