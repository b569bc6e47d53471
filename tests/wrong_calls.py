"""The table of wrong calls of `data/wrong_calls.txt`: each is told what, where and what to do.

A row is a call and the class of its error.  The message names what was got and a hint, and the line
that is the user's is the call itself.  All messages are in one golden file, `wrong_calls.txt`.
"""

import linecache
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

import numpy as np

import tfn
import tfn.numpy as tnp
from tests.conftest import GOLDEN
from tfn import errors, lax, nn, random, scipy, tree
from tfn.nn import optim

TABLE = (GOLDEN.parent / "data" / "wrong_calls.txt").read_text().splitlines()


def vjp_rule(forward: Callable[..., Any], backward: Callable[..., Any]) -> Any:
    """A function with a rule for reverse mode."""
    function = tfn.custom_vjp(lambda a: a)
    function.defvjp(forward, backward)
    return function


def jvp_rule(rule: Callable[..., Any]) -> Any:
    """A function with a rule for forward mode."""
    function = tfn.custom_jvp(lambda a: a)
    function.defjvp(rule)
    return function


def body(loop: Callable[[int], Any], a: Any, out: Any) -> None:
    """A kernel that copies."""
    for k in loop(3):
        out[k] = a[k]


NAMES: dict[str, Any] = {
    "tfn": tfn, "tnp": tnp, "np": np, "lax": lax, "nn": nn, "random": random, "scipy": scipy,
    "tree": tree, "optim": optim, "linalg": tnp.linalg, "fft": tnp.fft, "body": body,
    "vjp_rule": vjp_rule, "jvp_rule": jvp_rule, "without_rule": tfn.custom_vjp(lambda a: a),
    "nowhere": "/nowhere/at/all",
    "gather_numbers": lax.GatherDimensionNumbers((), (0, 1), (0, 1)),
    "scatter_numbers": lax.ScatterDimensionNumbers((), (0, 1), (0, 1)),
}  # fmt: skip


def names() -> dict[str, Any]:
    """Names that the calls use."""
    return NAMES | {
        "x": tnp.arange(6.0).reshape(2, 3), "v": tnp.arange(3.0), "m": tnp.eye(3),
        "i": tnp.arange(3), "t": tnp.array([True, False, True]), "z": tnp.array([1j, 2, 3]),
        "e": tnp.zeros(0), "s": tnp.array(1.0), "q": tnp.arange(24.0).reshape(2, 3, 4),
        "key": random.key(0), "image": tnp.ones((1, 4, 8, 8)), "window": tnp.ones((4, 4, 3, 3)),
        "heads": tnp.ones((2, 5, 3, 4)), "state": tnp.zeros(4, "uint32"), "wide": tnp.zeros(2**21),
    }  # fmt: skip


def groups() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The heads of the table, each with its calls and their classes."""
    head = ""
    for is_head, lines in groupby(TABLE, key=lambda line: line.startswith("##")):
        if is_head:
            (head,) = lines
        else:
            rows = [line.rpartition(" | ") for line in lines if line]
            yield head, [(call, name) for call, _, name in rows]


def error_of(call: str, names: dict[str, Any]) -> Any:
    """What a call raises, as if it were a line of a file."""
    linecache.cache["call.py"] = (len(call), None, [call], "call.py")
    try:
        eval(compile(call, "call.py", "eval"), names)
    except Exception as error:
        return error
    finally:
        del linecache.cache["call.py"]
    return None


def defects(call: str, expected: str, error: Any) -> Iterator[str]:
    """Each thing that a message lacks."""
    if not isinstance(error, errors.TfnError):
        yield f"it raises {error!r}"
        return
    if type(error).__name__ != expected:
        yield f"it is a {type(error).__name__} and not a {expected}"
    if not error.got:
        yield "it does not say what was got"
    if not error.hint:
        yield "it has no hint"
    if error.where != f"call.py:1  {call}":
        yield f"it is said to be at {error.where}"
