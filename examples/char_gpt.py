"""Train a small GPT to write like Shakespeare, one character after the other.

    python examples/char_gpt.py                       train, then write a scene
    python examples/char_gpt.py --resume              go on where the last run was interrupted
    python examples/char_gpt.py --prompt "JULIET."    of whatever one likes; --help says more

It learns from eight plays in data/shakespeare beside this file, and is tested on one it has never
seen, The Tempest.  What counts is the number of bits that it takes to say which character comes
next: log2 of 80 = 6.3 for one who knows nothing, 4.8 for one who knows how often each occurs, and
2.5 for the network after five minutes on one core.
"""

from __future__ import annotations

import argparse
import gzip
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from command_line import add_scene, add_training, parsed, run
from rich.console import Console

import tfn
from tfn import lax, nn, random
from tfn import numpy as jnp
from tfn.nn import optim
from tfn.nn.checkpoint import Checkpoints
from tfn.nn.data import Batches, Position
from tfn.nn.progress import Training, plot
from tfn.nn.state import parsing

DATA = Path(__file__).parent / "data" / "shakespeare"
WARMUP = 50  # steps in which the learning rate grows
SMOKE = {
    "steps": 40,
    "batch_size": 8,
    "length": 32,
    "layers": 2,
    "width": 32,
    "heads": 2,
    "characters": 40,
    "save_every": 10,
    "tested": 4096,
}
Text = np.ndarray[Any, np.dtype[np.uint8]]


def load(name: str) -> str:
    """The plays to learn from, "plays", or the one to be tested on, "tempest"."""
    path = DATA / f"{name}.txt.gz"
    with parsing(path, "whole text"):
        return gzip.decompress(path.read_bytes()).decode()


class Alphabet:
    """The characters of a text, numbered."""

    def __init__(self, text: str) -> None:
        self.characters = sorted(set(text))

    def encode(self, text: str) -> Text:
        """Numbers for characters; an unknown one becomes the first, a line break."""
        numbers = np.zeros(128, np.uint8)
        numbers[[ord(c) for c in self.characters]] = np.arange(len(self.characters))
        return numbers[np.frombuffer(text.encode("ascii", "replace"), np.uint8)]

    def decode(self, numbers: Sequence[int]) -> str:
        """Characters for numbers."""
        return "".join(self.characters[n] for n in numbers)


@nn.module
class GPT:
    """A Transformer that says, at each place of a text, which character may come next."""

    characters: nn.Embedding
    blocks: nn.Stack
    norm: nn.LayerNorm
    out: nn.Linear

    @staticmethod
    def init(key: random.Key, alphabet: int, *, layers: int, width: int, heads: int) -> GPT:
        """First values of all parameters."""
        keys = random.split(key, 3)
        small = nn.initializers.normal(0.02)

        def block(key: random.Key) -> nn.TransformerBlock:
            return nn.TransformerBlock.init(key, width, heads, rotary_base=10000.0)

        return GPT(
            nn.Embedding.init(keys[0], alphabet, width, weight_init=small),
            nn.Stack.init(block, keys[1], layers),
            nn.LayerNorm.init(width),
            nn.Linear.init(keys[2], width, alphabet, use_bias=False, weight_init=small),
        )

    def __call__(self, text: tfn.Array) -> tfn.Array:
        """Logits of the next characters (..., time, alphabet), from texts (..., time)."""
        return self.out(self.norm(self.blocks(self.characters(text), is_causal=True)))


def loss_of(network: GPT, texts: tfn.Array) -> tfn.Array:
    """The mean cross entropy of all characters but the first, uint8[n, time + 1]."""
    texts = texts.astype(int)
    logits = network(texts[:, :-1])
    return nn.softmax_cross_entropy_with_integer_labels(logits, texts[:, 1:]).mean()


def make_step(optimizer: optim.GradientTransformation) -> Callable[..., Any]:
    """The compiled training step for an optimizer; network and state are donated."""

    def step(network: GPT, state: Any, texts: tfn.Array) -> Any:
        loss, slopes = tfn.value_and_grad(loss_of)(network, texts)
        updates, state = optimizer.update(slopes, state, network)
        return optim.apply_updates(network, updates), state, loss

    compiled: Callable[..., Any] = tfn.jit(step, donate_argnums=(0, 1))
    return compiled


evaluate = tfn.jit(loss_of)


