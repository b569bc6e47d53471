"""The quantized MNIST example: its accuracy on the real images, and its bits everywhere."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import mnist
import numpy as np
import pytest
import quantized_mnist
from quantized_mnist import Quantizations, QuantizedCNN

import tfn
from tests.exporting.building import COMPILERS, in_c, needs_cc
from tfn import random
from tfn.config import config
from tfn.nn import quantize
from tfn.trace.uop import walk


@pytest.fixture(scope="module")
def network() -> QuantizedCNN:
    """Trained on the real images for an epoch, in floats, and converted."""
    images = mnist.load("train")
    floats = quantized_mnist.trained(mnist.CNN.init(random.key(0)), images, 1, 2e-3)
    ranges = quantize.calibrate(
        lambda x: quantized_mnist.activations(floats, x), [images.pixels[:500]]
    )
    return QuantizedCNN.of(floats, Quantizations.of(ranges))


def test_it_reads_the_real_test_images(network: QuantizedCNN) -> None:
    assert quantized_mnist.accuracy(network, mnist.load("t10k")) >= 0.98


def test_it_has_no_floats(network: QuantizedCNN) -> None:
    pixels = mnist.load("t10k", 2).pixels
    jaxpr = tfn.jit(quantized_mnist.digits_of).trace(network, pixels).jaxpr
    assert {u.dtype.kind for u in walk(jaxpr.outputs)} <= set("iub")


def test_devices_agree_bit_by_bit(network: QuantizedCNN, monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = np.asarray(mnist.load("t10k", 3).pixels)
    expected = np.asarray(tfn.jit(network)(pixels))
    monkeypatch.setattr(config, "device", "python")
    assert (np.asarray(tfn.jit(network)(pixels)) == expected).all()


@pytest.mark.skipif(
    not shutil.which("qemu-hexagon"), reason="qemu-hexagon is not installed: apt install qemu-user"
)
def test_the_dsp_agrees_bit_by_bit(network: QuantizedCNN, monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = np.asarray(mnist.load("t10k", 3).pixels)
    expected = np.asarray(tfn.jit(network)(pixels))
    monkeypatch.setattr(config, "device", "dsp")
    assert (np.asarray(tfn.jit(network)(pixels)) == expected).all()


@needs_cc
def test_exported_c_agrees_bit_by_bit(network: QuantizedCNN, tmp_path: Path) -> None:
    pixels = np.asarray(mnist.load("t10k", 20).pixels)
    expected = np.asarray(tfn.jit(network)(pixels))

    def logits(network: Any, pixels: Any) -> Any:
        return network(pixels)

    (got,) = in_c(logits, network, pixels, folder=tmp_path, compiler=COMPILERS[:1])
    assert (got == expected).all()


def test_smoke_trains_with_fake_quantization(capsys: pytest.CaptureFixture[str]) -> None:
    assert quantized_mnist.main(["--smoke", "--epochs", "20", "--fine-tune", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    figures = [float(line.split()[-1].rstrip("%")) for line in lines[:3]]
    assert min(figures) > 60  # of 256 images
    assert abs(figures[2] - figures[0]) < 6
