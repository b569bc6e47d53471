"""Tokenizers: texts as numbers of tokens, by what a model's file says and the library `tokenizers`.

Text becomes tokens by that library; tokens become bytes here, so that a stream can be cut between
any two of them and no character is torn.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfn.errors import ArgumentError, MissingPackageError, NotAvailableError, StateError

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)
"""Kinds of tokens, by the codes of `tokenizer.ggml.token_type`."""

END_NAMES = {
    *("<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|eom_id|>"),
    *("</s>", "<|end_of_text|>", "<EOT>", "<|EOT|>", "<eos>", "<|return|>"),
}
"""Control tokens that end an answer, whatever else a file says."""

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_WORDS = (
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|"
    r"\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_CASED = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%s|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%s|"
    r"\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SHORTENED = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?"
LLAMA3, QWEN2 = _WORDS % "{1,3}", _WORDS % ""
TEKKEN, GPT4O = _CASED % ("", "", ""), _CASED % (_SHORTENED, _SHORTENED, "{1,3}")
_HAN, _KANA = "[一-龥\u0800-一가-\ud7ff]+", "[一-龥\u3040-ゟ゠-ヿ]+"
_SENTENCES = r" ?[^(\s|.,!?…。，、।۔،)]+"
DEEPSEEK3 = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"""
    r""" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
)

# fmt: off
WORDS: dict[str, tuple[str, ...]] = {
    "default": (r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"),
    **dict.fromkeys(("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "lfm2",
                     "dbrx", "smaug-bpe", "chatglm-bpe", "glm4"), (LLAMA3,)),
    **dict.fromkeys(("gpt-2", "phi-2", "gigachat", "mpt", "olmo", "jais", "exaone4", "trillion",
                     "granite-docling", "roberta-bpe", "mellum"), (GPT2,)),
    **dict.fromkeys(("starcoder", "refact", "command-r", "smollm", "codeshell", "exaone",
                     "minerva-7b"), (r"\p{N}", GPT2)),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "stablelm2", "megrez", "hunyuan"), (QWEN2,)),
    **dict.fromkeys(("bloom", "poro-chat", "gpt3-finnish"), (_SENTENCES,)),
    **dict.fromkeys(("gpt-4o", "llama4"), (GPT4O,)),
    **dict.fromkeys(("deepseek-v3", "hunyuan-dense"), (r"\p{N}{1,3}", _KANA, DEEPSEEK3)),
    "tekken": (TEKKEN,),
    "viking": (_SENTENCES, r"\p{N}"),
    "falcon": (r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"),
    "deepseek-coder": ("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _HAN, r"\p{N}"),
}
"""Regular expressions that cut a text into words, one after the other, by the names of files."""
# fmt: on

WHOLE_WORDS = {
    "llama3",
    "llama-v3",
    "llama-bpe",
    "falcon3",
    "falcon-h1",
    "pixtral",
    "lfm2",
    "tekken",
}
"""Names of those that take a word which is a token as it is."""

BOS_BY_DEFAULT = {
    "llama3",
    "llama-v3",
    "llama-bpe",
    "falcon3",
    "falcon-h1",
    "pixtral",
    "lfm2",
    "tekken",
}
"""Names of those that begin a text with its token where a file does not say so."""

NO_SIGN = "\uffff"
"""Stands for characters of latin-1 by which vocabularies of GPT-2's kind write no byte."""
SPACE = "\u2581"
"""The sign for a space in pieces of SentencePiece."""


