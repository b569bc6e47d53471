"""Result dtypes of functions, for all pairs of dtypes, against a record of those of JAX.

``data/result_types.json`` holds what jax 0.10.2 gives; `recorded.py` made it, and says how.
Whether dtypes are weak is tested where they are promoted, in tests/test_dtypes.py.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.covering import in_turn
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


@pytest.mark.parametrize("name", in_turn(2, RECORDED))
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


LINE, MATRIX = np.array([0.2, 0.3, 0.7]), np.arange(9.0).reshape(3, 3) * 0.1 + np.eye(3)
BESIDE = {  # calls that take a Python number beside float64
    "gradient": lambda n, x, a: n.gradient(x, 0.1),
    "gradient of two axes": lambda n, x, a: n.stack(n.gradient(a, 0.1, 0.3)),
    "dot": lambda n, x, a: n.dot(x, 0.1),
    "inner": lambda n, x, a: n.inner(0.1, x),
    "outer": lambda n, x, a: n.outer(x, 0.1),
    "kron": lambda n, x, a: n.kron(0.1, a),
    "vdot": lambda n, x, a: n.vdot(x[0], 0.1),
    "tensordot": lambda n, x, a: n.tensordot(x, 0.1, 0),
    "diff": lambda n, x, a: n.diff(x, prepend=0.1, append=0.3),
    "var": lambda n, x, a: n.var(x, mean=0.1),
    "std": lambda n, x, a: n.std(x, mean=0.1),
    "interp": lambda n, x, a: n.interp(x, x, x * x, period=0.9),
    "select": lambda n, x, a: n.select([x > 0.25, x < 0.25], [x, 0.1]),
    "hstack": lambda n, x, a: n.hstack([x, 0.1]),
    "vstack": lambda n, x, a: n.vstack([x[0], 0.1]),
    "dstack": lambda n, x, a: n.dstack([x[0], 0.1]),
    "column_stack": lambda n, x, a: n.column_stack([x[0], 0.1]),
    "block": lambda n, x, a: n.block([x, 0.1]),
    "r_": lambda n, x, a: n.r_[x, 0.1],
    "choose": lambda n, x, a: n.choose(n.array([0, 1, 0]), [x, 0.1]),
    "array_equal": lambda n, x, a: n.array_equal(x[1], 0.3),
    "polyadd": lambda n, x, a: n.polyadd(x, 0.1),
    "polymul": lambda n, x, a: n.polymul(x, 0.1),
    "polydiv": lambda n, x, a: n.polydiv(x, 0.1)[0],
    "polyint": lambda n, x, a: n.polyint(x, k=0.1),
    "array": lambda n, x, a: n.array([[0.1, x[0]], [0.3, 0.7]]),
    "complex": lambda n, x, a: n.outer(x + 0j, 0.1 + 0.3j),
    "integer": lambda n, x, a: n.outer(x.astype("int64"), 2**40 + 1),
    "unsigned integer": lambda n, x, a: n.outer(x.astype("uint64"), 2**63 + 1),
}


@pytest.mark.parametrize("name", BESIDE)
def test_a_python_number_keeps_its_bits_beside_64_bits(name):
    want = np.asarray(BESIDE[name](np, LINE, MATRIX))
    got = np.asarray(BESIDE[name](tnp, tnp.array(LINE), tnp.array(MATRIX)))
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, 4e-15, 0)
