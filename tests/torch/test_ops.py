"""Each row of `tfn.torch.ops`, beside PyTorch's own operation and its derivative."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import tfn
from tests.torch.beside import arrays, as_numpy, needs_torch, tensors
from tests.torch.samples import CORE, SAMPLES
from tfn import numpy as jnp
from tfn.errors import NotAvailableError
from tfn.torch import graph
from tfn.torch.graph import decompositions
from tfn.torch.library import pytorch
from tfn.torch.ops import OPS
from tfn.torch.ops.known import promoted

NAMES = [f"{i}-{sample[0]}" for i, sample in enumerate(SAMPLES)]


def split(sample: tuple[Any, ...]) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    name, *args = sample
    options = args.pop() if args and isinstance(args[-1], dict) else {}
    return name, tuple(args), options


def trained(args: Any) -> list[int]:
    """The arguments that have derivatives."""
    return [i for i, a in enumerate(args) if isinstance(a, np.ndarray) and a.dtype == np.float32]


def operation(name: str) -> Any:
    """The operation of PyTorch under the name of a row."""
    packet, _, overload = name.partition(".")
    found = getattr(pytorch().ops.aten, packet)
    return getattr(found, overload) if overload else found


def row(name: str) -> Any:
    return OPS.get(name) or OPS[name.partition(".")[0]]


@needs_torch
@pytest.mark.parametrize("sample", SAMPLES, ids=NAMES)
def test_rows_are_the_operations_of_pytorch(sample: tuple[Any, ...], uncompiled: None) -> None:
    name, args, options = split(sample)
    want = operation(name)(*tensors(args), **tensors(options))
    got = row(name)(*arrays(args), **arrays(options))
    checked = 1 if name == "_embedding_bag" else None  # the others are for its derivative
    for ours, theirs in zip(as_numpy(got)[:checked], as_numpy(want)):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)


def first_of(results: Any) -> Any:
    """The first result, which is the one with a derivative; complex numbers as pairs."""
    first = results[0] if isinstance(results, (list, tuple)) else results
    if not hasattr(first, "dtype") or "complex" not in str(first.dtype):
        return first
    if hasattr(first, "resolve_conj"):
        return pytorch().view_as_real(first.resolve_conj())
    return jnp.stack([first.real, first.imag], -1)


@needs_torch
@pytest.mark.parametrize("sample", SAMPLES, ids=NAMES)
def test_rows_have_the_derivatives_of_pytorch(sample: tuple[Any, ...], uncompiled: None) -> None:
    name, args, options = split(sample)
    places, torch = trained(args), pytorch()
    given = list(tensors(args))
    for place in places:
        given[place].requires_grad_()
    try:
        theirs = first_of(operation(name)(*given, **tensors(options)))
        weights = torch.cos(torch.arange(theirs.numel(), dtype=theirs.dtype)).reshape(theirs.shape)
        want = torch.autograd.grad(theirs, [given[i] for i in places], weights, allow_unused=True)
    except (RuntimeError, AttributeError):
        return  # PyTorch has no derivative of it either

    def loss(*values: Any) -> Any:
        moved = list(arrays(args))
        for place, value in zip(places, values):
            moved[place] = value
        return first_of(row(name)(*moved, **arrays(options))).astype(dtype)

    dtype = str(weights.dtype).removeprefix("torch.")
    got = tfn.vjp(loss, *(jnp.asarray(args[i]) for i in places))[1](jnp.asarray(weights.numpy()))
    for ours, other in zip(got, want, strict=True):
        other = np.zeros(ours.shape) if other is None else other.numpy(force=True)
        np.testing.assert_allclose(ours, other, rtol=1e-4, atol=1e-5)


@needs_torch
def test_all_of_core_aten_has_a_row_or_a_definition() -> None:
    rows, torch = dict(OPS), pytorch()
    known = decompositions(rows)
    lacking = [
        str(op)
        for packet in map(partial(getattr, torch.ops.aten), CORE.split())
        for op in (getattr(packet, overload) for overload in packet.overloads())
        if torch.Tag.core in op.tags and op not in known and graph.row(op, rows) is None
    ]
    assert not lacking


PROMOTED = [
    ((np.ones(2, "int64"), 1.5), "float32"),
    ((np.ones(2, "float16"), 1.5), "float16"),
    ((np.ones(2, "float32"), np.ones((), "float64")), "float32"),
    ((np.ones(2, "int32"), np.ones((), "float64")), "float64"),
    ((np.ones(2, bool), 3), "int64"),
    ((np.ones(2, "uint8"), np.ones(2, "int8")), "int16"),
    ((np.ones(2, "float64"), 1j), "complex128"),
    ((np.ones(2, "int64"), np.ones(2, "float32")), "float32"),
]


@pytest.mark.parametrize(("values", "dtype"), PROMOTED)
def test_a_scalar_decides_only_where_arrays_are_of_a_lower_kind(values: Any, dtype: str) -> None:
    assert promoted(*map(arrays, values)).name == dtype


def test_bounds_pass_a_derivative_on_in_clamp_and_not_in_hardtanh() -> None:
    x = jnp.asarray([-1.0, 0.0, 1.0])
    clamp = tfn.grad(lambda x: OPS["clamp"](x, -1.0, 1.0).sum())(x)
    assert clamp.tolist() == [1, 1, 1]
    hardtanh = tfn.grad(lambda x: OPS["hardtanh"](x).sum())(x)
    assert hardtanh.tolist() == [0, 1, 0]


def test_the_largest_of_equal_elements_is_the_first() -> None:
    _, places = OPS["max_pool2d_with_indices"](jnp.zeros((1, 2, 4)), [2, 2])
    assert places.tolist() == [[[0, 2]]]


def test_a_layer_that_keeps_its_state_gives_it_back() -> None:
    """Gates that are open or closed: the cell counts its steps."""
    w = np.zeros((4, 1), np.float32)
    bias = np.array([50, 50, 50, 50], np.float32)  # entry, keep, new, out
    zero = np.zeros((1, 1, 1), np.float32)
    given = arrays([np.zeros((3, 1, 1), np.float32), [zero, zero], [w, w, bias, 0 * bias]])
    y, h, c = OPS["lstm.input"](*given, True, 1, 0.0, False, False, False)
    np.testing.assert_allclose(np.asarray(y)[:, 0, 0], np.tanh([1, 2, 3]), rtol=1e-6)
    assert h.item() == y[-1].item() and c.item() == 3


@pytest.mark.parametrize("name", ["_linalg_det", "_linalg_slogdet"])
def test_determinants_and_their_factors_are_of_one_factorization(name: str) -> None:
    program = tfn.jit(OPS[name]).lower(jnp.eye(3))
    assert program.as_text().count("getrf") == 1


def test_memory_that_views_are_taken_of_has_rows_without_gaps() -> None:
    new = OPS["new_empty_strided"]
    assert new(jnp.ones(2, "int8"), (2, 3), (3, 1)).tolist() == [[0, 0, 0], [0, 0, 0]]
    with pytest.raises(NotAvailableError, match="strides"):
        new(jnp.ones(2), (2, 3), (1, 2))
