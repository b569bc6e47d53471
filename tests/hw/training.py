"""Training as the examples do it, to be compared between devices.

    PYTHONPATH=examples python -m tests.hw.training mnist     on the default device
    PYTHONPATH=examples python -m tests.hw.training gpt       on it and on the CPU

Ends with 1 if too few test images are read, or if the losses differ.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import char_gpt
import mnist
import numpy as np
from rich.console import Console

import tfn
import tfn.numpy as tnp
from tfn import nn, random
from tfn.config import config
from tfn.nn import optim

FIRST, LAST = 10, 20  # steps whose losses are compared
LEAST_ACCURACY = 0.985  # the example says 99 %


def char_gpt_losses(device: str, steps: int, layers: int, width: int, length: int) -> np.ndarray:
    """The losses of a GPT's first steps on Shakespeare, float32[steps], on a device."""
    before, config.device = config.device, device
    try:
        plays = char_gpt.load("plays")
        alphabet = char_gpt.Alphabet(plays)
        size = len(alphabet.characters)
        key = random.key(0)
        network = char_gpt.GPT.init(key, size, layers=layers, width=width, heads=2)
        windows = np.lib.stride_tricks.sliding_window_view(alphabet.encode(plays), length + 1)
        starts = np.random.default_rng(0).integers(0, len(windows), (steps, 4))
        optimizer = optim.adamw(3e-3, b2=0.99, weight_decay=0.1)
        state, step, losses = optimizer.init(network), char_gpt.make_step(optimizer), []
        for rows in starts:
            network, state, loss = step(network, state, windows[rows])
            losses.append(loss.item())
        return np.array(losses, np.float32)
    finally:
        config.device = before


def assert_squares_train_alike(platform: str) -> None:
    """Train on squares of 4 x 4 pixels of MNIST: it has the CPU's losses, and reads as well."""
    train, test = mnist.load("train", 512), mnist.load("t10k", 200)
    x, y = (np.asarray(a).reshape(8, 64, -1) for a in train)
    test_x, test_y = (np.asarray(a).reshape(200, -1) for a in test)
    rng = np.random.default_rng(0)
    w = {"a": rng.normal(size=(49, 16)) * 0.2, "b": rng.normal(size=(16, 10)) * 0.2}

    def logits(w: Any, x: Any) -> Any:
        squares = x.reshape(-1, 7, 4, 7, 4).astype("float32").mean((2, 4)).reshape(-1, 49)
        return nn.relu(squares / 64 @ w["a"]) @ w["b"]

    def loss(w: Any, x: Any, y: Any) -> Any:
        labels = y.astype("int32").reshape(-1)
        return nn.softmax_cross_entropy_with_integer_labels(logits(w, x), labels).mean()

    @tfn.jit
    def epoch(w: Any, x: Any, y: Any) -> Any:
        def step(w: Any, batch: Any) -> Any:
            value, slope = tfn.value_and_grad(loss)(w, *batch)
            return tfn.tree.map(lambda p, g: p - 0.3 * g, w, slope), value

        return tfn.lax.scan(step, w, (x, y))

    losses, right = {}, {}
    for name in (platform, "cpu"):
        config.device = name
        params = {k: tnp.array(v, "float32") for k, v in w.items()}
        for _ in range(6):
            params, losses[name] = epoch(params, tnp.array(x), tnp.array(y))
        digits = tfn.jit(logits)(params, tnp.array(test_x)).argmax(1)
        right[name] = np.asarray(digits) == test_y.reshape(-1)
        losses[name] = np.asarray(losses[name])
    np.testing.assert_allclose(losses[platform], losses["cpu"], rtol=1e-3)
    assert right[platform].mean() > 0.6
    assert (right[platform] == right["cpu"]).mean() > 0.99


def differs(own: np.ndarray, cpu: np.ndarray) -> bool:
    """Whether losses are not those of the CPU: the first ones to 1e-4, the mean of the last to 2 %.

    Runs whose sums have other orders drift apart: two codes of one CPU (AVX-512 and SSE) differ by
    1e-7 in 10 steps, 3e-6 in 50 and 3e-2 in 200.
    """
    apart = np.abs(own - cpu) / cpu
    ends = own[-LAST:].mean() / cpu[-LAST:].mean()
    return bool((apart[:FIRST] > 1e-4).any() or abs(ends - 1) > 2e-2)


def train_mnist() -> int:
    """Train for three epochs; 1 if the accuracy is too low."""
    accuracy = mnist.train(mnist.parse(["--model", "cnn", "--quiet"]), Console()).accuracy
    print(f"mnist: {accuracy:.2%} of the test images on {config.device}, at least {LEAST_ACCURACY}")
    return int(accuracy < LEAST_ACCURACY)


def train_gpt() -> int:
    """Train for 200 steps; 1 if the losses are not those of the CPU."""
    own, cpu = (char_gpt_losses(d, 200, 4, 128, 128) for d in (config.device, "cpu"))
    apart = np.abs(own - cpu) / cpu
    print(
        f"char_gpt: loss {own[-1]:.4f} on {config.device}, {cpu[-1]:.4f} on the CPU; "
        f"they differ by {apart[:10].max():.1e} in ten steps, {apart.max():.1e} in all"
    )
    return int(differs(own, cpu))


MODELS: dict[str, Callable[[], int]] = {"mnist": train_mnist, "gpt": train_gpt}

if __name__ == "__main__":
    raise SystemExit(MODELS[sys.argv[1]]())
