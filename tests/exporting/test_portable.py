"""Portable functions: arguments by position, name and field."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.exporting.building import same_bits
from tfn.errors import ArgumentError, DTypeError, ShapeError
from tfn.exporting.serialize import deserialize, serialize

X = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
W = np.random.default_rng(1).standard_normal((3, 2)).astype(np.float32)


def layer(x: Any, w: Any) -> Any:
    return tnp.tanh(x @ w)


Pair = namedtuple("Pair", "left right")


@tfn.tree.register_dataclass
@dataclass(frozen=True)
class Network:
    weight: Any
    bias: Any = None


def test_classes_come_as_dicts_of_their_fields() -> None:
    def step(network: Network, pair: Pair) -> Any:
        y = pair.left @ network.weight
        return Network(network.weight - 1, None), Pair([y], (pair.right,)), None, {}

    network, pair = Network(W), Pair(X, X[0])
    f = deserialize(serialize(step, network, pair))
    new, other, nothing, empty = f(network, pair)
    assert nothing is None and empty == {} and new["bias"] is None
    same_bits(new["weight"], tfn.jit(step)(network, pair)[0].weight)
    assert isinstance(other["left"], list) and isinstance(other["right"], tuple)
    again = f({"weight": W}, {"right": X[0], "left": X})
    same_bits(again[0]["weight"], new["weight"])


def test_arguments_by_name() -> None:
    f = deserialize(serialize(lambda x, *, scale: x * scale, X, scale=2.0))
    same_bits(f(X, scale=2.0), tnp.asarray(X) * 2)
    with pytest.raises(ArgumentError, match="takes argument 0, scale\n  got: scale missing"):
        f(X)
    with pytest.raises(ArgumentError, match=r"argument 1\['a'\] too much"):
        f(X, {"a": X}, scale=1.0)


def test_wrong_arguments() -> None:
    f = deserialize(serialize(layer, X, W))
    with pytest.raises(ShapeError, match=r"argument 0: f32\[3,3\](.|\n)*it takes.*f32\[4,3\]"):
        f(X[:3], W)
    with pytest.raises(DTypeError, match=r"argument 1: i32\[3,2\]"):
        f(X, W.astype("int32"))
    with pytest.raises(ArgumentError, match="argument 1 is not an array"):
        f(X, "w")
