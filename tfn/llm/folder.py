"""Folders of Hugging Face's: config.json and safetensors as what a GGUF file would say.

The values and tensors of a folder get the names that GGUF files have, and go the same way from
there.  Weights are mapped; experts, which lie one by one, are joined by a copy.

Source: huggingface.co/docs/transformers, the configurations and weights of each model.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tfn.errors import NotAvailableError, StateError
from tfn.llm.config import Config, Data, from_values, supported
from tfn.nn import state

# fmt: off
KINDS = {
    "llama": "llama", "mistral": "llama", "mixtral": "llama", "smollm3": "smollm3",
    "qwen2": "qwen2", "qwen2_moe": "qwen2moe", "qwen3": "qwen3", "qwen3_moe": "qwen3moe",
    "gemma": "gemma", "gemma2": "gemma2", "gemma3_text": "gemma3", "phi3": "phi3", "olmo": "olmo",
    "olmo2": "olmo2", "olmoe": "olmoe", "gpt2": "gpt2",
}
"""Architectures by the `model_type` of config.json."""

NUMBERS = {
    "embedding_length": ("hidden_size", "n_embd"), "block_count": ("num_hidden_layers", "n_layer"),
    "attention.head_count": ("num_attention_heads", "n_head"),
    "attention.head_count_kv": ("num_key_value_heads",), "attention.key_length": ("head_dim",),
    "attention.value_length": ("head_dim",),
    "context_length": ("max_position_embeddings", "n_positions"),
    "attention.layer_norm_rms_epsilon": ("rms_norm_eps",),
    "attention.layer_norm_epsilon": ("layer_norm_epsilon", "layer_norm_eps"),
    "attention.sliding_window": ("sliding_window",),
    "attention.sliding_window_pattern": ("sliding_window_pattern",),
    "rope.freq_base": ("rope_theta",), "rope.freq_base_swa": ("rope_local_base_freq",),
    "attn_logit_softcapping": ("attn_logit_softcapping",),
    "final_logit_softcapping": ("final_logit_softcapping",), "attention.clamp_kqv": ("clip_qkv",),
    "expert_count": ("num_local_experts", "num_experts"),
    "expert_used_count": ("num_experts_per_tok",),
}
"""Values of GGUF files, and where config.json has them."""

LAYER = re.compile(r"(?:model\.|transformer\.)?(?:layers|h)\.(\d+)\.(.+)")
EXPERT = re.compile(r"(?:mlp|block_sparse_moe)\.experts\.(\d+)\.(\w+)\.weight")

OUTER = {
    "embed_tokens": "token_embd", "wte": "token_embd", "wpe": "position_embd",
    "norm": "output_norm", "ln_f": "output_norm", "lm_head": "output",
}
"""Weights outside of layers."""

INNER = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.qkv_proj": "attn_qkv",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "mlp.gate_up_proj": "ffn_up", "mlp.gate": "ffn_gate_inp",
    "block_sparse_moe.gate": "ffn_gate_inp",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp", "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp", "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
    "ln_1": "attn_norm", "ln_2": "ffn_norm", "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
}
"""Weights of a layer."""

FOUR_NORMS = {
    "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
"""Norms of layers that have one after attention too."""

EXPERTS = {
    "w1": "gate", "w2": "down", "w3": "up", "gate_proj": "gate", "down_proj": "down",
    "up_proj": "up",
}
"""Matrices of an expert."""

IGNORED = re.compile(r".*\.(rotary_emb\.inv_freq|attn\.bias|attn\.masked_bias)")

ACTIVATIONS = {"silu": "silu", "swish": "silu", "gelu_new": "gelu", "gelu_pytorch_tanh": "gelu"}
"""Activations by the names of config.json."""
# fmt: on


def read(folder: Path) -> tuple[Config, dict[str, Data]]:
    """The network of a folder, and its weights by the names of GGUF files.

    Raises:
        StateError: if a file is damaged, or is not of a network.
        NotAvailableError: for an architecture or an option that tfn does not have.
        OSError: if a file cannot be read.
    """
    text = (folder / "config.json").read_text("utf-8")
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise _wrong(f"config.json: {error}") from None
    if not isinstance(raw, dict):
        raise _wrong("config.json has no values")
    index = folder / "model.safetensors.index.json"
    mapped = state.mapped(index if index.exists() else folder / "model.safetensors")
    kind = KINDS.get(str(raw.get("model_type")), str(raw.get("model_type")))
    weights = dict(_renamed(mapped, kind))
    table = weights.get("token_embd.weight")
    config = _config(raw, kind, len(table) if table is not None else 0)
    factors = _llama3_factors(_scaling(raw), config)
    if factors is not None:
        weights["rope_freqs.weight"] = factors
    for name in ("long", "short"):
        listed = _scaling(raw).get(f"{name}_factor")
        if isinstance(listed, list):
            weights[f"rope_factors_{name}.weight"] = _numbers(listed)
    if raw.get("tie_word_embeddings", kind != "llama") is True:
        weights.pop("output.weight", None)
    return config, weights


def _scaling(raw: Mapping[str, Any]) -> dict[str, Any]:
    found = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    return found if isinstance(found, dict) else {}


def _config(raw: Mapping[str, Any], kind: str, vocabulary: int) -> Config:
    """The network that config.json describes."""
    row = supported(kind)
    values: dict[str, Any] = {"general.architecture": kind}
    for name, places in NUMBERS.items():
        found = [raw[place] for place in places if raw.get(place) is not None]
        if found:
            values[f"{kind}.{name}"] = found[0]
    size = raw.get("head_dim") or 0
    scaling = _scaling(raw)
    if isinstance(scaling.get("full_attention"), dict):  # one for each kind of layer
        near = scaling.get("sliding_attention", {})
        values[f"{kind}.rope.freq_base_swa"] = near.get("rope_theta", 10000.0)
        scaling = scaling["full_attention"]
    if scaling.get("rope_theta"):
        values[f"{kind}.rope.freq_base"] = scaling["rope_theta"]
    part = raw.get("partial_rotary_factor", scaling.get("partial_rotary_factor", 1.0))
    if isinstance(part, float) and part < 1 and isinstance(raw.get("hidden_size"), int):
        whole = size or raw["hidden_size"] // max(int(raw.get("num_attention_heads", 1)), 1)
        values[f"{kind}.rope.dimension_count"] = int(whole * part)
    stretching = scaling.get("rope_type", scaling.get("type", "default"))
    if stretching in ("linear", "yarn", "longrope"):
        values[f"{kind}.rope.scaling.type"] = stretching
        values[f"{kind}.rope.scaling.factor"] = scaling.get("factor", 1.0)
        original = scaling.get(
            "original_max_position_embeddings", raw.get("original_max_position_embeddings")
        )
        if original is not None:
            values[f"{kind}.rope.scaling.original_context_length"] = original
        if stretching == "longrope":
            values[f"{kind}.rope.scaling.attn_factor"] = _longrope_factor(raw, original)
    elif stretching not in ("default", "llama3"):
        raise _lacking("rope_type", stretching)
    if raw.get("use_sliding_window") is False:
        values.pop(f"{kind}.attention.sliding_window", None)
    config = from_values(values, vocabulary)
    for name in ("hidden_activation", "hidden_act", "activation_function"):
        if raw.get(name) is not None:
            if ACTIVATIONS.get(str(raw[name])) != row.activation:
                raise _lacking(name, raw[name])
            break
    shared = raw.get("norm_topk_prob")
    if config.experts and shared is not None and shared is not row.normalized_experts:
        raise _lacking("norm_topk_prob", shared)
    scale = raw.get("query_pre_attn_scalar")
    scale = float(scale) ** -0.5 if isinstance(scale, (int, float)) and scale > 0 else None
    return replace(
        config, interleaved=False, query_scale=config.query_scale if scale is None else scale
    )


def _longrope_factor(raw: Mapping[str, Any], original: Any) -> float:
    """The factor of cosines and sines of texts that are stretched."""
    context = raw.get("max_position_embeddings")
    if not isinstance(context, int) or not isinstance(original, int) or original < 2:
        raise _wrong("the context before stretching is missing")
    ratio = context / original
    return float(np.sqrt(1 + np.log(ratio) / np.log(original))) if ratio > 1 else 1.0


def _llama3_factors(scaling: Mapping[str, Any], config: Config) -> Data | None:
    """Factors of wavelengths, by which Llama 3 stretches low frequencies."""
    if scaling.get("rope_type", scaling.get("type")) != "llama3":
        return None
    names = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    try:
        factor, low, high, original = (float(scaling[name]) for name in names)
        turns = original * config.rope.frequencies() / (2 * np.pi)  # within the original context
        smooth = np.clip((turns - low) / (high - low), 0, 1)
        return (1 / ((1 - smooth) / factor + smooth)).astype(np.float32)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise _wrong(f"rope_scaling: {error!r}") from None


def _renamed(weights: Mapping[str, Data], kind: str) -> Iterator[tuple[str, Data]]:
    """Weights by the names of GGUF files."""
    inner = INNER | (FOUR_NORMS if kind in ("gemma2", "gemma3", "olmo2") else {})
    experts: dict[str, dict[int, Data]] = defaultdict(dict)
    for name, data in weights.items():
        if IGNORED.fullmatch(name):
            continue
        matched = LAYER.fullmatch(name)
        if matched is None:
            place, _, last = name.rpartition(".")
            short = OUTER.get(place.removeprefix("model.").removeprefix("transformer."), place)
            yield f"{short}.{last}", _as_here(data, kind, short)
            continue
        layer, rest = matched.groups()
        single = EXPERT.fullmatch(rest)
        if single is not None and single[2] in EXPERTS:
            experts[f"blk.{layer}.ffn_{EXPERTS[single[2]]}_exps.weight"][int(single[1])] = data
            continue
        place, _, last = rest.rpartition(".")
        short = inner.get(place, place)
        yield f"blk.{layer}.{short}.{last}", _as_here(data, kind, short)
    for name, parts in experts.items():
        if sorted(parts) != [*range(len(parts))] or len({x.shape for x in parts.values()}) > 1:
            raise _wrong(f"not every expert of {name} is there")
        yield name, np.stack([parts[n] for n in range(len(parts))])


def _as_here(data: Data, kind: str, name: str) -> Data:
    """A weight as GGUF files have it."""
    if kind == "gpt2" and data.ndim == 2 and name not in ("token_embd", "position_embd", "output"):
        return np.ascontiguousarray(data.T)
    if kind.startswith("gemma") and name.endswith("norm"):
        return np.asarray(data, np.float32) + 1
    return data.reshape(-1) if name == "ffn_gate_inp_shexp" else data


def _numbers(listed: list[Any]) -> Data:
    try:
        return np.array(listed, np.float32)
    except (TypeError, ValueError) as error:
        raise _wrong(f"a list of numbers: {error}") from None


def _lacking(name: str, value: Any) -> NotAvailableError:
    return NotAvailableError(
        "tfn.llm does not have this choice of a network", got=f"{name} = {value!r} in config.json"
    )


def _wrong(what: str) -> StateError:
    return StateError(
        "this folder holds no model that can be used", got=what, hint="load it as it was published"
    )
