"""Train a network to read handwritten digits.

    python examples/mnist.py                  an MLP, 98% of the test images
    python examples/mnist.py --model cnn      a convolutional network, 99%
    python examples/mnist.py --devices 4      each batch divided among four devices
    python examples/mnist.py --resume         go on where the last run was interrupted

The devices are those of this process, or of all processes that were started together, each of which
reads its own rows of a batch:

    TFN_DEVICES=2 mpirun -n 2 python examples/mnist.py --devices 4

The images are in data/mnist beside this file.  Everything that computes is a pure function of
arrays: `step` maps parameters and optimizer state to new ones and is compiled whole.  The same seed
gives the same network, whatever the number of threads, and however often the run was interrupted;
on several devices the sums of gradients have another order, and losses differ in the last digits.
"""

from __future__ import annotations

import argparse
import gzip
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from command_line import add_training
from rich.console import Console

import tfn
from tfn import nn, random
from tfn import numpy as jnp
from tfn.config import config
from tfn.nn import optim
from tfn.nn.checkpoint import Checkpoints
from tfn.nn.data import Batches, Position
from tfn.nn.progress import Training, plot
from tfn.nn.state import parsing
from tfn.sharding import AxisType, NamedSharding
from tfn.sharding import PartitionSpec as P

DATA = Path(__file__).parent / "data" / "mnist"
EVALUATED = 1000  # test images at a time


class Images(NamedTuple):
    """Grey pixels, uint8[n, 28, 28], and the digits they show, uint8[n]."""

    pixels: tfn.Array
    digits: tfn.Array


def read_idx(path: Path) -> np.ndarray[Any, Any]:
    """An array of bytes in the format of the MNIST files: sizes, then values.

    Raises:
        StateError: if the file is damaged.
        OSError: if it cannot be read.
    """
    with parsing(path, "whole file of images or digits"):
        raw = gzip.decompress(path.read_bytes())
        if raw[:3] != b"\0\0\x08":
            raise ValueError(f"it begins with {raw[:3]!r}")
        ndim = raw[3]
        shape = np.frombuffer(raw, ">u4", ndim, 4)
        return np.frombuffer(raw, np.uint8, offset=4 + 4 * ndim).reshape(shape)


def load(part: str, count: int | None = None) -> Images:
    """The images of `part`, "train" or "t10k", or the first `count` of them."""
    pixels = read_idx(DATA / f"{part}-images-idx3-ubyte.gz")[:count]
    digits = read_idx(DATA / f"{part}-labels-idx1-ubyte.gz")[:count]
    return Images(jnp.asarray(pixels), jnp.asarray(digits))


@nn.module
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
    """An initialiser of a network, and its default training."""

    init: Callable[[random.Key], Any]
    epochs: int
    learning_rate: float


MODELS = {
    "mlp": Model(lambda key: nn.MLP.init(key, (784, 512, 10)), epochs=6, learning_rate=2e-3),
    "cnn": Model(CNN.init, epochs=3, learning_rate=2e-3),
}


def logits_of(network: Any, pixels: tfn.Array) -> tfn.Array:
    """Logits of digits, float32[n, 10], for images, uint8[n, 28, 28]."""
    logits: tfn.Array = network(pixels.reshape(pixels.shape[0], -1).astype(float) / 255)
    return logits


def loss_of(network: Any, images: Images) -> tfn.Array:
    """The mean cross entropy."""
    logits = logits_of(network, images.pixels)
    digits = images.digits.astype(int)
    return nn.softmax_cross_entropy_with_integer_labels(logits, digits).mean()


@tfn.jit
def count_right(network: Any, images: Images) -> tfn.Array:
    """The number of digits that the network classifies correctly."""
    return (logits_of(network, images.pixels).argmax(-1) == images.digits).sum()


def accuracy(network: Any, images: Images, rows: NamedSharding | None = None) -> float:
    """The fraction of digits that the network reads right."""
    batches = Batches(images, min(EVALUATED, len(images.digits)), sharding=rows)
    right = [count_right(network, batch) for batch in batches.stream(epochs=1, ahead=0)]
    return sum(map(int, right)) / len(images.digits)


def rows_over(devices: int) -> NamedSharding | None:
    """The rows of a batch divided among so many devices; None for one."""
    if tfn.process_count() == 1:
        config.devices = max(config.devices, devices)
    if devices == 1:
        return None
    return NamedSharding(tfn.make_mesh((devices,), ("data",), (AxisType.Auto,)), P("data"))