class Tokenizer:
    """The tokens of a model; equal to itself alone.

    Attributes:
        pieces: the bytes of each token; those of control tokens are their names.
        controls: control tokens, whose bytes are no part of an answer.
        ends: tokens that end an answer.
        bos: the token that begins a text; None for none.
        eos: the token that ends one; None for none.
        adds_bos: whether a text begins with `bos`.
        adds_eos: whether a text ends with `eos`.
        template: of chats, by jinja; None for a model that has none.
        kind: of the algorithm, in words.
    """

    def __init__(
        self,
        library: Any,
        pieces: Sequence[bytes],
        *,
        controls: Iterable[int] = (),
        ends: Iterable[int] = (),
        bos: int | None = None,
        eos: int | None = None,
        adds_bos: bool = False,
        adds_eos: bool = False,
        template: str | None = None,
        kind: str = "",
    ) -> None:
        self._library = library
        self.pieces = pieces
        self.controls = frozenset(controls)
        self.ends = frozenset(ends)
        self.bos, self.eos = bos, eos
        self.adds_bos, self.adds_eos = adds_bos, adds_eos
        self.template = template
        self.kind = kind

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """The tokens of a text.

        Args:
            text: names of control tokens in it are these tokens.
            special: whether to begin and end it with the tokens that the model wants there.
        """
        begin = [self.bos] if special and self.adds_bos and self.bos is not None else []
        if begin and self.bos is not None and text.startswith(self.name(self.bos)):
            begin = []  # a template has written it
        end = [self.eos] if special and self.adds_eos and self.eos is not None else []
        return [*begin, *self._library.encode(text, add_special_tokens=False).ids, *end]

    def name(self, token: int) -> str:
        """A token as text; bytes that are no text as a sign for that."""
        return self.pieces[token].decode("utf-8", "replace")

    def bytes_of(self, token: int) -> bytes:
        """The bytes that a token adds to an answer."""
        return b"" if token in self.controls or token >= len(self.pieces) else self.pieces[token]

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of tokens."""
        return b"".join(map(self.bytes_of, tokens)).decode("utf-8", "replace")

    def decoder(self) -> codecs.IncrementalDecoder:
        """A decoder of a stream of bytes, which keeps the first bytes of a character."""
        return codecs.getincrementaldecoder("utf-8")("replace")


def byte_signs() -> dict[str, int]:
    """The byte of each character by which vocabularies of GPT-2's kind write bytes."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    signs = {chr(byte): byte for byte in shown}
    hidden = (byte for byte in range(256) if byte not in shown)
    return signs | {chr(256 + n): byte for n, byte in enumerate(hidden)}


def from_values(values: Mapping[str, Any], vocabulary: int) -> Tokenizer:
    """The tokenizer of a GGUF file.

    Args:
        values: of the file, by name.
        vocabulary: rows of the table of embeddings.

    Raises:
        MissingPackageError: without the library `tokenizers`.
        NotAvailableError: for a kind of tokenizer that tfn does not have.
        StateError: for values that are no tokenizer.
    """
    own = {k.removeprefix("tokenizer.ggml."): v for k, v in values.items() if "tokenizer" in k}
    tokens = own.get("tokens")
    if not isinstance(tokens, list) or not tokens or len(tokens) > vocabulary:
        raise _wrong("there are no tokens, or more than embeddings")
    kinds = own.get("token_type")
    if kinds is None:
        kinds = np.ones(len(tokens), np.int32)
    if not isinstance(kinds, np.ndarray) or len(kinds) != len(tokens):
        raise _wrong("not every token has a kind")
    model, words = own.get("model"), own.get("pre", "default")
    if model == "gpt2":
        if words not in WORDS:
            raise NotAvailableError(
                "tfn.llm does not know how this tokenizer cuts text into words",
                got=f"tokenizer.ggml.pre = {words!r}",
                hint="there are " + ", ".join(WORDS),
            )
        library, pieces = _byte_pairs(tokens, kinds, own.get("merges"), words)
        adds = words in BOS_BY_DEFAULT
    elif model == "llama":
        library, pieces = _sentence_pieces(tokens, kinds, own)
        adds = True
    else:
        raise NotAvailableError(
            "tfn.llm does not have this kind of tokenizer",
            got=f"tokenizer.ggml.model = {model!r}",
            hint='there are "gpt2" (byte pairs) and "llama" (SentencePiece)',
        )
    controls = np.flatnonzero(np.isin(kinds, (CONTROL, UNKNOWN))).tolist()
    numbers = {
        name: value
        for name in ("bos", "eos", "eot", "eom")
        if isinstance(value := own.get(f"{name}_token_id"), int) and 0 <= value < len(tokens)
    }
    named = [t for t in controls if tokens[t] in END_NAMES]
    template = values.get("tokenizer.chat_template")
    return Tokenizer(
        library,
        pieces,
        controls=controls,
        ends=[*named, *(v for n, v in numbers.items() if n != "bos")],
        bos=numbers.get("bos"),
        eos=numbers.get("eos"),
        adds_bos=bool(own.get("add_bos_token", adds)),
        adds_eos=bool(own.get("add_eos_token", False)),
        template=template if isinstance(template, str) else None,
        kind=f"byte pairs, words as in {words}" if model == "gpt2" else "SentencePiece",
    )


