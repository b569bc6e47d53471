"""A model learns a text by its adapters, and its weights stay as they were."""

from __future__ import annotations

from pathlib import Path

import lora
import numpy as np
import pytest

from tfn.nn import state


def test_the_loss_falls_and_adapters_are_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "adapters.safetensors"
    arguments = ["--smoke", "--steps", "30", "--to", str(file)]
    assert lora.main(arguments) == 0
    words = capsys.readouterr().out.split()
    assert float(words[words.index("before,") + 1]) < 0.8 * float(words[words.index("loss") + 1])
    saved = state.mapped(file)
    assert len(saved) == 8 and all(np.abs(x).max() > 0 for x in saved.values())
