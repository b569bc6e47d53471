"""A network of another library is fine-tuned, and read the same by all that it is given on to."""

from __future__ import annotations

from pathlib import Path

import mnist
import numpy as np
import onnx_finetune
import pytest

import tfn
from tfn.nn.progress import Training


def test_the_file_reads_the_digits_that_it_has_seen() -> None:
    images, model = mnist.load("t10k", 500), tfn.onnx.load(onnx_finetune.FILE)
    logits = np.asarray(onnx_finetune.logits_of(model, images.pixels))
    digits = np.asarray(images.digits)
    right = logits.argmax(-1) == digits
    assert right[digits < 5].mean() > 0.9 and right[digits >= 5].mean() < 0.1


def test_it_learns_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images, model = mnist.load("train", 2048), tfn.onnx.load(onnx_finetune.FILE)
    with Training(16, "images", quiet=True) as training:
        model = onnx_finetune.finetune(model, images, 1, training)
    losses = [loss for _, loss in training.history()["loss"]]
    assert losses[-1] < losses[0] / 2
    assert onnx_finetune.main(["--smoke", "--quiet", "--folder", str(tmp_path)]) == 0
    assert "differs" not in capsys.readouterr().out
    assert {"digits.onnx", "digits.c", "digits.h"} <= {file.name for file in tmp_path.iterdir()}
