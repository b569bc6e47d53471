"""Fine-tune a quantized language model on a text, by low-rank adapters beside its weights.

    python examples/lora.py model.gguf text.txt --steps 100

The weights stay as they are in the file; the adapters, a few thousandths of their number, are
written as safetensors.  `python -m tfn.llm show model.gguf` says what a file is.

Source: Hu et al. 2021, arXiv:2106.09685.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from command_line import run
from rich.console import Console

import tfn
from tfn import llm, nn, random
from tfn import numpy as jnp
from tfn.llm.config import Config, Rope
from tfn.nn import optim, state

Adapters = dict[str, llm.Adapter]


def loss_of(adapters: Adapters, model: llm.Model, tokens: tfn.Array) -> tfn.Array:
    """The mean surprise of each token but the first: cross entropy, in nats."""
    logits = llm.adapt(model, adapters)(tokens[..., :-1])
    return nn.softmax_cross_entropy_with_integer_labels(logits, tokens[..., 1:]).mean()


def train(
    model: llm.Model, tokens: np.ndarray[Any, Any], options: argparse.Namespace
) -> tuple[Adapters, list[float]]:
    """Adapters that make a text likelier, and the loss of each step."""
    adapters = llm.adapters(model, random.key(options.seed), options.rank)
    optimizer = optim.adam(options.rate)

    @tfn.jit
    def step(adapters: Adapters, state: Any, model: llm.Model, tokens: tfn.Array) -> Any:
        loss, slopes = tfn.value_and_grad(loss_of)(adapters, model, tokens)
        updates, state = optimizer.update(slopes, state, adapters)
        return optim.apply_updates(adapters, updates), state, loss

    kept, losses = optimizer.init(adapters), []
    draw = np.random.default_rng(options.seed)
    bare = llm.Model(model.weights, model.config, None)
    for _ in range(options.steps):
        begins = draw.integers(0, len(tokens) - options.window, options.batch)
        batch = np.stack([tokens[begin : begin + options.window] for begin in begins])
        adapters, kept, loss = step(adapters, kept, bare, jnp.asarray(batch))
        losses.append(float(loss))
    return adapters, losses


def babbler() -> llm.Model:
    """A tiny model of random numbers, whose tokens are bytes."""
    draw = np.random.default_rng(0).standard_normal
    config = Config(
        *("qwen2", "babbler", 2, 32, 4, 2, 8, 8, 64, 256, 1e-5), Rope(8), query_scale=8**-0.5
    )
    shapes = {"attn_q": (32, 32), "attn_k": (16, 32), "attn_v": (16, 32), "attn_output": (32, 32)}
    shapes |= {"ffn_gate": (64, 32), "ffn_up": (64, 32), "ffn_down": (32, 64)}
    arrays = {"token_embd.weight": draw((256, 32)), "output_norm.weight": np.ones(32)}
    for n in range(2):
        arrays |= {f"blk.{n}.{name}.weight": draw(s) * s[1] ** -0.5 for name, s in shapes.items()}
        arrays |= {f"blk.{n}.{name}.weight": np.ones(32) for name in ("attn_norm", "ffn_norm")}
    weights = {name: jnp.asarray(x, dtype="float32") for name, x in arrays.items()}
    return llm.Model(weights, config, None)


def tune(options: argparse.Namespace, console: Console) -> None:
    """Fine-tune as the options say, and write the adapters."""
    if options.smoke:
        model, tokens = babbler(), np.frombuffer(b"to be or not to be, " * 10, np.uint8)
    else:
        model = llm.load(options.model)
        if model.tokenizer is None:
            raise SystemExit("this model has no tokenizer")
        tokens = np.array(model.tokenizer.encode(options.text.read_text("utf-8")))
    if len(tokens) <= options.window:
        raise SystemExit(f"the text has {len(tokens)} tokens, and a window {options.window}")
    adapters, losses = train(model, tokens.astype(np.int32), options)
    if options.to:
        state.save(options.to, adapters)
    console.print(
        f"lora: {nn.parameter_count(adapters):,} numbers trained, loss {losses[0]:.3f} before, "
        f"{losses[-1]:.3f} after {len(losses)} steps",
        highlight=False,
    )


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options on the command line."""
    parser = argparse.ArgumentParser(description="Fine-tune a language model by adapters.")
    parser.add_argument("model", type=Path, nargs="?", help="a GGUF file, or a folder")
    parser.add_argument("text", type=Path, nargs="?", help="a file of text to learn")
    parser.add_argument("--rank", type=int, default=8, help="of each adapter; %(default)s")
    parser.add_argument("--rate", type=float, default=1e-3, help="of learning; %(default)s")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=4, help="windows in a step; %(default)s")
    parser.add_argument("--window", type=int, default=128, help="tokens; %(default)s")
    parser.add_argument("--to", type=Path, help="a file of safetensors for the adapters")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, help="of the CPU device; one per core by default")
    parser.add_argument("--smoke", action="store_true", help="a tiny model of random numbers")
    options = parser.parse_args(arguments)
    if options.smoke:
        parser.set_defaults(steps=3, window=16, rate=0.02)
        return parser.parse_args(arguments)
    if options.model is None or options.text is None:
        parser.error("a model and a text are needed")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Fine-tune a model; the exit status."""
    return run(tune, parse(arguments), interrupted="")


if __name__ == "__main__":
    sys.exit(main())
