"""Train on private data: no single image changes what is learned by more than one can state.

    python examples/per_example_grads.py             93% of the digits, epsilon 1.4
    python examples/per_example_grads.py --noise 4   more noise: it learns and tells less
    python examples/per_example_grads.py --resume    go on where the last run was interrupted

Each step takes a random part of the images, computes a gradient for *each* of them, which is
`vmap(grad(loss))`, shortens those that are too long, adds them up, and adds noise in proportion to
what the longest could have contributed.  An observer of all the steps, who knows all images but
one, then learns whether that one was there only up to (epsilon, delta): the odds change by no more
than a factor of exp(epsilon), but for chances of delta.

Source: Abadi et al. 2016, "Deep learning with differential privacy", arXiv:1607.00133.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from command_line import add_training, parsed, run
from mnist import Images, accuracy, load, logits_of
from rich.console import Console

import tfn
from tfn import nn, random, tree
from tfn import numpy as jnp
from tfn.nn import optim
from tfn.nn.checkpoint import Checkpoints
from tfn.nn.progress import Training

ORDERS = range(2, 65)
DELTA = 1e-5


def renyi(order: int, rate: float, noise: float) -> float:
    """The privacy loss of a step, as a Renyi divergence of an order.

    Args:
        rate: the chance of each example to be taken.
        noise: standard deviation of the noise, in units of the longest gradient.

    Source: Mironov, Talwar, Zhang 2019, arXiv:1908.10530, section 3.3: the sum over k of
    C(order, k) (1 - rate)^(order - k) rate^k exp((k^2 - k) / (2 noise^2)).
    """
    terms = [
        math.log(math.comb(order, k))
        + k * math.log(rate)
        + (order - k) * (math.log1p(-rate) if rate < 1 else -math.inf if k < order else 0.0)
        + (k * k - k) / (2 * noise**2)
        for k in range(order + 1)
    ]
    return float(np.logaddexp.reduce(terms)) / (order - 1)


def epsilon(steps: int, rate: float, noise: float, delta: float = DELTA) -> float:
    """The privacy loss of all steps, for a probability delta: the best bound of all orders.

    Source: Canonne, Kamath, Steinke 2020, arXiv:2004.00010, proposition 12.
    """
    bounds = [
        steps * renyi(order, rate, noise)
        + math.log1p(-1 / order)
        - (math.log(delta) + math.log(order)) / (order - 1)
        for order in ORDERS
    ]
    return max(0.0, min(bounds)) if steps else 0.0


# One step.


def loss_of_one(network: nn.MLP, image: Images) -> tfn.Array:
    """The cross entropy of one image, uint8[28, 28], and its digit."""
    logits = logits_of(network, image.pixels[None])[0]
    return nn.softmax_cross_entropy_with_integer_labels(logits, image.digits.astype(int))


def take(images: Images, rate: float, room: int, key: random.Key) -> tuple[Images, tfn.Array]:
    """Images, each of which is there by chance; and which of the rows hold one.

    How many there are is part of what must not be told, so there are always as many rows.
    """
    sampled = random.bernoulli(key, rate, images.digits.shape)
    rows = jnp.nonzero(sampled, size=room, fill_value=0)[0]
    return tree.map(lambda x: x[rows], images), jnp.arange(room) < sampled.sum()


def private_gradient(
    network: nn.MLP,
    images: Images,
    real: tfn.Array,
    key: random.Key,
    *,
    longest: float,
    noise: float,
) -> tuple[nn.MLP, tfn.Array]:
    """The noisy sum of gradients that are no longer than they may be; the mean of losses."""
    of_each = tfn.vmap(tfn.value_and_grad(loss_of_one), in_axes=(None, 0))
    losses, slopes = of_each(network, images)
    lengths = tfn.vmap(optim.global_norm)(slopes)
    shares = jnp.where(real, jnp.minimum(1, longest / jnp.maximum(lengths, 1e-12)), 0)
    leaves, structure = tree.flatten(slopes)
    noisy = [
        jnp.tensordot(shares, x, 1) + noise * longest * random.normal(key, x.shape[1:])
        for x, key in zip(leaves, random.split(key, len(leaves)))
    ]
    return tree.unflatten(structure, noisy), jnp.where(real, losses, 0).sum() / real.sum()


def make_step(
    optimizer: optim.GradientTransformation, options: argparse.Namespace
) -> Callable[..., Any]:
    """The compiled step: a sample of all the images, its private gradient, an update."""

    def step(network: nn.MLP, state: Any, images: Images, key: random.Key) -> Any:
        sample_key, noise_key = random.split(key)
        rate = options.batch_size / len(images.digits)
        room = options.batch_size + 6 * math.isqrt(options.batch_size)  # enough: six deviations
        sample, real = take(images, rate, room, sample_key)
        total, loss = private_gradient(
            network, sample, real, noise_key, longest=options.longest, noise=options.noise
        )
        slopes = tree.map(lambda x: x / options.batch_size, total)
        updates, state = optimizer.update(slopes, state, network)
        return optim.apply_updates(network, updates), state, loss

    compiled: Callable[..., Any] = tfn.jit(step, donate_argnums=(0, 1))
    return compiled


def train(options: argparse.Namespace, console: Console) -> tuple[float, float]:
    """Train as the options say; the accuracy on the test images, and epsilon."""
    images, test_images = load("train", options.images), load("t10k", options.images)
    init_key, step_key = random.split(random.key(options.seed))
    rate = options.batch_size / len(images.digits)
    epoch = round(1 / rate)
    steps = options.epochs * epoch
    optimizer = optim.sgd(options.learning_rate, momentum=0.9)
    step = make_step(optimizer, options)

    run = f"private-{options.seed}-{options.batch_size}-{options.noise}-{options.longest}"
    checkpoints = Checkpoints(options.checkpoints / run)
    if not options.resume:
        checkpoints.clear()
    network = nn.MLP.init(init_key, (784, options.hidden, 10), activation=nn.tanh)
    done, (network, state) = checkpoints.resume((network, optimizer.init(network)))
    reached = accuracy(network, test_images)

    training = Training(steps, "images", done, quiet=options.quiet, console=console)
    with training:
        while training.done < steps:
            key = random.fold_in(step_key, training.done)
            network, state, loss = step(network, state, images, key)
            training.step(options.batch_size, loss=loss)
            if training.done % epoch == 0:
                checkpoints.save(training.done, (network, state))
                reached = accuracy(network, test_images)
                spent = epsilon(training.done, rate, options.noise)
                training.note(
                    f"epoch {training.done // epoch}: loss {loss.item():.4f}, "
                    f"test accuracy {reached:.2%}, epsilon {spent:.2f}"
                )
    training.note(f"checkpoints are in {checkpoints.folder}")
    spent = epsilon(training.done, rate, options.noise)
    console.print(
        f"private: test accuracy {reached:.2%}, ({spent:.2f}, {DELTA:g})-private, "
        f"{training.summary()}",
        highlight=False,
        soft_wrap=True,
    )
    return reached, spent


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options on the command line."""
    parser = argparse.ArgumentParser(description="Train on private data, by DP-SGD.")
    parser.add_argument("--noise", type=float, default=1.0, help="in units of --longest")
    parser.add_argument("--longest", type=float, default=1.0, help="length of a gradient")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=256, help="images in the mean")
    parser.add_argument("--images", type=int, help="to learn from; all 60,000 by default")
    parser.add_argument("--hidden", type=int, default=64, help="width of the network")
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0, help="to be kept secret, as the noise is")
    add_training(parser)
    parser.add_argument("--smoke", action="store_true", help="two epochs of 256 images")
    return parsed(parser, arguments, epochs=2, batch_size=32, images=256)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train; the exit status."""
    return run(train, parse(arguments), "interrupted; --resume goes on from the last whole epoch")


if __name__ == "__main__":
    sys.exit(main())
