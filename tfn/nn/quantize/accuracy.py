"""Accuracy lost by layer: activations of integers beside those of floats, on data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from tfn import tree
from tfn.array import Array
from tfn.errors import ArgumentError
from tfn.extend import a_function, frozen
from tfn.nn.quantize.affine import Quantization
from tfn.nn.quantize.layers import Conv, Linear

INT4 = 8
"""The magnitude up to which weights fit into 4 bits; 8 itself only with a minus."""


@frozen
class LayerAccuracy:
    """The rounding errors in the output of a layer.

    Attributes:
        name: of the layer.
        weights: their types, "by channel" where each output has a scale; "" if there are none.
        error: of the output in the quantized network.
        own: the error if both networks give the layer the same, what the floats give, rounded.

    An error is the root mean square over channels, the last axis, of their relative errors: the
    norm of integers less floats, divided by that of the floats, and at most 1.  So one large
    channel does not hide the loss of all others.
    """

    name: str
    weights: str
    error: float
    own: float

    @property
    def decibels(self) -> float:
        """The ratio of signal to noise; infinite without an error."""
        return -20 * math.log10(self.error) if self.error else math.inf


@frozen
class Comparison:
    """The accuracy of each layer of a quantized network; it prints as a table.

    Attributes:
        layers: in running order.
    """

    layers: tuple[LayerAccuracy, ...]

    @property
    def worst(self) -> LayerAccuracy:
        """The layer with the largest error of its own."""
        return max(self.layers, key=lambda layer: layer.own)

    def __str__(self) -> str:
        table = Table(box=None, pad_edge=False)
        table.add_column("layer")
        table.add_column("weights")
        for name in ("signal/noise", "error", "own error"):
            table.add_column(name, justify="right")
        for x in self.layers:
            name = f"{x.name} (worst)" if x is self.worst else x.name
            numbers = f"{x.decibels:.1f} dB", f"{x.error:.2%}", f"{x.own:.2%}"
            table.add_row(name, x.weights, *numbers)
        console = Console(width=120, color_system=None, markup=False, highlight=False)
        with console.capture() as text:
            console.print(table)
        return "\n".join(line.rstrip() for line in text.get().splitlines())


def compare(
    layers: Mapping[str, tuple[Any, ...]],
    batches: Iterable[Mapping[str, Array]],
    quantizations: Mapping[str, Quantization],
) -> Comparison:
    """Returns the accuracy that each layer of a quantized network loses, over batches of data.

    Args:
        layers: both networks in running order: by the name of its output, a layer or a function of
            floats, the same of integers, and the names of its inputs.
        batches: at least one; the inputs of the network in floats, by name.
        quantizations: of inputs and outputs, by name.

    Raises:
        ArgumentError: if there are no batches or no layers, a name comes before it is computed or
            has no quantization, or the outputs of a layer differ in their shapes.

    Example:
        >>> from tfn import numpy as jnp
        >>> one = Quantization(jnp.float32(1), jnp.int32(0))
        >>> layers = {"half": (lambda x: x / 2, lambda q: q // 2, "x")}
        >>> print(compare(layers, [{"x": jnp.array([3.0, 4.0])}], {"x": one, "half": one}))
        layer         weights  signal/noise   error  own error
        half (worst)                14.0 dB  20.00%     20.00%
    """
    for name, (floats, integers, *_) in layers.items():
        a_function("compare", f"layers[{name!r}][0]", floats)
        a_function("compare", f"layers[{name!r}][1]", integers)
    sums: dict[str, Any] = dict.fromkeys(layers, 0.0)
    for batch in batches:
        exact = dict(batch)
        got: dict[str, Array] = {}
        for name, (floats, integers, *inputs) in layers.items():
            if missing := {name, *inputs} - quantizations.keys() | {*inputs} - exact.keys():
                raise ArgumentError(
                    "compare needs layers in running order, and a quantization of each name",
                    got=f"{name!r} without {', '.join(sorted(missing))}",
                    hint="batches have the inputs of the network, quantizations all names",
                )
            rounded = [quantizations[x].quantize(exact[x]) for x in inputs]
            same = floats(*(quantizations[x].dequantize(q) for x, q in zip(inputs, rounded)))
            alone = integers(*rounded)
            exact[name] = floats(*(exact[x] for x in inputs))
            got[name] = integers(*(got.get(x, q) for x, q in zip(inputs, rounded)))
            if alone.shape != same.shape:
                raise ArgumentError(
                    f"the outputs of {name!r} differ in their shapes",
                    got=f"{same.shape} of floats, {alone.shape} of integers",
                    hint="compare the same point of both networks",
                )
            pairs = (got[name], exact[name]), (alone, same)
            sums[name] += np.stack([_squares(quantizations[name], *pair) for pair in pairs])
    if any(isinstance(x, float) for x in sums.values()) or not sums:
        raise ArgumentError(
            "compare needs data and layers",
            got=f"{len(sums)} layers, no batches" if sums else "no layers",
            hint="pass a list of some hundred examples",
        )
    return Comparison(
        tuple(
            LayerAccuracy(name, _weights(layers[name][1]), *map(_error, *both.swapaxes(0, 1)))
            for name, both in sums.items()
        )
    )


def _squares(quantization: Quantization, q: Array, x: Array) -> np.ndarray[Any, Any]:
    """The sums of squares of noise and of signal, by channel."""
    signal = np.asarray(x, np.float64)
    noise = np.asarray(quantization.dequantize(q), np.float64) - signal
    channels = signal.shape[-1] if signal.ndim > 1 else 1
    sums: np.ndarray[Any, Any] = np.square([noise, signal]).reshape(2, -1, channels).sum(1)
    return sums


def _error(noise: np.ndarray[Any, Any], signal: np.ndarray[Any, Any]) -> float:
    """The error of sums of squares by channel; channels of zeros do not count beside others."""
    counted = signal != 0
    if not counted.any():
        return float(noise.any())
    return math.sqrt(np.minimum(noise[counted] / signal[counted], 1.0).mean())


def _weights(layer: Any) -> str:
    """The types of the weights in a tree of quantized layers."""
    kinds = (Linear, Conv)
    found = set()
    for one in tree.leaves(layer, is_leaf=lambda x: isinstance(x, kinds)):
        if isinstance(one, kinds):
            weight = np.asarray(one.weight)
            small = weight.size and weight.min() >= -INT4 and weight.max() < INT4
            by_channel = one.requantization is not None and one.requantization.multiplier.ndim
            found.add(("int4" if small else "int8") + (" by channel" if by_channel else ""))
    return ", ".join(sorted(found))
