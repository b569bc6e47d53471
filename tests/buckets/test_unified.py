"""Traces of several sizes are one function, or the error says where they differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tfn
from tfn import numpy as jnp
from tfn.buckets.unified import Unified, unifications
from tfn.exporting.symbolic_dims import Scope

NEAR = {"n": range(9, 17)}


def trace_of(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda at: tfn.jit(f).trace(tfn.ShapeDtypeStruct((at["n"], 3), "float32"))


captured = [jnp.ones(3), jnp.zeros(3)]


def unify(f: Callable[[Any], Any], constraint: str = "n >= 1") -> list[Any]:
    return list(unifications("f", trace_of(f), Scope({"n"}, [constraint]), NEAR))


def test_sizes_are_polynomials_in_shapes_and_constants() -> None:
    whole, near, *_ = unify(lambda x: (x.mean(0), jnp.concatenate([x, x[1:]]).reshape(-1)))
    assert isinstance(whole, Unified) and isinstance(near, Unified)
    assert [str(shape) for shape in whole.results] == ["(3,)", "(6*n - 3,)"]
    assert whole.at({"n": 12})[-1] is near.at({"n": 12})[-1]


def test_a_function_is_what_python_makes_of_it_or_it_does_not_hold() -> None:
    f = lambda x: x * min(x.shape[0], 5)
    whole = unify(f)[0]
    assert whole.holds({"n": 5}, trace_of(f)) and not whole.holds({"n": 4}, trace_of(f))


def test_far_from_its_sizes_a_function_may_be_another_one() -> None:
    def f(x: Any) -> Any:
        if x.shape[0] > 100:
            raise ValueError("too long")
        return x * x.shape[0]

    far, near, *_ = unify(f)
    assert isinstance(far, ValueError) and isinstance(near, Unified)


@pytest.mark.parametrize(
    ("f", "text"),
    [
        (lambda x: x.sum() if x.shape[0] % 2 else x.max(), "is not the same function at"),
        (lambda x: x[::3], "in a way that cannot be told"),
        (lambda x: x * x.shape[0] ** 3, "in a way that cannot be told"),
        (lambda x: x.sum() + captured[x.shape[0] % 2], "captured are not the same"),
    ],
)
def test_functions_that_differ_are_refused(f: Any, text: str) -> None:
    assert all(text in str(error) for error in unify(f))


def test_what_is_halved_or_quartered_is_a_quotient() -> None:
    f = lambda x: (x[::2], x[1::2], x[: x.shape[0] // 4], x[::4])
    whole = next(one for one in unify(f) if isinstance(one, Unified))
    for n in (9, 10, 11, 12):
        assert whole.holds({"n": n}, trace_of(f))


def test_sizes_at_which_two_numbers_are_equal_are_no_form_of_their_own() -> None:
    f = lambda x: x[1::2].mean(0) - x[::2].mean(0)  # of as many rows where n is even
    whole = next(one for one in unify(f) if isinstance(one, Unified))
    assert all(whole.holds({"n": n}, trace_of(f)) for n in (9, 10, 11, 12))


def test_constraints_choose_the_sizes() -> None:
    whole = unify(lambda x: x.reshape(-1, 4).sum(0), "n % 4 == 0")[0]
    assert isinstance(whole, Unified)
