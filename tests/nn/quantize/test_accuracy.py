"""Accuracy by layer: the layer that was made bad is named, errors are those of the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
from tfn import nn
from tfn import numpy as jnp
from tfn.errors import ArgumentError
from tfn.nn import quantize
from tfn.nn.quantize import Comparison, Quantization, compare

pytestmark = pytest.mark.usefixtures("uncompiled")

NAMES = ("first", "second", "third", "fourth")
UNIT = Quantization(jnp.float32(1), jnp.int32(0))
AT = {"x": UNIT, "y": UNIT}
ONES = [{"x": jnp.ones(3)}]


def report_of(bad: str, outliers: bool, bits: int = 8) -> Comparison:
    """Four layers, each with a scale for each channel, but the bad one."""
    rng = np.random.default_rng(0)
    widths = (12, 16, 16, 16, 8)
    network: dict[str, nn.Linear] = {}
    for name, k, n in zip(NAMES, widths, widths[1:]):
        weight = rng.standard_normal((k, n)).astype("float32") / np.sqrt(k)
        if name == bad and outliers:
            weight[:, 3] *= 1000
        network[name] = nn.Linear(jnp.asarray(weight), jnp.zeros(n, "float32"))
    batches = [jnp.asarray(rng.standard_normal((64, 12)), "float32") for _ in range(2)]

    floats = {name: nn.Sequential.init(layer, nn.relu) for name, layer in network.items()}

    def activations(x: tfn.Array) -> dict[str, tfn.Array]:
        found = {"x": x}
        for name in NAMES:
            found[name] = x = floats[name](x)
        return found

    ranges = quantize.calibrate(activations, batches)
    at = {name: ranges[name].quantization() for name in ranges}
    layers = {}
    for before, name in zip(("x", *NAMES), NAMES):
        layer = quantize.Linear.of(
            network[name],
            at[before],
            at[name],
            relu=True,
            bits=bits if name == bad else 8,
            per_channel=name != bad,
        )
        layers[name] = floats[name], layer, before
    return compare(layers, [{"x": x} for x in batches], at)


@pytest.mark.parametrize("bad", NAMES)
def test_a_layer_with_an_outlier_and_one_scale_is_the_worst(bad: str) -> None:
    report = report_of(bad, outliers=True)
    assert report.worst.name == bad
    assert report.worst.weights == "int8"
    assert report.worst.decibels < 5
    before = report.layers[: NAMES.index(bad)]
    assert all(x.decibels > 25 and x.weights == "int8 by channel" for x in before)
    assert f"{bad} (worst)" in str(report)
    assert len(str(report).splitlines()) == 1 + len(NAMES)


@pytest.mark.parametrize("bad", NAMES)
def test_a_layer_of_few_bits_is_the_worst(bad: str) -> None:
    report = report_of(bad, outliers=False, bits=3)
    assert (report.worst.name, report.worst.weights) == (bad, "int4")


def test_errors_are_those_of_the_definition_over_all_batches() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2, 5, 3)).astype("float32") * 10
    noise = np.rint(x) - x
    relative = (noise**2).sum((0, 1)) / (x**2).sum((0, 1))
    (row,) = rounded(list(x)).layers
    np.testing.assert_allclose(row.error, np.sqrt(relative.mean()), rtol=1e-5)
    np.testing.assert_allclose(row.decibels, -10 * np.log10(relative.mean()), rtol=1e-5)
    assert row.own == 0


@pytest.mark.parametrize(
    ("x", "error"),
    [
        ([[2.0, 0.0]], 0),  # a channel of zeros does not count
        ([[2.0, 0.25]], 0.5**0.5),  # one of two channels is lost
        ([[0.0, 0.0]], 0),
        (2.5, 0.2),
        ([1.5, 2.0], 0.2),  # a batch without channels
    ],
)
def test_special_outputs(x: Any, error: float) -> None:
    row = rounded([jnp.array(x)]).worst
    assert row.error == pytest.approx(error)
    assert row.weights == ""


def test_an_output_that_should_be_zero_is_lost() -> None:
    layers = {"y": (same, lambda q: q + 1, "x")}
    assert compare(layers, [{"x": jnp.zeros((2, 3))}], AT).worst.error == 1


def test_errors_pass_on_and_are_not_those_of_the_layers_after() -> None:
    double = lambda x: 2 * x
    layers = {"y": (same, lambda q: q + 1, "x"), "z": (double, double, "y")}
    first, second = compare(layers, [{"x": jnp.array([[2.0, 4.0]])}], {**AT, "z": UNIT}).layers
    assert first.error == first.own == second.error == pytest.approx((5 / 32) ** 0.5)
    assert second.own == 0
    assert second.decibels == first.decibels


def test_a_layer_of_two_inputs() -> None:
    add = lambda x, y: x + y
    report = compare({"y": (add, add, "x", "x")}, [{"x": jnp.array([[2.0, 4.0]])}], AT)
    assert report.worst.decibels == float("inf")


def same(x: tfn.Array) -> tfn.Array:
    return x


def rounded(batches: list[Any]) -> Comparison:
    """Of a layer that does nothing; what it is given is rounded."""
    return compare({"y": (same, same, "x")}, [{"x": jnp.asarray(x)} for x in batches], AT)


def test_the_types_of_weights_of_a_tree_of_layers() -> None:
    weight = jnp.full((2, 2), 100, "int8")
    both = Both(
        quantize.Linear(weight, jnp.zeros(2, "int32"), None),
        [quantize.Linear(weight // 20, jnp.zeros(2, "int32"), None)],
    )
    report = compare({"y": (same, both, "x")}, [{"x": jnp.ones((1, 2))}], AT)
    assert report.worst.weights == "int4, int8"


@nn.module
class Both:
    first: quantize.Linear
    rest: list[quantize.Linear]

    def __call__(self, q: tfn.Array) -> tfn.Array:
        return self.first(q)


@pytest.mark.parametrize(
    ("layers", "batches", "at", "words"),
    [
        ({"y": (same, same, "x")}, [], AT, "needs data and layers"),
        ({}, ONES, AT, "needs data and layers"),
        ({"y": (same, same, "w")}, ONES, AT, "'y' without w"),
        ({"y": (same, same, "x")}, ONES, {"y": UNIT}, "'y' without x"),
        ({"y": (same, same, "x")}, ONES, {"x": UNIT}, "'y' without y"),
        ({"z": (same, same, "y"), "y": (same, same, "x")}, ONES, {**AT, "z": UNIT}, "without y"),
        ({"y": (same, same, "y")}, ONES, AT, "without y"),
        ({"y": (same, lambda q: q[:2], "x")}, ONES, AT, "differ in their shapes"),
        ({"y": (same, 3, "x")}, ONES, AT, "layers"),
        ({"y": (3, same, "x")}, ONES, AT, "layers"),
    ],
)
def test_errors(layers: Any, batches: Any, at: Any, words: str) -> None:
    with pytest.raises((ArgumentError, TypeError), match=words):
        compare(layers, batches, at)
