"""Training as the examples do it, to be compared between devices."""

from __future__ import annotations

import char_gpt
import numpy as np

from tfn import random
from tfn.config import config
from tfn.nn import optim


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
