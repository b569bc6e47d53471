"""Every example runs as a script from any folder: --help and --smoke."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.covering import in_turn
from tfn.config import config
from tfn.hw.compile.link import lld

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted(
    path for path in (ROOT / "examples").glob("*.py") if "__main__" in path.read_text()
)
SAYS = {
    "char_gpt": r"checkpoints are in .+\nchar_gpt: [\d.]+ bits per character, 40 steps",
    "llama": r"llama: 10,368 parameters, 32 tokens",
    "lstm": r"checkpoints are in .+\nlstm: [\d.]+ bits per character, 30 steps",
    "micro": r"beside the oracle: [\d.]+e-\d\d",
    "minilm": r"5 The stock market fell today\.",
    "mnist": r"checkpoints are in .+\nmlp: test accuracy [\d.]+%, 2 steps",
    "mnist_in_browser": r"digit\.js: [\d,]+ bytes, test accuracy [\d.]+%",
    "mnist_in_c": r"mnist_in_c: 8 files in .+\n    cc ",
    "network_in_packages": r"network_in_packages: python and rust in .+",
    "neural_ode": r"checkpoints are in .+\nneural_ode: later years .+ 20 steps",
    "lora": r"lora: [\d,]+ numbers trained, loss [\d.]+ before, [\d.]+ after 3 steps",
    "onnx_finetune": r"onnx_finetune: test accuracy [\d.]+% before, [\d.]+% after, 2 steps",
    "per_example_grads": r"checkpoints are in .+\nprivate: test accuracy [\d.]+%",
    "quantized_minilm": r"quantized_minilm: cosines differ from those of floats by 0\.0\d\d",
    "quantized_mnist": r"quantized_mnist: 154,031 integers, [\d.]+%",
    "sharded_gpt": r"sharded_gpt on data=2, fsdp=2, model=2: loss [\d.]+, 5 steps",
    "story_in_browser": r"story\.js: [\d,]+ bytes; now",
    "torch_resnet": r"torch_resnet: 4 steps, apart by [\d.e-]+",
    "tour": r"3\. Transforms",
    "any_length": r"20 requests of 20 lengths, 80 tokens in [\d.]+ s, by \d programs",
    "whisper": r"whisper: \d+ tokens of a tone",
}
"""A pattern in what each script prints for --smoke."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tfn in it, and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    (folder / "tfn").symlink_to(ROOT / "tfn")
    return folder


def run(script: Path, option: str, folder: Path, installed: Path) -> str:
    """Its output when it is run from a folder that holds nothing, with tfn installed."""
    environment = {**os.environ, "PYTHONPATH": str(installed), "COLUMNS": "200"}
    (folder / "elsewhere").mkdir()
    ended = subprocess.run(
        [sys.executable, str(script), option],
        cwd=folder / "elsewhere",
        env={**environment, "XDG_CACHE_HOME": str(folder), "TFN_CACHE_DIR": str(config.cache_dir)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    return ended.stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_help_names_the_options(
    script: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script), "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(script), run_name="__main__")
    text = capsys.readouterr().out
    assert not ended.value.code and text.startswith("usage:")
    assert "--smoke" in text or script.stem == "micro"  # one page: it takes no time anyway
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("script", in_turn(2, SCRIPTS), ids=lambda path: path.stem)
def test_smoke_runs_report_what_they_did(script: Path, tmp_path: Path, installed: Path) -> None:
    if script.stem.endswith("_in_browser") and lld("wasm") is None:
        pytest.skip("there is no linker for WebAssembly")
    if script.stem == "torch_resnet" and find_spec("torch") is None:
        pytest.skip("PyTorch is not installed: pip install torch")
    assert re.search(SAYS[script.stem], run(script, "--smoke", tmp_path, installed))
