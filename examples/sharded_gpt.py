"""Train the GPT of char_gpt.py on many devices, divided in any way.

    python examples/sharded_gpt.py --mesh data=4                    the batch
    python examples/sharded_gpt.py --mesh fsdp=4                    parameters and moments too
    python examples/sharded_gpt.py --mesh model=4                   heads and hidden units
    python examples/sharded_gpt.py --mesh pipe=4                    layers, stage after stage
    python examples/sharded_gpt.py --mesh data=2,fsdp=2,model=2     all together
    python examples/sharded_gpt.py --mesh fsdp=4 --checkpoint run   go on where the last run ended

The devices are CPU devices of this process, or of all processes that were started together:

    TFN_DEVICES=2 mpirun -n 2 python examples/sharded_gpt.py --mesh data=2,model=2

or of the hosts of a cluster, which this process controls alone:

    python examples/sharded_gpt.py --mesh data=4 --cluster ray --hosts a:CPU*2,b:CPU*2

The network and the loss are those of one device: what
differs is where parameters are put (`PLACES`), and, for a pipeline, how the layers are called.  The
losses are the same to the last digits, however the work is divided.

Checkpoints are written by a thread while the training goes on.  A run that was killed goes on with
the same command, to the same bits; on another mesh, to the same digits.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from math import prod
from pathlib import Path
from typing import Any

import char_gpt
import numpy as np
from char_gpt import GPT
from command_line import parsed
from rich.console import Console

import tfn
from tfn import lax, nn, random, tree
from tfn import numpy as jnp
from tfn.config import config
from tfn.nn import optim
from tfn.nn.checkpoint import Checkpoints
from tfn.nn.data import Batches, Position
from tfn.nn.progress import Training
from tfn.sharding import Mesh, NamedSharding
from tfn.sharding import PartitionSpec as P

AXES = ("pipe", "data", "fsdp", "model")
BATCH = ("data", "fsdp")  # the axes of the mesh that divide a batch
PLACES = {
    "query.weight": P("pipe", "fsdp", "model"),  # (layers, width, heads)
    "key.weight": P("pipe", "fsdp", "model"),
    "value.weight": P("pipe", "fsdp", "model"),
    "attention.out.weight": P("pipe", "model", "fsdp"),
    "up.weight": P("pipe", "fsdp", "model"),  # (layers, width, hidden)
    "down.weight": P("pipe", "model", "fsdp"),
    "characters.weight": P(None, "fsdp"),  # (alphabet, width)
    "out.weight": P("fsdp", None),  # (width, alphabet)
}
"""How parameters are divided, by the end of their names; of all others each device has a copy."""
SMOKE = {"steps": 5, "batch_size": 8, "length": 32, "layers": 4, "width": 32, "heads": 4}


def make_mesh(text: str) -> Mesh:
    """The mesh of ``data=2,model=4``; axes that are not named have size 1.

    Raises:
        ValueError: for another axis, or a size that is not a positive integer.
    """
    sizes = dict.fromkeys(AXES, 1)
    for part in text.split(","):
        name, _, size = part.partition("=")
        if name not in sizes or not size.isdigit() or int(size) < 1:
            raise ValueError(f"--mesh takes axes such as data=2,model=4, not {part!r}")
        sizes[name] = int(size)
    if tfn.process_count() == 1:
        config.devices = max(config.devices, prod(sizes.values()))
    return tfn.make_mesh(tuple(sizes.values()), AXES, (tfn.sharding.AxisType.Auto,) * len(AXES))


def placements(network: GPT, mesh: Mesh) -> Any:
    """A sharding for each parameter."""
    leaves, structure = tree.flatten(network)
    shardings = []
    for (_, name), x in zip(tree.places(structure), leaves, strict=True):
        stacked = P("pipe") if name.startswith(".blocks") else P()
        spec = next((spec for end, spec in PLACES.items() if name.endswith(end)), stacked)
        shardings.append(NamedSharding(mesh, P(*spec[: x.ndim])))
    return tree.unflatten(structure, shardings)


def place(values: Any, mesh: Mesh) -> Any:
    """Parameters, or an optimizer's state, on the devices: moments lie where parameters do."""

    def put(part: Any) -> Any:
        if isinstance(part, GPT):
            return tfn.device_put(part, placements(part, mesh))
        return tfn.device_put(part, NamedSharding(mesh, P()))

    return tree.map(put, values, is_leaf=lambda part: isinstance(part, GPT))


