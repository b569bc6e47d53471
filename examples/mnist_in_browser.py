"""Two pages on WebGPU, or WebAssembly: one reads digits, in the other a network learns to.

    python examples/mnist_in_browser.py
    python -m http.server --directory examples/export      then open http://localhost:8000

`digit` takes one picture and gives ten probabilities; its weights, trained here, are beside it.
`step` is a step of training, whose state stays on the GPU, and `right` counts digits that are read.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

import mnist

import tfn
from tfn import nn, random
from tfn.nn import optim

HERE = Path(__file__).parent / "export"
BATCH = 128
OPTIMIZER = optim.adam(2e-3)


def trained(epochs: int, count: int | None) -> Any:
    """A network that reads digits, trained for `epochs` on the first `count` images."""
    images = mnist.load("train", count)
    steps = len(images.digits) // BATCH
    optimizer = optim.adam(optim.cosine_decay_schedule(2e-3, epochs * steps, alpha=0.02))
    step = mnist.make_step(optimizer)
    init_key, key = random.split(random.key(0))
    network = mnist.MODELS["mlp"].init(init_key)
    state = optimizer.init(network)
    for epoch in range(epochs):
        order = random.permutation(random.fold_in(key, epoch), len(images.digits))
        for i in range(steps):
            chosen = order[i * BATCH : (i + 1) * BATCH]
            network, state, _ = step(network, state, mnist.Images(*(x[chosen] for x in images)))
    return network


def digit(network: Any, pixels: tfn.Array) -> tfn.Array:
    """Probabilities of the ten digits, float32[10], for a picture uint8[28, 28]."""
    return nn.softmax(mnist.logits_of(network, pixels[None])[0])


def write_training(folder: Path) -> None:
    """Write the functions that train in a page, and the images, as they are."""
    network = mnist.MODELS["mlp"].init(random.key(0))
    batch, thousand = (
        mnist.Images(
            tfn.ShapeDtypeStruct((n, 28, 28), "uint8"), tfn.ShapeDtypeStruct((n,), "uint8")
        )
        for n in (BATCH, mnist.EVALUATED)
    )
    step = mnist.make_step(OPTIMIZER)
    tfn.export(step, network, OPTIMIZER.init(network), batch, path=folder / "step.js")
    tfn.export(mnist.count_right, network, thousand, path=folder / "right.js")
    for file in mnist.DATA.glob("*.gz"):
        shutil.copy(file, folder)


def main(arguments: list[str] | None = None) -> int:
    """Train and write; the exit status."""
    parser = argparse.ArgumentParser(description="Write the pages of MNIST.")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--images", type=int, help="how many to train on; all by default")
    parser.add_argument("--path", type=Path, default=HERE / "build" / "digit.js")
    parser.add_argument("--smoke", action="store_true", help="one epoch, into ./digit.js")
    options = parser.parse_args(arguments)
    if options.smoke:
        parser.set_defaults(epochs=1, images=1280, path=Path("digit.js"))
        options = parser.parse_args(arguments)
    network = trained(options.epochs, options.images)
    options.path.parent.mkdir(parents=True, exist_ok=True)
    pixels = tfn.ShapeDtypeStruct((28, 28), "uint8")
    exported = tfn.export(digit, network, pixels, path=options.path, embed="network")
    write_training(options.path.parent)
    tests = mnist.load("t10k")
    print(
        f"{options.path.resolve()}: {sum(f.stat().st_size for f in exported.files):,} bytes, "
        f"test accuracy {mnist.accuracy(network, tests):.2%}; now"
    )
    print(f"    python -m http.server --directory {HERE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
