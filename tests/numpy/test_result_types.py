"""Result dtypes of functions, for all pairs of dtypes, against a record of those of JAX.

``data/result_types.json`` holds what jax 0.10.2 gives; `recorded.py` made it, and says how.
Whether dtypes are weak is tested where they are promoted, in tests/test_dtypes.py.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

import tfn
import tfn.numpy as tnp
from tests.numpy.recorded import BINARY, KINDS, UNARY, called, rows, short, value
from tfn.errors import TfnError

RECORDED: dict[str, str] = json.loads(
    (Path(__file__).parents[1] / "data" / "result_types.json").read_text()
)


def result(name: str, kinds: tuple[str, ...]) -> str:
    """The result of a function, without computing it."""
    given = [value(kind, tnp.array) for kind in kinds]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return short(tfn.eval_shape(lambda *xs: called(tnp, name, *xs), *given))
    except (TfnError, TypeError, ValueError, IndexError):
        return "-"


WIDE = {"float64", "complex128"}
UNORDERED = """
    max min argmax argmin ptp nanmax nanmin nanargmax maximum minimum fmax fmin less arctan2
    logaddexp logaddexp2
""".split()  # noqa: SIM905
PLACES = ["argmax", "argmin", "nanargmax", "argsort", "count_nonzero"]


def on_purpose(name: str, kinds: tuple[str, ...], got: str, want: str) -> bool:
    """The dtypes in which tfn differs from JAX, and why."""
    if got == "-" and name in UNORDERED and any(kind.startswith("complex") for kind in kinds):
        return True  # complex numbers have no order there, and no one logarithm
    if want in WIDE and not WIDE & set(kinds):
        return got == {"float64": "float32", "complex128": "complex64"}[want]  # what is not said
    if name in PLACES and want == "int64" and got == "int32":  # stays 32 bits wide
        return True
    if set(kinds) == {"bool"}:  # JAX refuses three, and gives a truth for a polynomial
        return name in ("round", "kron", "polyadd", "polyval")
    return name == "dot" and want == "-" and "int" in kinds  # JAX refuses some Python integers


@pytest.mark.parametrize("name", RECORDED)
def test_result_types_are_those_of_jax(name: str) -> None:
    wrong = {}
    recorded = (found.rstrip("*") for found in RECORDED[name].split())
    for (_, kinds), want in zip((row for row in rows() if row[0] == name), recorded):
        got = result(name, kinds).rstrip("*")
        if got != want and not on_purpose(name, kinds, got, want):
            wrong[kinds] = f"{got}, not {want}"
    assert not wrong


def test_record_has_all_functions_and_dtypes() -> None:
    assert list(RECORDED) == UNARY + BINARY
    assert {len(RECORDED[name].split()) for name in UNARY} == {len(KINDS)}
    assert {len(RECORDED[name].split()) for name in BINARY} == {len(KINDS) ** 2}
