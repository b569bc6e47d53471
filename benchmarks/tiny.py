"""The four networks of MLPerf Tiny as C for microcontrollers: bytes, and instructions on qemu.

    python -m benchmarks.tiny
    python -m benchmarks.tiny --only keywords --target cortex-m55 --flags=-O3

Weights are random: neither bytes nor instructions depend on them.  Needs arm-none-eabi-gcc and
qemu-system-arm.  Beside are the bytes of the models of the benchmark's authors in TensorFlow Lite,
without an interpreter, from Banbury et al. 2021, "MLPerf Tiny benchmark", arXiv:2106.07597.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import tfn
from tests.exporting.boards import BOARDS, on_board
from tfn import nn, random
from tfn import numpy as jnp
from tfn.nn import quantize

UNIT = quantize.Quantization(jnp.float32(1 / 40), jnp.int32(-128))
PUBLISHED_KB = {"images": 96, "people": 325, "keywords": 52.5, "anomalies": 270}
POINTWISE = [
    *((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2)),
    *([(128, 1)] * 5),
    *((256, 2), (256, 1)),
]
"""Channels and strides of MobileNet with a quarter of the channels."""


def _keys() -> Iterator[Any]:
    key = random.key(0)
    while True:
        key, one = random.split(key)
        yield one


KEYS = _keys()


def conv(inputs: int, outputs: int, size: Any, stride: Any = 1, groups: int = 1) -> Any:
    """A quantized convolution with a bound below."""
    layer = nn.Conv2d.init(
        next(KEYS), inputs, outputs, size, strides=stride, padding="SAME", groups=groups
    )
    return quantize.Conv.of(layer, UNIT, UNIT, relu=True)


def linear(inputs: int, outputs: int, last: bool = False) -> Any:
    """A quantized linear layer; of one scale, as those of the published models."""
    layer = nn.Linear.init(next(KEYS), inputs, outputs)
    y = None if last else UNIT
    return quantize.Linear.of(layer, UNIT, y, relu=not last, per_channel=False)


def mean(x: Any) -> Any:
    """The mean of each channel."""
    return (x.astype("int32").sum((1, 2)) // (x.shape[1] * x.shape[2])).astype("int8")


@nn.module
class Chain:
    """Layers one after the other, then means of channels, and scores."""

    layers: tuple[Any, ...]
    out: Any

    def __call__(self, x: Any) -> Any:  # noqa: D102
        for layer in self.layers:
            x = layer(x)
        return self.out(mean(x) if x.ndim == 4 else x)


@nn.module
class Residual:
    """Two convolutions, and their input added to the result."""

    first: Any
    second: Any
    skip: Any

    def __call__(self, x: Any) -> Any:  # noqa: D102
        y = self.second(self.first(x)).astype("int32")
        beside = (x if self.skip is None else self.skip(x)).astype("int32")
        return jnp.clip((y + beside + 1) >> 1, -128, 127).astype("int8")


def people() -> tuple[Any, tuple[int, ...]]:
    """MobileNet on images of 96 by 96, a quarter of the channels."""
    layers = [conv(3, 8, 3, 2)]
    channels = 8
    for outputs, stride in POINTWISE:
        layers += [conv(channels, channels, 3, stride, channels), conv(channels, outputs, 1)]
        channels = outputs
    return Chain(tuple(layers), linear(256, 2, last=True)), (1, 96, 96, 3)


def keywords() -> tuple[Any, tuple[int, ...]]:
    """DS-CNN on 49 frames of 10 coefficients."""
    layers = [conv(1, 64, (10, 4), 2)]
    for _ in range(4):
        layers += [conv(64, 64, 3, 1, 64), conv(64, 64, 1)]
    return Chain(tuple(layers), linear(64, 12, last=True)), (1, 49, 10, 1)


def images() -> tuple[Any, tuple[int, ...]]:
    """ResNet of 8 layers on images of 32 by 32."""
    blocks = [Residual(conv(16, 16, 3), conv(16, 16, 3), None)]
    for i, o in ((16, 32), (32, 64)):
        blocks.append(Residual(conv(i, o, 3, 2), conv(o, o, 3), conv(i, o, 1, 2)))
    return Chain((conv(3, 16, 3), *blocks), linear(64, 10, last=True)), (1, 32, 32, 3)


def anomalies() -> tuple[Any, tuple[int, ...]]:
    """An autoencoder of 640 numbers, fully connected."""
    sizes = [640, *[128] * 4, 8, *[128] * 4]
    layers = [linear(i, o) for i, o in pairwise(sizes)]
    return Chain(tuple(layers), linear(128, 640)), (1, 640)


NETWORKS: dict[str, Callable[[], tuple[Any, tuple[int, ...]]]] = {
    "keywords": keywords,
    "images": images,
    "people": people,
    "anomalies": anomalies,
}


def row(name: str, target: str, flags: list[str]) -> str:
    """The figures of a network on the board of a core."""
    network, shape = NETWORKS[name]()
    x = np.random.default_rng(0).integers(-128, 128, shape).astype("int8")
    call = lambda network, x: network(x)
    with tempfile.TemporaryDirectory() as folder:
        made = on_board(
            call,
            network,
            x,
            folder=Path(folder),
            target=target,
            flags=flags,
            embed=(0,),
            at_all_levels=True,
        )
    same = np.array_equal(made.outputs[0], np.asarray(tfn.jit(call)(network, x)))
    found = made.exported.figures
    kilobytes = (made.code_bytes + made.constant_bytes) / 1024
    return (
        f"{name:10} {target:11} {'same bits' if same else 'OTHER BITS':10}"
        f" {found.multiply_adds:11,} {made.instructions / found.multiply_adds:7.2f}"
        f" {made.code_bytes:7,} {made.constant_bytes:8,} {kilobytes:6.1f} {PUBLISHED_KB[name]:6}"
        f" {found.arena_bytes:7,} {made.stack_bytes:6} {found.stack_bytes:6}"
    )


def main() -> None:
    """Print a row for each network and core."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=NETWORKS, action="append")
    parser.add_argument("--target", choices=BOARDS, action="append")
    parser.add_argument("--flags", default="-Os")
    options = parser.parse_args()
    print(
        f"{'network':10} {'core':11} {'beside jit':10} {'mult-adds':>11} {'ins/ma':>7} {'code':>7}"
        f" {'weights':>8} {'flash':>6} {'tflite':>6} {'arena':>7} {'stack':>6} {'stated':>6}"
    )
    for name in options.only or NETWORKS:
        for target in options.target or ("cortex-m4", "cortex-m55"):
            print(row(name, target, options.flags.split()), flush=True)


if __name__ == "__main__":
    main()
