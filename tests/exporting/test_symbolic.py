"""Shape-polymorphic functions: results, proofs, refusals."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tfn
import tfn.numpy as tnp
from tests.exporting.building import same_bits
from tfn import nn, random
from tfn.errors import ArgumentError, ExportError, ShapeError, TfnError
from tfn.exporting.codec import decode, encode
from tfn.exporting.container import opened, sealed
from tfn.exporting.generalize import witnesses
from tfn.exporting.symbolic import Symbolic, mapped
from tfn.exporting.symbolic_dims import Polynomial, Ratio, Scope
from tfn.tree import leaves

RANDOM = np.random.default_rng(0)
shape = tfn.export.symbolic_shape


def spec(text: str, *constraints: str, dtype: str = "float32") -> Any:
    return tfn.ShapeDtypeStruct(shape(text, constraints), dtype)


def values(*sizes: int) -> np.ndarray[Any, Any]:
    return RANDOM.standard_normal(sizes).astype(np.float32)


def back(function: Any, *args: Any) -> Symbolic:
    """The function, serialized and read again."""
    data = tfn.export.serialize(function, *args)
    found = tfn.export.deserialize(data)
    assert found.serialize() == data
    return found


def agree(found: Any, function: Any, *args: Any) -> None:
    got, want = leaves(found(*args)), leaves(tfn.jit(function)(*args))
    for a, b in zip(got, want, strict=True):
        same_bits(a, b)


def network(w: Any, x: Any) -> Any:
    y = tnp.tanh(x.reshape(x.shape[0], -1) @ w)
    return (y - y.mean(0)) / (y.std(0) + 1), tnp.arange(x.shape[0]), y.sum() / x.shape[0]


@pytest.mark.parametrize("b", [1, 2, 3, 16, 33])
def test_a_network_for_any_batch(b: int) -> None:
    w = values(12, 5)
    agree(back(network, w, spec("b, 4, 3")), network, w, values(b, 4, 3))


def test_an_instance_equals_a_trace_at_its_size() -> None:
    w = values(12, 5)
    found = back(network, w, spec("b, 4, 3"))
    for b in (2, 6, 12, 60):  # at 1, broadcasting is said in other words
        x = tfn.ShapeDtypeStruct((b, 4, 3), "float32")
        assert found.at(b=b).jaxpr == tfn.export.export(network)(w, x).jaxpr
        assert found.at(b=b) is found.at(b=b)


def test_gradients_and_transforms() -> None:
    found, w, x = back(network, values(12, 5), spec("b, 4, 3")), values(12, 5), values(7, 4, 3)
    slope = tfn.jit(tfn.grad(lambda w: found(w, x)[2]))(w)
    np.testing.assert_allclose(slope, tfn.grad(lambda w: network(w, x)[2])(w), rtol=1e-5)
    many = values(3, 7, 4, 3)
    got = tfn.vmap(lambda x: found(w, x)[2])(many)
    np.testing.assert_allclose(got, [network(w, x)[2] for x in many], rtol=1e-5)


def test_a_training_step() -> None:
    def loss(w: Any, x: Any, y: Any) -> Any:
        return nn.softmax_cross_entropy_with_integer_labels(x @ w, y).mean()

    def step(w: Any, x: Any, y: Any) -> Any:
        value, slope = tfn.value_and_grad(loss)(w, x, y)
        return w - 0.1 * slope, value

    found = back(step, values(6, 4), spec("b, 6"), spec("b", dtype="int32"))
    for b in (1, 5, 32):
        agree(found, step, values(6, 4), values(b, 6), RANDOM.integers(0, 4, b).astype(np.int32))


def test_loops_over_a_size_and_attention() -> None:
    cell = nn.LSTM.init(random.key(0), 3, 4)

    def run(xs: Any) -> Any:
        return cell(xs)[0]

    found = back(run, spec("t, b, 3"))
    for t, b in ((1, 1), (5, 2), (9, 7)):
        agree(found, run, values(t, b, 3))

    def attend(q: Any, k: Any) -> Any:
        return tfn.nn.softmax(q @ k.T / 2.0) @ k

    found = back(attend, spec("t, 8"), spec("s, 8"))
    assert found.scope.symbols == ("s", "t")
    agree(found, attend, values(3, 8), values(11, 8))


FUNCTIONS = {
    "padded": lambda x: tnp.pad(x, ((1, 2), (0, 0))),
    "shifted": lambda x: x[1:] - x[:-1],
    "flat": lambda x: x.ravel()[::-1],
    "outer": lambda x: (x[:, None, :] * x[None, :, :]).sum(2).reshape(-1),
    "joined": lambda x: tnp.concatenate([x, x * 2, x[:1]]),
    "sorted": lambda x: tnp.sort(x, 0),
    "summed": lambda x: tnp.cumsum(x, 0),
    "halved": lambda x: x.reshape(2, -1).sum(0),
    "picked": lambda x: x[-1] + x[tnp.argmax(x[:, 0])],
    "tiled": lambda x: tnp.tile(x, (3, 1)),
    "variance": lambda x: x.var(0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_kinds_of_functions(name: str) -> None:
    function = FUNCTIONS[name]
    found = back(function, spec("b, 4", "b >= 2"))
    for b in (2, 3, 4, 17):
        agree(found, function, values(b, 4))


@given(st.integers(1, 40), st.integers(1, 40))
def test_any_two_sizes(b: int, t: int) -> None:
    agree(TWO, two, values(b, t), values(2 * b + 1, 3))


def two(x: Any, y: Any) -> Any:
    return (x.sum(1) @ x).sum() + y[: x.shape[0]].mean(0), y.reshape(-1)


TWO = back(two, spec("b, t"), spec("2*b + 1, 3"))


def test_constants_divided_by_sizes() -> None:
    def blocks(x: Any) -> Any:
        return x.reshape(x.shape[0] // 8, 8, -1).sum(1)

    found = back(blocks, spec("b, 3", "b % 8 == 0"))
    agree(found, blocks, values(24, 3))
    with pytest.raises(ShapeError, match="b = 12, and b % 8 == 0"):
        found(values(12, 3))


def test_sizes_that_do_not_fit() -> None:
    found = back(lambda x, y: x + y, spec("b, 3"), spec("b, 3"))
    with pytest.raises(ShapeError, match=r"argument 1: \(5, 3\).*; b = 4 in argument 0"):
        found(values(4, 3), values(5, 3))
    with pytest.raises(ShapeError, match=r"argument 0: \(4,\) instead of \(b, 3\)"):
        found(values(4), values(4, 3))
    with pytest.raises(ShapeError, match=r"\(4, 2\) instead of \(b, 3\)"):
        found(values(4, 2), values(4, 3))
    with pytest.raises(ShapeError, match="b = 0, and b >= 1"):
        found(values(0, 3), values(0, 3))
    odd = back(lambda x, y: x[0] + y, spec("2*b + 1"), spec(""))
    with pytest.raises(ShapeError, match=r"\(4,\) instead of \(2\*b \+ 1,\)"):
        odd(values(4), 1.0)


def branching(x: Any) -> Any:
    if x.shape[0] > 100:
        return x * 2
    return x + 1


def test_branches_on_the_size_are_refused() -> None:
    with pytest.raises(
        ExportError, match=r"not the same function at b = \d+ and b = \d+"
    ) as caught:
        tfn.export.serialize(branching, spec("b"))
    assert "return x * 2" in str(caught.value) and "return x + 1" in str(caught.value)
    assert back(branching, spec("b", "b <= 100"))(values(3)).shape == (3,)
    assert back(branching, spec("b", "b > 100"))(values(300)).shape == (300,)


def test_functions_that_ask_whether_the_size_is_even() -> None:
    for constraint in ("b >= 2", "b < 5000", "b % 3 == 0"):
        with pytest.raises(ExportError, match="not the same function at b"):
            tfn.export.serialize(lambda x: x * 2 if x.shape[0] % 2 else x, spec("b", constraint))


def test_functions_that_differ_at_size_one_are_refused() -> None:
    with pytest.raises(ExportError, match=r"at b = 1 and above(.|\n)*f32\[3\] at b = 1"):
        tfn.export.serialize(tnp.squeeze, spec("b, 3"))
    assert back(tnp.squeeze, spec("b, 3", "b >= 2"))(values(4, 3)).shape == (4, 3)


def test_numbers_that_look_like_sizes() -> None:
    """A constant of the function is the size itself at a witness: then others are asked."""
    least = min(at["b"] for at in witnesses(Scope(["b"], [])))

    def f(x: Any) -> Any:
        return x + tnp.arange(x.shape[0]), tnp.arange(least)

    agree(back(f, spec("b")), f, values(7))


def test_unproved_operations_are_refused() -> None:
    with pytest.raises(ExportError, match=r"slice fits for all sizes(.|\n)*whether b < 3"):
        tfn.export.serialize(lambda x: x[3:], spec("b"))
    assert back(lambda x: x[3:], spec("b", "b >= 3"))(values(3)).shape == (0,)


def test_dependence_that_is_no_polynomial_is_refused() -> None:
    with pytest.raises(ExportError, match=r"cannot be told(.|\n)*at b = "):
        tfn.export.serialize(lambda x: x[::2], spec("b"))
    with pytest.raises(ExportError, match="cannot be told"):
        tfn.export.serialize(lambda x: x * np.sqrt(x.shape[0]).item(), spec("b"))
    with pytest.raises(ExportError, match=r"made of no argument(.|\n)*tfn\.numpy"):
        tfn.export.serialize(lambda x: x + np.arange(x.shape[0]), spec("b"))
    with pytest.raises(ExportError, match="too few sizes"):
        tfn.export.serialize(lambda x: x, spec("b", "b <= 2"))
    with pytest.raises(ExportError, match="3 symbols at most"):
        tfn.export.serialize(lambda x: x, spec("a, b, c, d"))


def test_an_error_of_the_function_says_at_which_size() -> None:
    with pytest.raises(ShapeError) as caught:
        tfn.export.serialize(lambda x: x.reshape(8, -1), spec("b"))
    assert any("was traced at b = " in note for note in caught.value.__notes__)


def test_how_it_prints() -> None:
    text = str(back(lambda x, y: x, spec("b, 3", "b % 8 == 0"), spec("2*b + 1", dtype="int32")))
    assert text == "<a function of (f32[b,3], i32[2*b + 1]) where b % 8 == 0>"


def test_files_take_no_symbols(tmp_path: Any) -> None:
    with pytest.raises(ExportError, match="is no number yet"):
        tfn.export(lambda x: x * 2, spec("b, 3"), path=tmp_path / "f.c")


def test_sizes_by_name() -> None:
    found = back(lambda x: x.sum(), spec("b, 2", "b >= 2"))
    assert found.at(b=3).in_avals[0].shape == (3, 2)
    wrong: list[dict[str, Any]] = [{}, {"c": 2}, {"b": 2, "c": 2}, {"b": "x"}, {"b": 2.0}]
    for numbers in wrong:
        with pytest.raises(ArgumentError, match="of the sizes b"):
            found.at(**numbers)
    with pytest.raises(ShapeError, match="b >= 2"):
        found.at(b=1)


def test_halves_of_odd_sizes() -> None:
    found = back(lambda x, y: x.sum() + y.sum(), spec("b * t // 2", "b * t % 2 == 0"), spec("b, t"))
    found(values(6), values(3, 4))
    with pytest.raises(ShapeError):
        found(values(6), values(3, 5))


def test_what_is_well_hashed_and_wrong_is_refused_or_called_with_an_error_of_tfn() -> None:
    data = tfn.export.serialize(network, values(12, 5), spec("b, 4, 3"))
    good = decode(opened(data))
    b = good[1][1][1][0]
    assert isinstance(b, Polynomial)
    other = Polynomial(((("c",), 1),))
    sizes: list[Any] = [
        other,
        2 * b,
        b * b - b,
        b - 3,
        Polynomial(b.terms, 2),
        Polynomial(b.terms, 0),
        0,
        -1,
        3,
        Polynomial(((("b",), 10**6),)),
        Ratio(b, 1),
        None,
    ]
    refused = called = 0
    for size in sizes:
        for i in range(len(good[0])):
            rows = [mapped(row, lambda p: p) for row in good[0]]
            rows[i] = (*rows[i][:2], mapped(rows[i][2], lambda p, size=size: size))
            if tuple(rows) == good[0]:
                continue
            try:
                found = tfn.export.deserialize(sealed(encode((tuple(rows), *good[1:]))))
            except ExportError:
                refused += 1
                continue
            called += 1
            with contextlib.suppress(TfnError):
                found(values(12, 5), values(4, 4, 3))
    assert refused > 20 and called > 20
    for constraints in (("b >",), ("c > 1",), ("b in 3",), (3,), "b > 1", ("b > " + "9" * 9999,)):
        with pytest.raises(ExportError):
            tfn.export.deserialize(sealed(encode((*good[:5], constraints))))
