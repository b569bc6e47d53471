"""Small GGUF files of random numbers, written by hand."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tfn.llm.blocks import BY_NAME, FORMATS
from tfn.llm.tokenizer import BYTE, CONTROL, NORMAL, UNKNOWN, byte_signs

NUMBERS = {form.name: number for number, form in FORMATS.items()}
KINDS = {np.dtype(t): n for n, t in enumerate(["u1", "i1", "<u2", "<i2", "<u4", "<i4", "<f4"])}
KINDS |= {np.dtype("<u8"): 10, np.dtype("<i8"): 11, np.dtype("<f8"): 12}

Data = np.ndarray[Any, Any]


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def typed(value: Any) -> bytes:
    """The code of a value's type, and the value."""
    kind, raw = encoded(value)
    return struct.pack("<I", kind) + raw


def encoded(value: Any) -> tuple[int, bytes]:
    if isinstance(value, np.generic):
        return KINDS[value.dtype], value.tobytes()
    if isinstance(value, bool):
        return 7, bytes([value])
    if isinstance(value, int):
        return (4, struct.pack("<I", value)) if value < 2**32 else (10, struct.pack("<Q", value))
    if isinstance(value, float):
        return 6, struct.pack("<f", value)
    if isinstance(value, str):
        return 8, text(value)
    if isinstance(value, np.ndarray) and value.dtype == bool:
        return 9, struct.pack("<IQ", 7, len(value)) + value.tobytes()
    if isinstance(value, np.ndarray):
        return 9, struct.pack("<IQ", KINDS[value.dtype], len(value)) + value.tobytes()
    parts = [encoded(item) for item in value]
    return 9, struct.pack("<IQ", parts[0][0], len(parts)) + b"".join(raw for _, raw in parts)


Tensors = Mapping[str, tuple[str, tuple[int, ...], bytes]]
"""Format, shape and bytes by name."""


