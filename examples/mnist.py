"""Train a network to read handwritten digits.

    python examples/mnist.py                  an MLP, 98% of the test images
    python examples/mnist.py --model cnn      a convolutional network, 98.8%

The images are in data/mnist beside this file.  Everything that computes is a pure function of
arrays: `step` maps parameters and optimizer state to new ones and is compiled whole, gradients,
shuffled batches and all.  The same seed gives the same network, whatever the number of threads.
"""

from __future__ import annotations

import argparse
import gzip
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

import tfn
from tfn import lax, nn, random, tree
from tfn import numpy as jnp
from tfn.config import config
from tfn.nn import optim, schedules

DATA = Path(__file__).parent / "data" / "mnist"
EVALUATED = 1000  # test images at a time


class Images(NamedTuple):
    """Grey pixels, uint8[n, 28, 28], and the digits they show, uint8[n]."""

    pixels: tfn.Array
    digits: tfn.Array


def read_idx(path: Path) -> np.ndarray[Any, Any]:
    """An array of bytes in the format of the MNIST files: sizes, then values."""
    raw = gzip.decompress(path.read_bytes())
    ndim = raw[3]
    shape = np.frombuffer(raw, ">u4", ndim, 4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * ndim).reshape(shape)


def load(part: str, count: int | None = None) -> Images:
    """The images of `part`, "train" or "t10k", or the first `count` of them."""
    pixels = read_idx(DATA / f"{part}-images-idx3-ubyte.gz")[:count]
    digits = read_idx(DATA / f"{part}-labels-idx1-ubyte.gz")[:count]
    return Images(jnp.asarray(pixels), jnp.asarray(digits))


@tree.register_dataclass
@dataclass(frozen=True)
class CNN:
    """Two convolutions, each followed by pooling, then two linear layers."""

    first: nn.Conv2d
    second: nn.Conv2d
    hidden: nn.Linear
    out: nn.Linear

    @staticmethod
    def init(key: random.Key) -> CNN:
        """First values of all parameters."""
        keys = random.split(key, 4)
        he = nn.initializers.he_normal()
        return CNN(
            nn.Conv2d.init(keys[0], 1, 16, 3, padding="SAME", weight_init=he),
            nn.Conv2d.init(keys[1], 16, 32, 3, padding="VALID", weight_init=he),
            nn.Linear.init(keys[2], 6 * 6 * 32, 128, weight_init=he),
            nn.Linear.init(keys[3], 128, 10),
        )

    def __call__(self, x: tfn.Array) -> tfn.Array:
        """Logits of the ten digits, from images (n, 784)."""
        x = x.reshape(-1, 28, 28, 1)
        x = nn.max_pool(nn.relu(self.first(x)), 2)
        x = nn.max_pool(nn.relu(self.second(x)), 2)
        x = nn.relu(self.hidden(x.reshape(x.shape[0], -1)))
        return self.out(x)


class Model(NamedTuple):
    """How to make a network, and how to train it by default."""

    init: Callable[[random.Key], Any]
    epochs: int
    learning_rate: float


MODELS = {
    "mlp": Model(lambda key: nn.MLP.init(key, (784, 512, 10)), epochs=6, learning_rate=2e-3),
    "cnn": Model(CNN.init, epochs=3, learning_rate=2e-3),
}


def logits_of(network: Any, pixels: tfn.Array) -> tfn.Array:
    """What the network says of images, uint8[n, 28, 28]."""
    logits: tfn.Array = network(pixels.reshape(pixels.shape[0], -1).astype(float) / 255)
    return logits


def loss_of(network: Any, images: Images) -> tfn.Array:
    """The mean cross entropy."""
    logits = logits_of(network, images.pixels)
    digits = images.digits.astype(int)
    return nn.softmax_cross_entropy_with_integer_labels(logits, digits).mean()


@tfn.jit
def count_right(network: Any, images: Images) -> tfn.Array:
    """How many digits the network reads right."""
    return (logits_of(network, images.pixels).argmax(-1) == images.digits).sum()


def accuracy(network: Any, images: Images) -> float:
    """The fraction of digits that the network reads right."""
    total = len(images.digits)
    right = 0
    for at in range(0, total, EVALUATED):
        right += int(count_right(network, Images(*(x[at : at + EVALUATED] for x in images))))
    return right / total


