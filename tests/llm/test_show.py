"""Facts of a file in words."""

from __future__ import annotations

from pathlib import Path

from tests.llm import building
from tests.llm.test_folder import written
from tfn.llm import gguf, show
from tfn.llm.model import config_of


def facts(raw: bytes) -> dict[str, str]:
    file = gguf.read(raw)
    return dict(show.facts(file, config_of(file)))


def test_facts_of_a_small_model() -> None:
    assert facts(building.tiny("Q8_0")) == {
        "name": "llama",
        "architecture": "llama, 2 layers of 32, 4 heads of 8, 2 of keys and values",
        "quantization": "Q8_0, 8.6 bits a weight: 16 tensors Q8_0, 5 F32",
        "weights": "35,232 in 21 tensors, 37.9 kB",
        "context": "64 tokens",
        "memory": "37.9 kB of weights; 128 B a token of the text, 8.2 kB at 64 tokens",
        "tokenizer": "byte pairs, 260 tokens, words as in smollm",
        "chats": f"a template of {len(building.TEMPLATE)} characters",
        "format": "GGUF 3",
    }


def test_experts_windows_and_stretched_positions_are_said() -> None:
    assert "2 of 4 experts" in facts(building.network("mixtral"))["architecture"]
    gemma = facts(building.network("gemma3"))
    assert gemma["context"] == "64 tokens, 5 of 6 layers see the last 4, 64 stretched by linear"
    assert gemma["tokenizer"] == gemma["chats"] == "none"


def test_folders_are_shown_as_files_are(tmp_path: Path) -> None:
    file, config = show.read(written(tmp_path, "qwen2"))
    found = dict(show.facts(file, config))
    assert found["architecture"].startswith("qwen2, 2 layers of 32") and found["chats"] == "none"
    assert found["quantization"] == "F32, 32.0 bits a weight: 26 tensors F32"
    assert found["format"] == "safetensors"
