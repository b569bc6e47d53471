"""Read Shakespeare from beginning to end with an LSTM, which remembers what it has read.

    python examples/lstm.py                       train, then write a scene
    python examples/lstm.py --resume              go on where the last run was interrupted
    python examples/lstm.py --prompt "JULIET."    of whatever one likes; --help says more

The task is that of char_gpt.py: to say which character comes next, in bits.  A GPT looks back at a
window; an LSTM carries a state.  So the plays are read as some long strips side by side, and each
step goes on, along all strips, with the state in which the step before it ended.  Along a strip,
the loop is a `scan`: compiled once, run as one program, backwards too.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from char_gpt import Alphabet, Text, load
from command_line import add_scene, add_training, parsed, run
from rich.console import Console

import tfn
from tfn import lax, nn, random
from tfn import numpy as jnp
from tfn.nn import optim
from tfn.nn.checkpoint import Checkpoints
from tfn.nn.progress import Training, plot

SMOKE = {
    "steps": 30,
    "strips": 8,
    "length": 16,
    "width": 32,
    "layers": 1,
    "characters": 40,
    "save_every": 10,
    "tested": 4096,
}


@nn.module
class Reader:
    """A network that says, after each character of a text, which one may come next."""

    memory: nn.LSTM
    out: nn.Linear

    @staticmethod
    def init(key: random.Key, alphabet: int, width: int, layers: int) -> Reader:
        """First values of all parameters."""
        first, second = random.split(key)
        return Reader(
            nn.LSTM.init(first, alphabet, width, layers=layers),
            nn.Linear.init(second, width, alphabet),
        )

    def start(self, strips: int) -> Any:
        """The state of one who has read nothing yet."""
        return tuple(cell.start((strips,)) for cell in self.memory.cells)

    def __call__(self, text: tfn.Array, state: Any) -> tuple[tfn.Array, Any]:
        """Logits (time, strips, alphabet), from characters (time, strips); the state after them."""
        alphabet = self.out.weight.shape[1]
        seen, state = self.memory(nn.one_hot(text, alphabet), state)
        return self.out(seen), state


def loss_of(network: Reader, text: tfn.Array, state: Any) -> tuple[tfn.Array, Any]:
    """The mean cross entropy of all characters but the first (time + 1, strips); the state."""
    text = text.astype(int)
    logits, state = network(text[:-1], state)
    return nn.softmax_cross_entropy_with_integer_labels(logits, text[1:]).mean(), state


def make_step(optimizer: optim.GradientTransformation) -> Callable[..., Any]:
    """The compiled training step; gradients do not go back beyond the text that it reads."""

    def step(network: Reader, state: Any, memory: Any, text: tfn.Array) -> Any:
        slope = tfn.value_and_grad(loss_of, has_aux=True)
        (loss, memory), slopes = slope(network, text, memory)
        updates, state = optimizer.update(slopes, state, network)
        return optim.apply_updates(network, updates), state, memory, loss

    compiled: Callable[..., Any] = tfn.jit(step, donate_argnums=(0, 1, 2))
    return compiled


def strips_of(text: Text, count: int) -> Text:
    """A text cut into strips, side by side (time, strips)."""
    return np.ascontiguousarray(text[: len(text) // count * count].reshape(count, -1).T)


def piece(strips: Text, number: int, length: int) -> Text:
    """Piece of a number, and the character after it; when the strips end, they begin again."""
    start = number % ((len(strips) - 1) // length) * length
    return strips[start : start + length + 1]


@tfn.jit
def nats(network: Reader, strips: tfn.Array) -> tfn.Array:
    """The loss, read in one go."""
    return loss_of(network, strips, network.start(strips.shape[1]))[0]


@tfn.jit
def write(network: Reader, prompt: tfn.Array, keys: random.Key, temperature: float) -> tfn.Array:
    """The characters that follow a prompt, one for each key, drawn by their probabilities."""
    logits, state = network(prompt[:, None], network.start(1))

    def next_one(before: Any, key: random.Key) -> tuple[Any, tfn.Array]:
        logits, state = before
        drawn = random.categorical(key, logits / temperature)
        logits, state = network(drawn[None, None], state)
        return (logits[0, 0], state), drawn

    written: tfn.Array = lax.scan(next_one, (logits[-1, 0], state), keys)[1]
    return written


def train(options: argparse.Namespace, console: Console) -> float:
    """Train and write as the options say; bits per character of the play that is not learned."""
    plays, tempest = load("plays"), load("tempest")[: options.tested]
    alphabet = Alphabet(plays)
    strips = strips_of(alphabet.encode(plays), options.strips)
    unseen = jnp.asarray(strips_of(alphabet.encode(tempest), options.strips))
    rate = optim.cosine_decay_schedule(options.learning_rate, max(1, options.steps), alpha=0.02)
    optimizer = optim.chain(optim.clip_by_global_norm(1.0), optim.adam(rate))
    step = make_step(optimizer)

    run = (
        f"lstm-{options.layers}x{options.width}-{options.strips}x{options.length}x"
        f"{options.steps}-{options.seed}"
    )
    checkpoints = Checkpoints(options.checkpoints / run)
    if not options.resume:
        checkpoints.clear()
    network = Reader.init(
        random.key(options.seed), len(alphabet.characters), options.width, options.layers
    )
    first = network, optimizer.init(network), network.start(options.strips)
    done, (network, state, memory) = checkpoints.resume(first)

    def test() -> float:
        return float(nats(network, unseen)) / math.log(2)

    reached = test() if done >= options.steps else math.nan
    training = Training(options.steps, "characters", done, quiet=options.quiet, console=console)
    with training:
        while training.done < options.steps:
            text = jnp.asarray(piece(strips, training.done, options.length))
            network, state, memory, loss = step(network, state, memory, text)
            training.step(options.strips * options.length, loss=loss)
            if training.done % options.save_every == 0 or training.done == options.steps:
                checkpoints.save(training.done, (network, state, memory))
                reached = test()
                training.note(
                    f"step {training.done}: loss {loss.item():.4f}, "
                    f"{reached:.3f} bits per character of The Tempest"
                )
    keys = random.split(random.key(options.seed), options.characters)
    prompt = jnp.asarray(alphabet.encode("\n" + options.prompt).astype(int))
    drawn = write(network, prompt, keys, options.temperature)
    training.note(options.prompt + alphabet.decode(drawn.tolist()))
    if options.plot:
        plot(options.plot, training.history(), title="An LSTM on Shakespeare")
        training.note(f"the curve of losses is in {options.plot}")
    training.note(f"checkpoints are in {checkpoints.folder}")
    console.print(
        f"lstm: {reached:.3f} bits per character, {training.summary()}",
        highlight=False,
        soft_wrap=True,
    )
    return reached


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options on the command line."""
    parser = argparse.ArgumentParser(description="Read Shakespeare with an LSTM.")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--strips", type=int, default=32, help="that are read side by side")
    parser.add_argument("--length", type=int, default=64, help="characters of each in a step")
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--learning-rate", type=float, default=4e-3)
    add_scene(parser, temperature=0.7)
    add_training(parser, save_every=500)
    parser.add_argument("--smoke", action="store_true", help="a tiny network, 30 steps")
    return parsed(parser, arguments, **SMOKE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train; the exit status."""
    return run(train, parse(arguments))


if __name__ == "__main__":
    sys.exit(main())
