"""Odd values of keywords that mean the same in every function; a row of a function overrides them.

A function among the values is called with the operands.  No values: the keyword is left alone,
which is for what has tests of its own, or is accepted for others' sake and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def mask(x: Any, *_: Any) -> np.ndarray:
    """Some elements of an operand."""
    x = np.asarray(x)
    return np.random.default_rng(x.size).random(x.shape) < 0.6


def last(x: Any, *_: Any) -> np.ndarray:
    """A mask of the last axis alone, which is broadcast."""
    return mask(np.zeros(np.shape(x)[-1:]))


def none(x: Any, *_: Any) -> np.ndarray:
    """No element at all."""
    return np.zeros(np.shape(x), bool)


AXIS = [0, -1, 1, -2, 5, -6]
KEYWORDS: dict[str, Sequence[Any]] = {
    "axis": [None, *AXIS, (0, 1), (-1,), ()],
    "axes": [None, (0,), (-1, 0), (1, 1), (7,)],
    "keepdims": [True, False],
    "dtype": ["float64", "float32", "float16", "int32", "complex64"],
    "where": [mask, last, none, True, False],
    "initial": [0, 3, 0.5],
    "ddof": [1, 0.5, 9],
    "correction": [0, 1, 9],
    "mean": [lambda x, *_: np.mean(np.asarray(x), keepdims=True)],
    "weights": [lambda x, *_: np.random.default_rng(1).uniform(0.1, 2, np.shape(x))],
    "norm": ["ortho", "forward", "backward", "odd"],
    "n": [1, 4, 9, 0, -1],
    "s": [(3, 4), (1, 1), (6,), (2, 0)],
    "equal_nan": [True, False],
    "rtol": [0, 0.5, -1.0],
    "atol": [0, 0.5],
    "size": [0, 1, 3, 40],
    "fill_value": [0, -1, 7],
    "order": ["C", "F", "A", "K"],
    "copy": [True, None],
    "method": [],
    "out": [None],
    "device": [None],
    "out_sharding": [None],
    "precision": [None, "highest", "float32", ("highest", "default"), "odd"],
    "preferred_element_type": [None, "float64", "float32"],
    "promote_integers": [True, False],
    "descending": [True],
    "stable": [True],
    "overwrite_input": [False, True],
    "overwrite_a": [False, True],
    "overwrite_b": [False, True],
    "overwrite_c": [False, True],
    "check_finite": [False, True],
    "weak_type": [],
    "inplace": [False],
}