def pipeline(blocks: nn.Stack, x: tfn.Array, mesh: Mesh, microbatches: int) -> tfn.Array:
    """The blocks over stages: each device along "pipe" has some, and passes on what they give.

    A batch is cut into microbatches, float32[n, time, width] each.  In every tick a stage works on
    the microbatch that came from the stage before it, so that after ``stages - 1`` ticks all work.

    Source: Huang et al. 2019, "GPipe", https://arxiv.org/abs/1811.06965
    """
    stages = mesh.shape["pipe"]
    ring = [(i, (i + 1) % stages) for i in range(stages)]

    def of_stage(blocks: nn.Stack, inputs: tfn.Array) -> tfn.Array:
        stage = lax.axis_index("pipe")

        def tick(arrived: tfn.Array, t: tfn.Array) -> tuple[tfn.Array, tfn.Array]:
            fresh = inputs[jnp.minimum(t, microbatches - 1)]
            given = blocks(jnp.where(stage == 0, fresh, arrived), is_causal=True)
            return lax.ppermute(given, "pipe", ring), given

        ticks = jnp.arange(microbatches + stages - 1)
        begin = lax.pvary(jnp.zeros_like(inputs[0]), "pipe")
        given = lax.scan(tick, begin, ticks)[1][stages - 1 :]
        return lax.psum(jnp.where(stage == stages - 1, given, 0.0), "pipe")

    run = tfn.shard_map(
        of_stage, mesh=mesh, in_specs=(P("pipe"), P()), out_specs=P(), axis_names={"pipe"}
    )
    cut = x.reshape(microbatches, -1, *x.shape[1:])
    return run(blocks, cut).reshape(x.shape)


def make_loss(mesh: Mesh, microbatches: int) -> Callable[[GPT, tfn.Array], tfn.Array]:
    """The loss of char_gpt.py, as a function of what lies on the mesh."""

    def loss_of(network: GPT, texts: tfn.Array) -> tfn.Array:
        texts = texts.astype(int)
        x = network.characters(texts[:, :-1])
        x = lax.with_sharding_constraint(x, NamedSharding(mesh, P(BATCH)))
        if mesh.shape["pipe"] > 1:
            x = pipeline(network.blocks, x, mesh, microbatches)
        else:
            x = network.blocks(x, is_causal=True)
        logits = network.out(network.norm(x))
        return nn.softmax_cross_entropy_with_integer_labels(logits, texts[:, 1:]).mean()

    return loss_of


def make_step(
    loss_of: Callable[[GPT, tfn.Array], tfn.Array],
    optimizer: optim.GradientTransformation,
    accumulate: int = 1,
) -> Callable[..., Any]:
    """The compiled training step; network and state are donated.

    With `accumulate`, the gradient is the mean of those of so many parts of the batch, one after
    the other, which takes the memory of one part.
    """

    def slopes_of(network: GPT, texts: tfn.Array) -> Any:
        # Every n-th text, so that each part is divided among the devices as the batch is.
        parts = texts.reshape(-1, accumulate, texts.shape[1]).swapaxes(0, 1)
        slopes = lambda part: tfn.value_and_grad(loss_of)(network, part)
        return optim.accumulate(slopes, parts) if accumulate > 1 else slopes(texts)

    def step(network: GPT, state: Any, texts: tfn.Array) -> Any:
        loss, slopes = slopes_of(network, texts)
        updates, state = optimizer.update(slopes, state, network)
        return optim.apply_updates(network, updates), state, loss

    compiled: Callable[..., Any] = tfn.jit(step, donate_argnums=(0, 1))
    return compiled


