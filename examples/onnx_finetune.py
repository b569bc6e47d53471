"""Fine-tune a network that PyTorch exported, and give it on: as C, and as an ONNX file.

    python examples/onnx_finetune.py --folder build        49% of the test images before, 96% after
    cc -O2 -ffp-contract=off -Ibuild examples/export/classify.c build/digits.c -o classify
    ./classify build/images.bin                            the digits of the first test images

The file, data/onnx/digits.onnx, has seen the digits 0 to 4 alone.  A model that was loaded is a
pytree of its parameters, so training it is the loop of any other network.  Where a C compiler is
installed, the C is run beside the compiled function; where onnxruntime is, so is the new file.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mnist
import numpy as np
from rich.console import Console

import tfn
from tfn import nn, random
from tfn.nn import optim
from tfn.nn.data import Batches
from tfn.nn.progress import Training

FILE = Path(__file__).parent / "data" / "onnx" / "digits.onnx"
MAIN = Path(__file__).parent / "export" / "classify.c"
SHOWN = 20  # images that the exported programs read


def pictures(pixels: Any) -> Any:
    """Images as the file takes them: float32[n, 1, 28, 28] from 0 to 1."""
    return pixels[:, None].astype("float32") / np.float32(255)


def logits_of(model: tfn.onnx.Model, pixels: tfn.Array) -> tfn.Array:
    """Logits of digits, float32[n, 10], for images, uint8[n, 28, 28]."""
    logits: tfn.Array = model(image=pictures(pixels))["logits"]
    return logits


def loss_of(model: tfn.onnx.Model, images: mnist.Images) -> tfn.Array:
    """The mean cross entropy."""
    logits = logits_of(model, images.pixels)
    return nn.softmax_cross_entropy_with_integer_labels(logits, images.digits.astype(int)).mean()


@tfn.jit
def count_right(model: tfn.onnx.Model, images: mnist.Images) -> tfn.Array:
    """The number of digits that the model reads right."""
    return (logits_of(model, images.pixels).argmax(-1) == images.digits).sum()


def accuracy(model: tfn.onnx.Model, images: mnist.Images) -> float:
    """The fraction of digits that the model reads right."""
    batches = Batches(images, min(mnist.EVALUATED, len(images.digits)))
    right = [count_right(model, batch) for batch in batches.stream(epochs=1, ahead=0)]
    return sum(map(int, right)) / len(images.digits)


def finetune(
    model: tfn.onnx.Model, images: mnist.Images, epochs: int, training: Training
) -> tfn.onnx.Model:
    """The model after so many epochs of Adam."""
    optimizer = optim.adam(1e-3)

    @tfn.jit
    def step(model: tfn.onnx.Model, state: Any, batch: mnist.Images) -> Any:
        loss, slopes = tfn.value_and_grad(loss_of)(model, batch)
        updates, state = optimizer.update(slopes, state, model)
        return optim.apply_updates(model, updates), state, loss

    state = optimizer.init(model)
    batches = Batches(images, min(128, len(images.digits)), random.key(0))
    for batch in batches.stream(epochs=epochs):
        model, state, loss = step(model, state, batch)
        training.step(batches.size, loss=loss)
    return model


def in_c(folder: Path, images: np.ndarray[Any, Any]) -> list[int] | None:
    """The digits that the exported C reads; None without a compiler."""
    images.tofile(folder / "images.bin")
    if not shutil.which("cc"):
        return None
    program = folder / "classify"
    flags = ["-O2", "-ffp-contract=off", f"-I{folder}"]
    subprocess.run(["cc", *flags, MAIN, folder / "digits.c", "-o", program], check=True)
    out = subprocess.run(
        [program, folder / "images.bin"], check=True, capture_output=True, text=True
    )
    return [int(digit) for digit in out.stdout.strip()]


def in_onnxruntime(path: Path, images: np.ndarray[Any, Any]) -> list[int] | None:
    """The digits that onnxruntime reads by the new file; None if it is not installed."""
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    runtime = importlib.import_module("onnxruntime")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return [int(n) for n in session.run(["output"], {"image": images})[0].argmax(-1)]


def run(options: argparse.Namespace, console: Console) -> None:
    """Fine-tune and export as the options say."""
    images, tests = mnist.load("train", options.images), mnist.load("t10k", options.images)
    model = tfn.onnx.load(FILE)
    before = accuracy(model, tests)
    steps = options.epochs * len(Batches(images, min(128, len(images.digits))))
    with Training(steps, "images", quiet=options.quiet, console=console) as training:
        model = finetune(model, images, options.epochs, training)
    after = accuracy(model, tests)

    options.folder.mkdir(parents=True, exist_ok=True)
    (batch,) = tfn.export.symbolic_shape("batch")
    saved = options.folder / "digits.onnx"

    def network(image: tfn.Array) -> tfn.Array:
        logits: tfn.Array = model(image=image)["logits"]
        return logits

    tfn.onnx.save(network, tfn.ShapeDtypeStruct((batch, 1, 28, 28), "float32"), path=saved)
    one = tfn.ShapeDtypeStruct((1, 1, 28, 28), "float32")
    tfn.export(network, one, path=options.folder / "digits.c")

    pixels = pictures(tests.pixels[:SHOWN])
    shown = np.asarray(pixels)
    want = [int(n) for n in np.asarray(tfn.jit(network)(pixels)).argmax(-1)]
    others = {
        "tfn.onnx.load": [int(n) for n in tfn.onnx.load(saved)(shown)["output"].argmax(-1)],
        "C": in_c(options.folder, shown),
        "onnxruntime": in_onnxruntime(saved, shown),
    }
    for name, got in others.items():
        how = "not run here" if got is None else "the same" if got == want else f"differs: {got}"
        console.print(f"digits of {SHOWN} images by {name}: {how}", highlight=False)
    console.print(
        f"onnx_finetune: test accuracy {before:.2%} before, {after:.2%} after, {steps} steps; "
        f"files in {options.folder.resolve()}",
        highlight=False,
        soft_wrap=True,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Fine-tune and export; the exit status."""
    parser = argparse.ArgumentParser(description="Fine-tune a network that PyTorch exported.")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path("build"), help="of the files; build")
    parser.add_argument("--quiet", action="store_true", help="no bar of progress")
    parser.add_argument("--smoke", action="store_true", help="one epoch of 256 images")
    options = parser.parse_args(arguments)
    options.images = 256 if options.smoke else None
    if options.smoke:
        options.epochs = 1
    run(options, Console())
    return 0


if __name__ == "__main__":
    sys.exit(main())
