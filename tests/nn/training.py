"""A training run as its own process, to be killed: ``python training.py FOLDER STEPS EVERY``.

Prints the number of steps it has behind it, and leaves its last state in FOLDER/end.safetensors.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import tfn
from tfn import nn, random
from tfn import numpy as jnp
from tfn.nn import optim, state
from tfn.nn.checkpoint import Checkpoints
from tfn.nn.data import Batches, Position

OPTIMIZER = optim.chain(optim.clip_by_global_norm(1.0), optim.adamw(1e-2))


def loss_of(model: nn.MLP, batch: Any, key: Any) -> Any:
    noisy = nn.Dropout(0.2)(batch["x"], key=key)
    return jnp.square(model(noisy)[:, 0] - batch["y"]).mean()


@tfn.jit
def step(model: Any, memory: Any, key: Any, batch: Any) -> Any:
    key, now = random.split(key)
    slopes = tfn.grad(loss_of)(model, batch, now)
    updates, memory = OPTIMIZER.update(slopes, memory, model)
    return optim.apply_updates(model, updates), memory, key


def main(folder: Path, steps: int, every: int) -> None:
    rng = np.random.default_rng(0)
    arrays = {
        "x": rng.standard_normal((64, 16)).astype(np.float32),
        "y": rng.standard_normal(64).astype(np.float32),
    }
    model = nn.MLP.init(random.key(0), (16, 64, 1))
    first = {
        "model": model,
        "memory": OPTIMIZER.init(model),
        "key": random.key(1),
        "position": Position(),
    }
    checkpoints = Checkpoints(folder, keep=2)
    done, now = checkpoints.resume(first)
    model, memory, key = now["model"], now["memory"], now["key"]
    with Batches(arrays, 10, random.key(2)).stream(now["position"]) as stream:
        print(done, flush=True)
        while done < steps:
            model, memory, key = step(model, memory, key, next(stream))
            done += 1
            now = {"model": model, "memory": memory, "key": key, "position": stream.position}
            if done % every == 0:
                checkpoints.save(done, now)
            print(done, flush=True)
    state.save(folder / "end.safetensors", now)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
