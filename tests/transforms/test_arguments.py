"""Names of arguments as the user wrote them, and the choice of argnums."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest

import tfn
from tfn import tree
from tfn.errors import ArgumentError
from tfn.transforms.arguments import (
    Chosen,
    argument_names,
    as_value,
    choose,
    name_of,
    parameter_names,
    results,
)


def f(x: Any, /, params: Any, *rest: Any, flag: Any = None, **more: Any) -> Any:
    return x, params, rest, flag, more


def test_parameter_names() -> None:
    assert parameter_names(f, 4) == ["x", "params", "rest[0]", "rest[1]"]
    assert parameter_names(lambda: 0, 1) == ["argument 0"]
    assert parameter_names(functools.partial(f, 1), 2) == ["params", "rest[0]"]
    assert parameter_names(dict, 1) == ["argument 0"]  # a builtin without a signature
    assert parameter_names(math.hypot, 2)[0].startswith(("coordinates", "argument"))


def test_argument_names() -> None:
    structure = tree.structure(((1, {"w": [2, 3]}, 4), {"flag": (5,), "other": 6}))
    names = argument_names(f, structure)
    assert names == ["x", "params['w'][0]", "params['w'][1]", "rest[0]", "flag[0]", "other"]
    assert argument_names(f, tree.structure(((1, 2), {})), [0, 3]) == ["x", "rest[1]"]


def test_name_of() -> None:
    assert name_of(f) == "f" and name_of(functools.partial(f, 1)) == "f"
    assert name_of(functools.partial) == "partial" and name_of(tfn.jit(f)) == "f"


def test_choose() -> None:
    assert choose(0, 2, "grad") == [0] and choose((-1, 0), 3, "grad") == [2, 0]
    for bad in (2, -3, (0, 2), "x", (0.5,)):
        with pytest.raises(ArgumentError, match="grad needs argnums among the 2"):
            choose(bad, 2, "grad")  # type: ignore[arg-type]


def test_chosen_replaces_floating_leaves_only() -> None:
    args = ({"w": 1.5, "n": 3}, "mode", np.ones(2))
    chosen = Chosen.of(f, args, {"flag": True}, [2, 0])
    assert [chosen.name(i) for i in range(3)] == ["rest[0]", "x['n']", "x['w']"]
    assert chosen.differentiated == [0, 2] and chosen.names == []
    x, params, rest, flag, _ = chosen.call(["new rest", "new w"])
    assert x == {"w": "new w", "n": 3} and params == "mode" and rest == ("new rest",) and flag


def test_as_value_names_what_it_refuses() -> None:
    assert as_value(3.0, "x").weak_type
    with pytest.raises(ArgumentError, match=r"x\[0\] is not an array or a number"):
        as_value("three", lambda: "x[0]")
    with pytest.raises(ArgumentError, match="the result of f is not"):
        results("three", f)
    assert results(None, f)[0] == []
