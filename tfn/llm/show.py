"""Facts of a model's file in words: quantization, context, memory, tokenizer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from tfn.llm import folder, gguf, tokenizer
from tfn.llm.blocks import FORMATS
from tfn.llm.config import Config
from tfn.llm.model import config_of, quantization

Fact = tuple[str, str]


def read(source: Path) -> tuple[gguf.File, Config]:
    """The content of a file, or of a folder of Hugging Face's as of one, and its network."""
    if not source.is_dir():
        file = gguf.read(source)
        return file, config_of(file)
    config, arrays = folder.read(source)
    plain = {form.dtype: form for form in FORMATS.values() if form.dtype is not None}
    tensors = {
        name: gguf.Tensor(name, plain[data.dtype], data.shape, data)
        for name, data in arrays.items()
    }
    values: dict[str, object] = {}
    if (source / "tokenizer.json").exists():
        own = tokenizer.from_folder(source, config.vocabulary)
        values |= {"tokenizer.ggml.tokens": [*own.pieces], "tokenizer.ggml.model": own.kind}
        values["tokenizer.chat_template"] = own.template
    return gguf.File(values, tensors, 0), config


def facts(file: gguf.File, config: Config) -> Iterator[Fact]:
    """Names and values of what a person wants to know before running a model."""
    yield "name", config.name
    yield "architecture", f"{config.architecture}, {_sizes(config)}"
    yield "quantization", quantization(formats(file))
    size = sum(t.data.nbytes for t in file.tensors.values())
    count = sum(t.size for t in file.tensors.values())
    yield "weights", f"{count:,} in {len(file.tensors):,} tensors, {amount(size)}"
    yield "context", _context(config)
    full = config.context * config.position_bytes
    yield (
        "memory",
        f"{amount(size)} of weights; {amount(config.position_bytes)} a token of the text, "
        f"{amount(full)} at {config.context:,} tokens",
    )
    yield "tokenizer", _tokenizer(file.values)
    yield "chats", _template(file.values)
    yield "format", f"GGUF {file.version}" if file.version else "safetensors"


def formats(file: gguf.File) -> Mapping[str, tuple[int, int]]:
    """For each format the number of its tensors and of its weights."""
    tensors, weights = Counter[str](), Counter[str]()
    for tensor in file.tensors.values():
        tensors[tensor.format.name] += 1
        weights[tensor.format.name] += tensor.size
    return {name: (tensors[name], weights[name]) for name in tensors}


def amount(size: float) -> str:
    """A number of bytes in words.

    Example:
        >>> amount(96_600_000), amount(512)
        ('96.6 MB', '512 B')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def _sizes(c: Config) -> str:
    parts = [f"{c.layers} layers of {c.width:,}", f"{c.heads} heads of {c.size}"]
    if c.kv_heads != c.heads:
        parts[1] += f", {c.kv_heads} of keys and values"
    if c.experts:
        parts.append(f"{c.experts_used} of {c.experts} experts for each token")
    return ", ".join(parts)


def _context(c: Config) -> str:
    parts = [f"{c.context:,} tokens"]
    if c.window:
        near = sum(map(c.windowed, range(c.layers)))
        parts.append(f"{near} of {c.layers} layers see the last {c.window:,}")
    if c.rope.kind != "none":
        parts.append(f"{c.rope.original:,} stretched by {c.rope.kind}")
    return ", ".join(parts)


def _tokenizer(values: Mapping[str, object]) -> str:
    tokens = values.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, list):
        return "none"
    kind = {"gpt2": "byte pairs", "llama": "SentencePiece"}.get(
        str(values.get("tokenizer.ggml.model")), str(values.get("tokenizer.ggml.model"))
    )
    words = values.get("tokenizer.ggml.pre")
    return f"{kind}, {len(tokens):,} tokens" + (f", words as in {words}" if words else "")


def _template(values: Mapping[str, object]) -> str:
    template = values.get("tokenizer.chat_template")
    return f"a template of {len(template):,} characters" if isinstance(template, str) else "none"
