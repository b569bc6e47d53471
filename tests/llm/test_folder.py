"""Folders of Hugging Face's: the same networks as those of GGUF files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.llm import building
from tests.llm.test_network import TOKENS
from tfn import llm
from tfn.errors import NotAvailableError, StateError
from tfn.llm.folder import EXPERTS, FOUR_NORMS, INNER

COMMON = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "rope_theta": 1000.0,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
}
GEMMA = {"hidden_activation": "gelu_pytorch_tanh", "hidden_act": "gelu", "num_hidden_layers": 3,
         "sliding_window": 4, "attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0,
         "query_pre_attn_scalar": 8}  # fmt: skip
GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "layer_norm_epsilon": 1e-5,
       "activation_function": "gelu_new"}  # fmt: skip
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen2": ("qwen2", COMMON),
    "qwen2moe": ("qwen2_moe", COMMON | {"num_experts": 4, "num_experts_per_tok": 2}),
    "qwen3": ("qwen3", COMMON | {"head_dim": 16}),
    "gemma2": ("gemma2", COMMON | GEMMA),
    "gpt2": ("gpt2", GPT),
}
"""The `model_type` and config.json of networks of `building.NETWORKS`."""


def named(name: str, kind: str) -> str:
    """The name of a weight in a folder."""
    if not name.startswith("blk."):
        plain = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}
        gpt = {"token_embd": "wte", "output_norm": "ln_f", "position_embd": "transformer.wpe"}
        place, _, last = name.rpartition(".")
        return f"{(gpt if kind == 'gpt2' else plain)[place]}.{last}"
    _, layer, place, last = name.split(".")
    inner = INNER | (FOUR_NORMS if kind == "gemma2" else {})
    own = {
        new: old for old, new in inner.items() if (".c_" in old or "ln_" in old) == (kind == "gpt2")
    }
    return f"{'h' if kind == 'gpt2' else 'model.layers'}.{layer}.{own[place]}.{last}"


def written(folder: Path, row: str, **other: Any) -> Path:
    kind, values = ROWS[row]
    tensors: dict[str, np.ndarray[Any, Any]] = {}
    for name, data in building.weights(**building.NETWORKS[row][2]).items():
        if "_exps" in name:
            _, layer, place, _ = name.split(".")
            part = next(p for p, n in EXPERTS.items() if f"ffn_{n}_exps" == place and p[0] != "w")
            for n, one in enumerate(data):
                tensors[f"model.layers.{layer}.mlp.experts.{n}.{part}.weight"] = one.copy()
            continue
        moved = data.T if kind == "gpt2" and data.ndim == 2 and "embd" not in name else data
        if kind == "gemma2" and name.endswith("norm.weight"):
            moved = data - 1
        if name.endswith("gate_inp_shexp.weight"):
            moved = data.reshape(1, -1)
        tensors[named(name, kind)] = np.ascontiguousarray(moved)
    save_file(tensors, str(folder / "model.safetensors"))
    (folder / "config.json").write_text(json.dumps(values | {"model_type": kind} | other))
    return folder


@pytest.mark.parametrize("row", ROWS)
def test_a_folder_is_the_network_of_its_file(row: str, tmp_path: Path, uncompiled: None) -> None:
    model = llm.load(written(tmp_path, row))
    assert model.tokenizer is None and not model.config.interleaved
    expected = llm.load(building.network(row))(TOKENS)
    assert np.allclose(model(TOKENS), expected, rtol=1e-4, atol=1e-4)


def test_positions_of_long_texts_are_stretched(tmp_path: Path) -> None:
    llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 32}  # fmt: skip
    model = llm.load(written(tmp_path, "qwen2", rope_scaling=llama3))
    factors = np.asarray(model.weights["rope_freqs.weight"])
    assert factors[-1] == 8 and (np.diff(factors) >= 0).all() and factors[0] < 8
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
    config = llm.load(written(tmp_path, "qwen2", rope_scaling=yarn)).config
    assert (config.rope.kind, config.rope.factor, config.rope.original) == ("yarn", 4, 16)


@pytest.mark.parametrize(("values", "kind", "message"), [
    ({"model_type": "bert"}, NotAvailableError, "no architecture 'bert'"),
    ({"hidden_act": "relu"}, NotAvailableError, "hidden_act = 'relu'"),
    ({"rope_scaling": {"rope_type": "dynamic"}}, NotAvailableError, "dynamic"),
    ({"rope_scaling": {"rope_type": "llama3"}}, StateError, "rope_scaling"),
    ({"num_hidden_layers": "2"}, StateError, "block_count"),
    ({"num_hidden_layers": 3}, StateError, "blk.2"),
])  # fmt: skip
def test_other_folders_are_refused(
    values: dict[str, Any], kind: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=message):
        llm.load(written(tmp_path, "qwen2", **values))


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    written(tmp_path, "qwen2")
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(StateError, match="no values"):
        llm.load(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(StateError, match=r"config.json"):
        llm.load(tmp_path)
