"""Job: losses of MNIST, an MLP and a GPT, divided in several ways, as lines of JSON.

    python job_training.py FOLDER mlp cnn data=4 fsdp=4

MNIST, by the models named, and the GPT, divided in the ways named, are those of examples/;
checkpoints of MNIST go to the folder.
"""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import tfn
from tfn import nn, random, tree
from tfn import numpy as tnp
from tfn.nn import optim
from tfn.sharding import AxisType, NamedSharding
from tfn.sharding import PartitionSpec as P

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import mnist
import sharded_gpt

PLACES = {
    "data": (P(), P(), P("d")),
    "fsdp": (P("d"), P("d"), P("d")),
    "tensor": (P(None, "d"), P("d"), P()),
}
"""How both weights and the batch of the MLP are divided."""


def mlp(way: str, steps: int = 4) -> list[float]:
    """Losses of a network of two layers, on random data."""
    mesh = tfn.make_mesh((4,), ("d",), (AxisType.Auto,))
    rng = np.random.default_rng(0)
    draw = lambda *shape: (rng.normal(size=shape) / np.sqrt(shape[0])).astype("float32")
    places = [NamedSharding(mesh, spec) for spec in PLACES[way]]
    up, down = (tfn.device_put(draw(*s), p) for s, p in zip([(12, 16), (16, 8)], places))
    optimizer = optim.adam(0.05)
    weights = {"up": up, "down": down}
    state = optimizer.init(weights)

    def loss_of(weights: Any, x: Any, y: Any) -> Any:
        logits = tnp.tanh(x @ weights["up"]) @ weights["down"]
        return nn.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    @tfn.jit
    def step(weights: Any, state: Any, x: Any, y: Any) -> Any:
        loss, slopes = tfn.value_and_grad(loss_of)(weights, x, y)
        updates, state = optimizer.update(slopes, state, weights)
        return optim.apply_updates(weights, updates), state, loss

    losses = []
    for _ in range(steps):
        x = tfn.device_put(draw(16, 12), places[2])
        y = tfn.device_put(rng.integers(0, 8, 16), NamedSharding(mesh, P(*places[2].spec[:1])))
        weights, state, loss = step(weights, state, x, y)
        losses.append(float(loss))
    return losses


def gpt(way: str) -> list[float]:
    """Losses of the smallest GPT of the example."""
    options = sharded_gpt.parse(["--smoke", "--quiet", "--steps", "3", "--mesh", way])
    return sharded_gpt.train(options, Console(file=io.StringIO()))


def digits(model: str, folder: str) -> list[float]:
    """Losses and accuracy of an epoch of MNIST, whose batches the processes read together."""
    options = mnist.parse(
        ["--model", model, "--devices", "4", "--epochs", "1", "--checkpoints", folder, "--quiet"]
    )
    options.images = 1024
    trained = mnist.train(options, Console(file=io.StringIO()))
    return [*trained.losses, trained.accuracy]


def elementwise() -> list[float]:
    """A function in which no sum crosses devices: the same bits everywhere."""
    mesh = tfn.make_mesh((4,), ("d",), (AxisType.Auto,))
    x = random.normal(random.key(3), (8, 5))
    x = tfn.device_put(np.asarray(x), NamedSharding(mesh, P("d")))
    y = tfn.jit(lambda x: tnp.exp(x) * tnp.sin(x) + (x @ x.T)[:, :5])(x)
    return [float(v) for v in tfn.distributed.process_allgather(y).ravel()]


def main() -> None:
    """The seconds of each training, and all losses, from the first process."""
    tfn.distributed.initialize(deadline_s=100)
    folder, *words = sys.argv[1:]
    models = [model for model in mnist.MODELS if model in words]
    trainings: dict[str, Callable[[], list[float]]] = {
        **{f"mlp {way}": partial(mlp, way) for way in PLACES},
        **{f"mnist {model}": partial(digits, model, folder) for model in models},
        **{f"gpt {way}": partial(gpt, way) for way in words if "=" in way},
        "bits": elementwise,
    }
    found, seconds = {}, {}
    for name, train in trainings.items():
        begin = time.perf_counter()
        found[name] = train()
        seconds[name] = time.perf_counter() - begin
    leaves = tree.leaves(found)
    assert np.isfinite(leaves).all()
    if tfn.process_index() == 0:
        print(json.dumps(seconds))
        print(json.dumps(found))


if __name__ == "__main__":
    main()