def gguf(values: Mapping[str, Any], tensors: Tensors, version: int = 3) -> bytes:
    """A file, of whose tensors each begins at a multiple of 64 bytes."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(values) + 1)
    head += text("general.alignment") + typed(64)
    head += b"".join(text(name) + typed(value) for name, value in values.items())
    data = b""
    for name, (form, shape, raw) in tensors.items():
        head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape[::-1],
                                         NUMBERS[form], len(data))  # fmt: skip
        data += raw + bytes(-len(raw) % 64)
    return head + bytes(-len(head) % 64) + data


def tensor(data: Data, form: str = "F32") -> tuple[str, tuple[int, ...], bytes]:
    """Numbers in a format: plain ones, or Q8_0."""
    if form == "Q8_0":
        blocks = data.reshape(-1, 32)
        scale = (np.abs(blocks).max(-1, keepdims=True) / 127).astype(np.float16)
        codes = np.round(blocks / np.maximum(scale.astype(np.float32), 1e-9)).astype(np.int8)
        raw = np.concatenate([scale.view(np.uint8), codes.view(np.uint8)], -1)
        return form, data.shape, raw.tobytes()
    dtype = BY_NAME[form].dtype
    return form, data.shape, data.astype(ml_dtypes.bfloat16 if form == "BF16" else dtype).tobytes()


VOCABULARY = 260
CONTEXT = 64
SPECIAL = ["<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_pairs() -> dict[str, Any]:
    """The tokenizer whose tokens are bytes, two words and two control tokens."""
    tokens = [*byte_signs(), "he", "\u0120a", *SPECIAL]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": np.array([NORMAL] * 258 + [CONTROL] * 2, "<i4"),
        "tokenizer.ggml.merges": ["h e", "\u0120 a"],
        "tokenizer.ggml.bos_token_id": 258,
        "tokenizer.ggml.eos_token_id": 259,
        "tokenizer.chat_template": TEMPLATE,
    }


def sentence_pieces() -> dict[str, Any]:
    """A tokenizer in the manner of SentencePiece, with bytes for what it has no piece for."""
    pieces = ["▁", "a", "b", "c", "ab", "▁a", "bc", "▁ab"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{n:02X}>" for n in range(256)), *pieces]
    kinds = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * len(pieces)
    scores = [0.0] * 259 + [-10.0, -10, -10, -10, -2, -1, -3, -4]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": np.array(kinds, "<i4"),
        "tokenizer.ggml.scores": np.array(scores, "<f4"),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }


def sizes(name: str, **other: Any) -> dict[str, Any]:
    """Values of a network of two layers."""
    own = {
        "embedding_length": 32,
        "block_count": 2,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
        "context_length": CONTEXT,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.freq_base": 1000.0,
    } | other
    return {"general.architecture": name} | {f"{name}.{k}": v for k, v in own.items()}


def weights(
    seed: int = 0,
    *,
    width: int = 32,
    wide: int = 64,
    size: int = 8,
    heads: int = 4,
    kv_heads: int = 2,
    layers: int = 2,
    norms: Sequence[str] = ("attn_norm", "ffn_norm"),
    biases: Sequence[str] = (),
    head_norms: str = "",
    joint_qkv: bool = False,
    gate: str = "own",
    experts: int = 0,
    shared: int = 0,
    final_bias: bool = False,
    final_norm: bool = True,
    positions: bool = False,
    own_output: bool = False,
) -> dict[str, Data]:
    """Random weights by the names of GGUF files."""
    draw = np.random.default_rng(seed)

    def normal(*shape: int) -> Data:
        return (draw.standard_normal(shape) * shape[-1] ** -0.5).astype(np.float32)

    def scale(n: int) -> Data:
        return (1 + 0.1 * draw.standard_normal(n)).astype(np.float32)

    out = {"token_embd.weight": normal(VOCABULARY, width) * 4}
    if positions:
        out["position_embd.weight"] = normal(CONTEXT, width)
    if own_output:
        out["output.weight"] = normal(VOCABULARY, width)
    if final_norm:
        out["output_norm.weight"] = scale(width)
    if final_bias:
        out["output_norm.bias"] = normal(width)
    queries, keys = heads * size, kv_heads * size
    for n in range(layers):
        b = f"blk.{n}."
        out |= {f"{b}{norm}.weight": scale(width) for norm in norms}
        linear = {"attn_output": (width, queries)}
        if joint_qkv:
            linear["attn_qkv"] = (queries + 2 * keys, width)
        else:
            linear |= {"attn_q": (queries, width), "attn_k": (keys, width), "attn_v": (keys, width)}
        if head_norms:
            whole = head_norms == "whole"
            out |= {f"{b}attn_q_norm.weight": scale(queries if whole else size),
                    f"{b}attn_k_norm.weight": scale(keys if whole else size)}  # fmt: skip
        if experts:
            out |= {f"{b}ffn_gate_inp.weight": normal(experts, width) * 4,
                    f"{b}ffn_gate_exps.weight": normal(experts, wide, width),
                    f"{b}ffn_up_exps.weight": normal(experts, wide, width),
                    f"{b}ffn_down_exps.weight": normal(experts, width, wide)}  # fmt: skip
        if shared:
            out[f"{b}ffn_gate_inp_shexp.weight"] = normal(width)
            linear |= {"ffn_gate_shexp": (shared, width), "ffn_up_shexp": (shared, width),
                       "ffn_down_shexp": (width, shared)}  # fmt: skip
        if not experts:
            linear["ffn_down"] = (width, wide)
            linear["ffn_up"] = (2 * wide if gate == "joint" else wide, width)
            if gate == "own":
                linear["ffn_gate"] = (wide, width)
        out |= {f"{b}{name}.weight": normal(*shape) for name, shape in linear.items()}
        for name in biases:
            many = linear[name][0] if name in linear else width
            out[f"{b}{name}.bias"] = normal(many)
    return out


def tiny(form: str = "F32", **other: Any) -> bytes:
    """A llama of two layers, with the tokenizer of bytes."""
    tensors = {
        name: tensor(x, form if x.ndim > 1 else "F32")
        for name, x in weights(own_output=True).items()
    }
    return gguf(sizes("llama") | byte_pairs() | other, tensors)


_EVERY = ("attn_q", "attn_k", "attn_v")
FOUR_NORMS = ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")
NETWORKS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "llama": ("llama", {}, {"own_output": True}),
    "mixtral": ("llama", {"expert_count": 4, "expert_used_count": 2}, {"experts": 4}),
    "smollm3": ("smollm3", {"block_count": 4}, {"layers": 4}),
    "qwen2": ("qwen2", {}, {"biases": _EVERY}),
    "qwen2moe": ("qwen2moe", {"expert_count": 4, "expert_used_count": 2},
                 {"experts": 4, "shared": 32, "biases": _EVERY}),
    "qwen3": ("qwen3", {"attention.key_length": 16, "attention.value_length": 16},
              {"head_norms": "each", "size": 16}),
    "qwen3moe": ("qwen3moe", {"expert_count": 4, "expert_used_count": 2},
                 {"experts": 4, "head_norms": "each"}),
    "gemma": ("gemma", {}, {}),
    "gemma2": ("gemma2", {"attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0,
                          "attention.sliding_window": 4, "block_count": 3},
               {"norms": FOUR_NORMS, "layers": 3}),
    "gemma3": ("gemma3", {"attention.sliding_window": 4, "block_count": 6,
                          "rope.scaling.type": "linear", "rope.scaling.factor": 8.0},
               {"norms": FOUR_NORMS, "head_norms": "each", "layers": 6}),
    "phi3": ("phi3", {}, {"joint_qkv": True, "gate": "joint"}),
    "olmo": ("olmo", {"attention.clamp_kqv": 1.0, "attention.layer_norm_epsilon": 1e-5},
             {"norms": (), "final_norm": False}),
    "olmo2": ("olmo2", {}, {"norms": ("post_attention_norm", "post_ffw_norm"),
                            "head_norms": "whole"}),
    "olmoe": ("olmoe", {"expert_count": 4, "expert_used_count": 2},
              {"experts": 4, "head_norms": "whole"}),
    "gpt2": ("gpt2", {"attention.head_count_kv": 4, "attention.layer_norm_epsilon": 1e-5},
             {"joint_qkv": True, "gate": "", "kv_heads": 4, "positions": True, "final_bias": True,
              "biases": ("attn_norm", "ffn_norm", *("attn_qkv", "attn_output"),
                         *("ffn_up", "ffn_down"))}),
}  # fmt: skip
"""For each name an architecture, values of its file, and choices of `weights`."""


def network(name: str) -> bytes:
    """A file of a row of `NETWORKS`, without a tokenizer."""
    architecture, values, choices = NETWORKS[name]
    tensors = {n: tensor(x) for n, x in weights(**choices).items()}
    return gguf(sizes(architecture, **values), tensors)