def train(options: argparse.Namespace, console: Console) -> list[float]:
    """Train as the options say; the loss of each step."""
    mesh = make_mesh(options.mesh)
    plays = char_gpt.load("plays")
    alphabet = char_gpt.Alphabet(plays)
    init_key, order_key = random.split(random.key(options.seed))
    windows = np.lib.stride_tricks.sliding_window_view(alphabet.encode(plays), options.length + 1)
    network = GPT.init(
        init_key,
        len(alphabet.characters),
        layers=options.layers,
        width=options.width,
        heads=options.heads,
    )
    optimizer = optim.adamw(options.learning_rate, b2=0.99, weight_decay=0.1)
    step = make_step(make_loss(mesh, options.microbatches), optimizer, options.accumulate)
    state = place(optimizer.init(network), mesh)
    network = place(network, mesh)
    done, position, checkpoints = 0, Position(), None
    if options.checkpoint is not None:
        checkpoints = Checkpoints(options.checkpoint, asynchronous=True)
        done, now = checkpoints.resume((network, state, position))
        network, state, position = now

    losses = []
    batches = Batches(
        windows, options.batch_size, order_key, sharding=NamedSharding(mesh, P(BATCH))
    )
    training = Training(options.steps, "characters", done, quiet=options.quiet, console=console)
    with batches.stream(position) as stream, checkpoints or nullcontext(), training:
        while training.done < options.steps:
            network, state, loss = step(network, state, next(stream))
            losses.append(loss)
            training.step(options.batch_size * options.length, loss=loss)
            last = training.done == options.steps
            if checkpoints and (last or training.done % options.save_every == 0):
                checkpoints.save(training.done, (network, state, stream.position))
    reached = f"loss {float(losses[-1]):.5f}" if losses else "nothing left to do"
    console.print(
        f"sharded_gpt on {describe(mesh.shape)}: {reached}, {training.summary()}",
        highlight=False,
        soft_wrap=True,
    )
    return [float(loss) for loss in losses]


def describe(sizes: Mapping[str, int]) -> str:
    """The axes of a mesh that divide something: ``data=2, model=2``."""
    return ", ".join(f"{name}={n}" for name, n in sizes.items() if n > 1) or "one device"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options on the command line."""
    parser = argparse.ArgumentParser(description="Train a small GPT on many devices.")
    parser.add_argument(
        "--mesh", default="data=2,fsdp=2,model=2", help="sizes of " + ", ".join(AXES)
    )
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--length", type=int, default=128, help="characters that it looks back")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--microbatches", type=int, default=4, help="of a pipeline")
    parser.add_argument("--accumulate", type=int, default=1, help="parts of a batch, in turn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", type=Path, help="folder to save to, and to resume from")
    parser.add_argument("--save-every", type=int, default=50, help="steps between checkpoints")
    parser.add_argument("--cluster", help="ray://HOST:PORT, or ray for one on this machine")
    parser.add_argument("--hosts", help="hosts of the cluster: host1:CPU*4,host2:CPU*4")
    parser.add_argument("--quiet", action="store_true", help="print only the last line")
    parser.add_argument("--smoke", action="store_true", help="a tiny network, 5 steps")
    return parsed(parser, arguments, **SMOKE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train; the exit status."""
    options = parse(arguments)
    if options.cluster:
        tfn.distributed.connect(options.cluster, options.hosts, steps_per_dispatch=10)
    else:
        tfn.distributed.initialize()
    console = Console(quiet=tfn.process_index() > 0)
    options.quiet |= tfn.process_index() > 0
    try:
        train(options, console)
    except ValueError as error:
        console.print(str(error), style="red", highlight=False)
        return 2
    except KeyboardInterrupt:
        console.print("interrupted")
        return 130
    finally:
        if (
            sys.exc_info()[0] is None and not options.cluster
        ):  # else the others are not told to wait
            tfn.distributed.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