def make_step(optimizer: optim.GradientTransformation, batch_size: int) -> Callable[..., Any]:
    """The compiled training step for an optimizer.

    The step takes batch number `i` of an epoch from the images in a random `order`.  Network and
    state are donated: the new ones take their memory.
    """

    def step(network: Any, state: Any, images: Images, order: tfn.Array, i: tfn.Array) -> Any:
        chosen = lax.dynamic_slice_in_dim(order, i * batch_size, batch_size)
        batch = Images(*(x[chosen] for x in images))
        loss, slopes = tfn.value_and_grad(loss_of)(network, batch)
        updates, state = optimizer.update(slopes, state, network)
        return optim.apply_updates(network, updates), state, loss

    compiled: Callable[..., Any] = tfn.jit(step, donate_argnums=(0, 1))
    return compiled


def progress_bar(console: Console, shown: bool) -> Progress:
    """Epoch, bar, loss, speed and the time that is left."""
    return Progress(
        TextColumn("epoch {task.fields[epoch]}"), BarColumn(),
        TextColumn("loss {task.fields[loss]:.4f}  {task.fields[speed]:>9,.0f} images/s"),
        TimeRemainingColumn(), console=console, disable=not shown, transient=True,
    )  # fmt: skip


def train(options: argparse.Namespace, console: Console) -> float:
    """Train as the options say; the accuracy on the test images."""
    train_images = load("train", options.images)
    test_images = load("t10k", options.images)
    model = MODELS[options.model]
    epochs = options.epochs or model.epochs
    batch_size = min(options.batch_size, len(train_images.digits))
    steps = len(train_images.digits) // batch_size
    rate = schedules.cosine_decay_schedule(model.learning_rate, epochs * steps, alpha=0.02)
    optimizer = optim.adam(rate)
    step = make_step(optimizer, batch_size)

    init_key, shuffle_key = random.split(random.key(options.seed))
    network = model.init(init_key)
    state = optimizer.init(network)
    shown = console.is_terminal and not options.quiet
    first_seconds, running_seconds, reached = 0.0, 0.0, math.nan

    for epoch in range(epochs):
        order = random.permutation(random.fold_in(shuffle_key, epoch), len(train_images.digits))
        with progress_bar(console, shown) as progress:
            task = progress.add_task("", total=steps, epoch=epoch + 1, loss=math.nan, speed=0)
            began = time.perf_counter()
            for i in range(steps):
                network, state, loss = step(network, state, train_images, order, i)
                if epoch == i == 0:
                    loss.block_until_ready()
                    first_seconds = time.perf_counter() - began
                    began = time.perf_counter()
                if shown:
                    seconds = time.perf_counter() - began
                    speed = i * batch_size / seconds if i else 0
                    progress.update(task, advance=1, loss=loss.item(), speed=speed)
            last_loss = loss.item()
            running_seconds += time.perf_counter() - began
        reached = accuracy(network, test_images)
        if not options.quiet:
            console.print(f"epoch {epoch + 1}: loss {last_loss:.4f}, test accuracy {reached:.2%}",
                          highlight=False)  # fmt: skip

    step_seconds = running_seconds / max(epochs * steps - 1, 1)
    console.print(
        f"{options.model}: test accuracy {reached:.2%}, compiled in {first_seconds:.2f} s, "
        f"{step_seconds * 1e3:.2f} ms a step, {batch_size / step_seconds:,.0f} images/s",
        highlight=False,
    )
    return reached


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options on the command line."""
    parser = argparse.ArgumentParser(description="Train a network to read handwritten digits.")
    parser.add_argument("--model", choices=MODELS, default="mlp")
    parser.add_argument("--epochs", type=int, help="6 for mlp, 3 for cnn by default")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, help="of the CPU device; one per core by default")
    parser.add_argument("--quiet", action="store_true", help="print only the last line")
    parser.add_argument("--smoke", action="store_true", help="one epoch of 256 images")
    options = parser.parse_args(arguments)
    options.images = 256 if options.smoke else None
    if options.smoke:
        options.epochs = options.epochs or 1
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Train; the exit status."""
    options = parse(arguments)
    if options.threads is not None:
        config.threads = options.threads
    console = Console()
    try:
        train(options, console)
    except KeyboardInterrupt:
        console.print("interrupted; nothing was saved")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