def copied(values: Any, rows: NamedSharding | None) -> Any:
    """Parameters and state, of which each device has all."""
    return values if rows is None else tfn.device_put(values, rows.with_spec(P()))


def make_step(optimizer: optim.GradientTransformation) -> Callable[..., Any]:
    """The compiled training step for an optimizer.

    Network and state are donated: the new ones take their memory.
    """

    def step(network: Any, state: Any, images: Images) -> Any:
        loss, slopes = tfn.value_and_grad(loss_of)(network, images)
        updates, state = optimizer.update(slopes, state, network)
        return optim.apply_updates(network, updates), state, loss

    compiled: Callable[..., Any] = tfn.jit(step, donate_argnums=(0, 1))
    return compiled


class Trained(NamedTuple):
    """The accuracy on the test images, and the loss of each step that was shown."""

    accuracy: float
    losses: list[float]


def train(options: argparse.Namespace, console: Console) -> Trained:
    """Train as the options say."""
    images, test_images = load("train", options.images), load("t10k", options.images)
    model, rows = MODELS[options.model], rows_over(options.devices)
    epochs = options.epochs or model.epochs
    init_key, shuffle_key = random.split(random.key(options.seed))
    size = min(options.batch_size, len(images.digits))
    batches = Batches(images, size, shuffle_key, sharding=rows)
    steps = epochs * len(batches)
    optimizer = optim.adam(optim.cosine_decay_schedule(model.learning_rate, steps, alpha=0.02))
    step = make_step(optimizer)

    run = f"mnist-{options.model}-{options.seed}-{epochs}x{len(batches)}x{batches.size}"
    checkpoints = Checkpoints(options.checkpoints / run)
    if not options.resume and tfn.process_index() == 0:
        checkpoints.clear()
    tfn.distributed.sync_global_devices("the folder is ready")
    network = model.init(init_key)
    done, now = checkpoints.resume((network, optimizer.init(network), Position()))
    network, state, position = now
    network, state = copied((network, state), rows)
    reached = accuracy(network, test_images, rows) if done >= steps else 0.0

    with (
        batches.stream(position, epochs=epochs) as stream,
        Training(steps, "images", done, quiet=options.quiet, console=console) as training,
    ):
        for batch in stream:
            network, state, loss = step(network, state, batch)
            training.step(batches.size, loss=loss)
            epoch, begun = stream.position
            if begun == 0:
                reached = accuracy(network, test_images, rows)
                training.note(f"epoch {epoch}: loss {loss.item():.4f}, test accuracy {reached:.2%}")
                checkpoints.save(training.done, (network, state, stream.position))
    if options.plot and tfn.process_index() == 0:
        plot(options.plot, training.history(), title=f"MNIST, {options.model}", log=True)
        training.note(f"the curve of losses is in {options.plot}")
    training.note(f"checkpoints are in {checkpoints.folder}")
    console.print(
        f"{options.model}: test accuracy {reached:.2%}, {training.summary()}",
        highlight=False,
        soft_wrap=True,
    )
    return Trained(reached, [x for _, x in training.history().get("loss", [])])


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options on the command line."""
    parser = argparse.ArgumentParser(description="Train a network to read handwritten digits.")
    parser.add_argument("--model", choices=MODELS, default="mlp")
    parser.add_argument("--epochs", type=int, help="6 for mlp, 3 for cnn by default")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0)
    add_training(parser)
    parser.add_argument("--devices", type=int, default=1, help="that divide each batch")
    parser.add_argument("--plot", type=Path, help="a PNG file for the curve of losses")
    parser.add_argument("--smoke", action="store_true", help="one epoch of 256 images")
    options = parser.parse_args(arguments)
    options.images = 256 if options.smoke else None
    if options.smoke:
        options.epochs = options.epochs or 1
    if options.devices < 1 or options.batch_size % options.devices:
        parser.error(f"--devices divides a batch of {options.batch_size} into equal parts")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Train; the exit status."""
    options = parse(arguments)
    if options.threads is not None:
        config.threads = options.threads
    tfn.distributed.initialize()
    console = Console(quiet=tfn.process_index() != 0)
    try:
        train(options, console)
    except KeyboardInterrupt:
        console.print("interrupted; --resume goes on from the last whole epoch")
        return 130
    finally:
        tfn.distributed.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
