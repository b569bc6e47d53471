"""Read handwritten digits by integer arithmetic only: a network of int8 values.

    python examples/quantized_mnist.py                     train, calibrate, convert: 98.87%
    python examples/quantized_mnist.py --fine-tune 0       without quantization-aware training
    python examples/quantized_mnist.py --export digit.c    the quantized network as a file in C

The CNN of `mnist.py` is trained in floats, its activations are observed on training images, and it
is trained a little more with fake quantization.  Its conversion holds no float: pixels are
subtracted, int8 values are multiplied, int32 sums are requantized.  So it gives the same bits on
every device, and in the exported file.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mnist

import tfn
from tfn import nn, random
from tfn import numpy as jnp
from tfn.nn import optim, quantize
from tfn.nn.data import Batches

BATCH = 128
CALIBRATED = 1000  # training images whose activations are observed
PIXEL_ZERO = -128  # a pixel of 0 to 255 becomes the int8 value that is 128 less


@nn.module
class Quantizations:
    """Scales and zero points of what flows between the layers."""

    pixels: quantize.Quantization
    first: quantize.Quantization
    second: quantize.Quantization
    hidden: quantize.Quantization

    @staticmethod
    def of(ranges: dict[str, quantize.Range]) -> Quantizations:
        """Those that cover the ranges of activations."""
        pixels = quantize.Quantization(jnp.float32(1 / 255), jnp.int32(PIXEL_ZERO))
        return Quantizations(pixels, *(ranges[n].quantization() for n in RANGES))


RANGES = ("first", "second", "hidden")


def activations(network: mnist.CNN, pixels: tfn.Array) -> dict[str, tfn.Array]:
    """What the layers of the network give."""
    return forward(network, pixels, None)[1]


def forward(
    network: mnist.CNN, pixels: tfn.Array, quantizations: Quantizations | None
) -> tuple[tfn.Array, dict[str, tfn.Array]]:
    """Logits and activations; fake-quantized if there are quantizations."""

    def rounded(x: tfn.Array, name: str) -> tfn.Array:
        if quantizations is None:
            return x
        return quantize.fake_quantize(x, getattr(quantizations, name))

    x = rounded(pixels.astype(float) / 255, "pixels")[..., None]
    first = rounded(nn.relu(network.first(x)), "first")
    second = rounded(nn.relu(network.second(nn.max_pool(first, 2))), "second")
    x = nn.max_pool(second, 2).reshape(pixels.shape[0], -1)
    hidden = rounded(nn.relu(network.hidden(x)), "hidden")
    return network.out(hidden), {"first": first, "second": second, "hidden": hidden}


@nn.module
class QuantizedCNN:
    """`mnist.CNN` as integers."""

    first: quantize.Conv
    second: quantize.Conv
    hidden: quantize.Linear
    out: quantize.Linear

    @staticmethod
    def of(network: mnist.CNN, at: Quantizations) -> QuantizedCNN:
        """A network of floats as integers; max pooling keeps scales and zero points."""
        return QuantizedCNN(
            quantize.Conv.of(network.first, at.pixels, at.first, relu=True),
            quantize.Conv.of(network.second, at.first, at.second, relu=True),
            quantize.Linear.of(network.hidden, at.second, at.hidden, relu=True),
            quantize.Linear.of(network.out, at.hidden, None),
        )

    def __call__(self, pixels: tfn.Array) -> tfn.Array:
        """Logits, int32[n, 10], of images, uint8[n, 28, 28]."""
        x = (pixels.astype("int32") + PIXEL_ZERO).astype("int8")[..., None]
        x = nn.max_pool(self.first(x), 2)
        x = nn.max_pool(self.second(x), 2)
        return self.out(self.hidden(x.reshape(x.shape[0], -1)))


def digits_of(network: QuantizedCNN, pixels: tfn.Array) -> tfn.Array:
    """The digits that a quantized network reads, int32[n]."""
    return network(pixels).argmax(-1).astype("int32")


@tfn.jit
def count_right(network: QuantizedCNN, images: mnist.Images) -> tfn.Array:
    """The number of digits that are read right."""
    return (digits_of(network, images.pixels) == images.digits).sum()


def accuracy(network: QuantizedCNN, images: mnist.Images) -> float:
    """The fraction of digits that are read right."""
    batches = Batches(images, min(mnist.EVALUATED, len(images.digits))).stream(epochs=1, ahead=0)
    return sum(int(count_right(network, batch)) for batch in batches) / len(images.digits)


def trained(
    network: mnist.CNN,
    images: mnist.Images,
    epochs: float,
    learning_rate: float,
    quantizations: Quantizations | None = None,
) -> mnist.CNN:
    """The network after some epochs; with fake quantization if there are quantizations."""
    batches = Batches(images, min(BATCH, len(images.digits)), random.key(1))
    steps = int(epochs * len(batches))
    if not steps:
        return network
    optimizer = optim.adam(optim.cosine_decay_schedule(learning_rate, steps, alpha=0.02))

    def loss_of(network: mnist.CNN, batch: mnist.Images) -> tfn.Array:
        if quantizations is not None:
            network = quantize.fake_weights(network)
        logits, _ = forward(network, batch.pixels, quantizations)
        labels = batch.digits.astype(int)
        return nn.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    @tfn.jit
    def step(network: Any, state: Any, batch: mnist.Images) -> Any:
        slopes = tfn.grad(loss_of)(network, batch)
        updates, state = optimizer.update(slopes, state, network)
        return optim.apply_updates(network, updates), state

    state = optimizer.init(network)
    with batches.stream() as stream:
        for _, batch in zip(range(steps), stream):
            network, state = step(network, state, batch)
    return network


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, calibrate, convert; the exit status."""
    parser = argparse.ArgumentParser(description="Train a network of int8 values on MNIST.")
    parser.add_argument("--epochs", type=float, default=2.0, help="in floats; %(default)s")
    parser.add_argument("--fine-tune", type=float, default=0.5, help="epochs; %(default)s")
    parser.add_argument("--export", type=Path, help="a file for the quantized network: .c, .o, .so")
    parser.add_argument("--smoke", action="store_true", help="256 images")
    options = parser.parse_args(arguments)
    count = 256 if options.smoke else None
    images, test_images = mnist.load("train", count), mnist.load("t10k", count)

    network = trained(mnist.CNN.init(random.key(0)), images, options.epochs, 2e-3)
    print(f"float32: test accuracy {mnist.accuracy(network, test_images):.2%}")
    calibrating = [images.pixels[:CALIBRATED]]
    ranges = quantize.calibrate(tfn.jit(lambda x: activations(network, x)), calibrating)
    at = Quantizations.of(ranges)
    converted = QuantizedCNN.of(network, at)
    reached = accuracy(converted, test_images)
    print(f"int8, converted: test accuracy {reached:.2%}")
    if options.fine_tune:
        network = trained(network, images, options.fine_tune, 2e-4, at)
        converted = QuantizedCNN.of(network, at)
        reached = accuracy(converted, test_images)
        print(f"int8, trained with fake quantization: test accuracy {reached:.2%}")
    if options.export:
        made = tfn.export(
            digits_of, converted, test_images.pixels[:1], path=options.export, embed=0
        )
        print(*(f"{path}: {path.stat().st_size:,} bytes" for path in made.files), sep="\n")
    print(f"quantized_mnist: {nn.parameter_count(converted):,} integers, {reached:.2%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
