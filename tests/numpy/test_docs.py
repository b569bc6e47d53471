"""What the public functions say of themselves: each has an example, which runs as a doctest."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import FunctionType, ModuleType

import jaxtyping
import pytest

import tfn.image
import tfn.lax
import tfn.numpy
import tfn.scipy.linalg
import tfn.scipy.ndimage
import tfn.scipy.signal
import tfn.scipy.special
from tfn.numpy import contraction
from tfn.numpy.linalg import factorizations, norms, products, systems

ROOMS = [
    tfn.numpy,
    tfn.numpy.linalg,
    tfn.numpy.fft,
    tfn.lax,
    tfn.lax.linalg,
    tfn.image,
    tfn.scipy.linalg,
    tfn.scipy.ndimage,
    tfn.scipy.signal,
    tfn.scipy.special,
]


def public(room: ModuleType) -> Iterator[FunctionType]:
    """The functions of a room that it defines, not those it only uses."""
    files = (room.__name__,) if room.__file__ and "__init__" not in room.__file__ else ("tfn.",)
    for name, value in vars(room).items():
        if (
            inspect.isfunction(value)
            and not name.startswith("_")
            and value.__module__.startswith(files)
        ):
            yield value


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.__name__)
def test_each_function_has_an_example(room: ModuleType) -> None:
    bare = {f"{f.__module__}.{f.__name__}" for f in public(room) if ">>>" not in (f.__doc__ or "")}
    assert not bare


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.__name__)
def test_each_argument_and_result_has_a_type(room: ModuleType) -> None:
    untyped = {
        f"{f.__module__}.{f.__name__}: {name}"
        for f in public(room)
        for name in [*inspect.signature(f).parameters, "return"]
        if name not in f.__annotations__
    }
    assert not untyped


def test_annotations_are_read_by_jaxtyping() -> None:
    rooms = (contraction, norms, products, systems, factorizations)
    shaped = 0
    for room in rooms:
        for f in public(room):
            hints = [h for h in f.__annotations__.values() if "[Array" in h]
            shaped += bool(hints)
            for hint in hints:
                assert eval(hint, {**vars(jaxtyping), **vars(room)})
    assert shaped > 20