def _byte_pairs(
    tokens: list[str], kinds: np.ndarray[Any, Any], merges: Any, words: str
) -> tuple[Any, list[bytes]]:
    if not isinstance(merges, list):
        raise _wrong("there are no merges")
    pairs = [tuple(merge.split(" ", 1)) for merge in merges if isinstance(merge, str)]
    if len(pairs) != len(merges) or any(len(pair) != 2 for pair in pairs):
        raise _wrong("a merge is no pair of pieces")
    library = _library()
    numbers = _numbered(tokens)
    for a, b in pairs:
        if a not in numbers or b not in numbers or a + b not in numbers:
            raise _wrong(f"the merge {f'{a} {b}'!r} is of no pieces")
    model = library.models.BPE(numbers, pairs, ignore_merges=words in WHOLE_WORDS)
    built = library.Tokenizer(model)
    cuts = [library.pre_tokenizers.Split(library.Regex(cut), "isolated") for cut in WORDS[words]]
    built.pre_tokenizer = library.pre_tokenizers.Sequence(
        [*cuts, library.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    _add(library, built, tokens, kinds)
    return built, byte_pair_pieces(tokens, kinds)


def byte_pair_pieces(tokens: Sequence[str], kinds: Any) -> list[bytes]:
    """The bytes of tokens that are written in the way of GPT-2."""
    signs = byte_signs()
    latin = dict.fromkeys(range(256), NO_SIGN) | {ord(sign): byte for sign, byte in signs.items()}
    pieces = []
    for token, kind in zip(tokens, np.asarray(kinds).tolist()):
        try:
            plain = kind != NORMAL
            piece = token.encode() if plain else token.translate(latin).encode("latin-1")
        except UnicodeEncodeError:  # a sign that stands for no byte
            piece = token.encode()
        pieces.append(piece)
    return pieces


def _sentence_pieces(
    tokens: list[str], kinds: np.ndarray[Any, Any], own: Mapping[str, Any]
) -> tuple[Any, list[bytes]]:
    scores = own.get("scores")
    if not isinstance(scores, np.ndarray) or len(scores) != len(tokens):
        raise _wrong("not every token has a score")
    numbers = _numbered(tokens)
    found: list[tuple[float, int, str, str]] = []
    for number, (token, kind) in enumerate(zip(tokens, kinds.tolist())):
        if kind == NORMAL:
            found += [
                (-scores[number], number, token[:at], token[at:])
                for at in range(1, len(token))
                if token[:at] in numbers and token[at:] in numbers
            ]
    found.sort()
    library = _library()
    unknown = tokens[int(np.argmax(kinds == UNKNOWN))] if (kinds == UNKNOWN).any() else None
    model = library.models.BPE(
        numbers, [row[2:] for row in found], byte_fallback=True, unk_token=unknown, fuse_unk=True
    )
    built = library.Tokenizer(model)
    steps = [library.normalizers.Replace(" ", SPACE)]
    if own.get("add_space_prefix", True):
        steps.insert(0, library.normalizers.Prepend(SPACE))
    built.normalizer = library.normalizers.Sequence(steps)
    _add(library, built, tokens, kinds)
    return built, [sentence_piece(token, kind) for token, kind in zip(tokens, kinds.tolist())]


def sentence_piece(token: str, kind: int) -> bytes:
    """The bytes of a token of SentencePiece's."""
    if kind == BYTE and len(token) == 6:
        try:
            return bytes([int(token[3:5], 16)])
        except ValueError:
            raise _wrong(f"the token {token!r} is no byte") from None
    return token.encode() if kind == CONTROL else token.replace(SPACE, " ").encode()


def _numbered(tokens: list[str]) -> dict[str, int]:
    """Numbers of tokens; of equal ones the first counts."""
    return dict(zip(reversed(tokens), range(len(tokens) - 1, -1, -1)))


def _add(library: Any, built: Any, tokens: Sequence[str], kinds: np.ndarray[Any, Any]) -> None:
    """Tokens that are looked for in a text before anything else."""
    found = np.flatnonzero(np.isin(kinds, (CONTROL, USER))).tolist()
    built.add_special_tokens(
        [library.AddedToken(tokens[n], special=True, normalized=False) for n in found if tokens[n]]
    )


def _library() -> Any:
    try:
        import tokenizers
    except ImportError:
        raise MissingPackageError(
            "tokenizers of models need the package tokenizers", hint="pip install 'tfn[llm]'"
        ) from None
    return tokenizers


def from_folder(folder: Path, vocabulary: int) -> Tokenizer:
    """The tokenizer of a folder of Hugging Face's: tokenizer.json and tokenizer_config.json.

    Raises:
        MissingPackageError: without the library `tokenizers`.
        StateError: for files that are no tokenizer.
        OSError: if one cannot be read.
    """
    text = (folder / "tokenizer.json").read_text("utf-8")
    settings_file = folder / "tokenizer_config.json"
    library = _library()
    try:
        raw = json.loads(text)
        settings = json.loads(settings_file.read_text("utf-8")) if settings_file.exists() else {}
        built = library.Tokenizer.from_str(text)
        is_bytes = '"ByteLevel"' in json.dumps([raw.get("decoder"), raw.get("pre_tokenizer")])
        size = max(built.get_vocab().values()) + 1
        if size > vocabulary:
            raise ValueError(f"{size} tokens, and {vocabulary} embeddings")
        tokens, kinds = [""] * size, [NORMAL] * size
        for token, number in built.get_vocab().items():
            tokens[number] = token
            if token[:3] == "<0x" and len(token) == 6 and not is_bytes:
                kinds[number] = BYTE
        for added in raw.get("added_tokens", ()):
            kinds[added["id"]] = CONTROL if added["special"] else USER
        named = {n: _content(settings.get(f"{n}_token")) for n in ("bos", "eos")}
        numbers = {n: built.token_to_id(v) for n, v in named.items() if v}
        template = settings.get("chat_template")
        jinja = folder / "chat_template.jinja"
        if jinja.exists():
            template = jinja.read_text("utf-8")
        first = built.encode("", add_special_tokens=True).ids
    except StateError:
        raise
    except Exception as error:  # the library raises this class itself
        raise _wrong(f"{folder.name}: {error}") from None
    pieces = (
        byte_pair_pieces(tokens, kinds)
        if is_bytes
        else [sentence_piece(t, k) for t, k in zip(tokens, kinds)]
    )
    bos = numbers.get("bos")
    ends = [n for n, token in enumerate(tokens) if kinds[n] == CONTROL and token in END_NAMES]
    return Tokenizer(
        built,
        pieces,
        controls=[n for n, kind in enumerate(kinds) if kind == CONTROL],
        ends=[*ends, *(v for n, v in numbers.items() if n == "eos" and v is not None)],
        bos=bos,
        eos=numbers.get("eos"),
        adds_bos=bos is not None and bos in first[:1],
        adds_eos=False,
        template=template if isinstance(template, str) else None,
        kind="byte pairs" if is_bytes else "SentencePiece",
    )


def _content(token: Any) -> str | None:
    """The text of a token in a settings file, which may be a record."""
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) else None


def _wrong(what: str) -> StateError:
    return StateError(
        "this file has no tokenizer that can be used", got=what, hint="load the file as published"
    )


def check_tokens(tokens: Sequence[int], vocabulary: int) -> None:
    """Refuse numbers that are no tokens.

    Raises:
        ArgumentError: naming one.
    """
    wrong = next((t for t in tokens if not 0 <= t < vocabulary), None)
    if wrong is not None:
        raise ArgumentError(
            "a prompt has a number that is no token",
            got=f"{wrong}",
            hint=f"the model has tokens 0 to {vocabulary - 1:,}",
        )