def bits(network: GPT, text: Text, length: int, batch_size: int) -> float:
    """Bits per character of a text that is cut into pieces, each read from its beginning."""
    pieces = np.lib.stride_tricks.sliding_window_view(text, length + 1)[::length]
    batches = Batches(pieces, min(batch_size, len(pieces))).stream(epochs=1, ahead=0)
    losses = [evaluate(network, batch).item() for batch in batches]
    return float(np.mean(losses)) / math.log(2)


@tfn.jit
def write(network: GPT, before: tfn.Array, keys: random.Key, temperature: float) -> tfn.Array:
    """The characters that follow those before, one for each key, drawn by their probabilities."""

    def next_one(window: tfn.Array, key: random.Key) -> tuple[tfn.Array, tfn.Array]:
        drawn = random.categorical(key, network(window)[-1] / temperature)
        return jnp.append(window[1:], drawn), drawn

    written: tfn.Array = lax.scan(next_one, before, keys)[1]
    return written


def tell(network: GPT, alphabet: Alphabet, options: argparse.Namespace) -> str:
    """A scene that begins with the prompt."""
    before = alphabet.encode(options.prompt.rjust(options.length, "\n"))[-options.length :]
    keys = random.split(random.key(options.seed), options.characters)
    drawn = write(network, jnp.asarray(before.astype(int)), keys, options.temperature)
    return str(options.prompt) + alphabet.decode(drawn.tolist())


def train(options: argparse.Namespace, console: Console) -> float:
    """Train and write as the options say; bits per character of the play that is not learned."""
    plays, tempest = load("plays"), load("tempest")[: options.tested]
    alphabet = Alphabet(plays)
    init_key, order_key = random.split(random.key(options.seed))
    windows = np.lib.stride_tricks.sliding_window_view(alphabet.encode(plays), options.length + 1)
    batches = Batches(windows, options.batch_size, order_key)
    rate = optim.warmup_cosine_decay_schedule(
        init_value=0.0,
        peak_value=options.learning_rate,
        end_value=options.learning_rate / 50,
        warmup_steps=WARMUP,
        decay_steps=max(options.steps, WARMUP + 1),
    )
    optimizer = optim.adamw(rate, b2=0.99, weight_decay=0.1)
    step = make_step(optimizer)

    run = (
        f"char_gpt-{options.layers}x{options.width}x{options.heads}x{options.length}-"
        f"{options.batch_size}x{options.steps}-{options.seed}"
    )
    checkpoints = Checkpoints(options.checkpoints / run)
    if not options.resume:
        checkpoints.clear()
    network = GPT.init(
        init_key,
        len(alphabet.characters),
        layers=options.layers,
        width=options.width,
        heads=options.heads,
    )
    done, now = checkpoints.resume((network, optimizer.init(network), Position()))
    network, state, position = now

    def test() -> float:
        return bits(network, alphabet.encode(tempest), options.length, options.batch_size)

    reached = test() if done >= options.steps else math.nan
    training = Training(options.steps, "characters", done, quiet=options.quiet, console=console)
    with batches.stream(position) as stream, training:
        while training.done < options.steps:
            network, state, loss = step(network, state, next(stream))
            training.step(options.batch_size * options.length, loss=loss)
            if training.done % options.save_every == 0 or training.done == options.steps:
                checkpoints.save(training.done, (network, state, stream.position))
                reached = test()
                training.note(
                    f"step {training.done}: loss {loss.item():.4f}, "
                    f"{reached:.3f} bits per character of The Tempest"
                )
    training.note(tell(network, alphabet, options))
    if options.plot:
        plot(options.plot, training.history(), title="A GPT on Shakespeare")
        training.note(f"the curve of losses is in {options.plot}")
    training.note(f"checkpoints are in {checkpoints.folder}")
    console.print(
        f"char_gpt: {reached:.3f} bits per character, {training.summary()}",
        highlight=False,
        soft_wrap=True,
    )
    return reached


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options on the command line."""
    parser = argparse.ArgumentParser(description="Train a small GPT to write like Shakespeare.")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--length", type=int, default=128, help="characters that it looks back")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    add_scene(parser, temperature=0.8)
    add_training(parser, save_every=250)
    parser.add_argument("--smoke", action="store_true", help="a tiny network, 40 steps")
    return parsed(parser, arguments, **SMOKE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train; the exit status."""
    return run(train, parse(arguments))


if __name__ == "__main__":
    sys.exit(main())
