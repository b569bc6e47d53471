"""The MNIST example: its data, a tiny training, and how it ends."""

import gzip
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples import mnist
from tfn import random, tree


def test_data_is_there() -> None:
    images = mnist.load("t10k")
    assert images.pixels.shape == (10000, 28, 28)
    assert np.bincount(np.asarray(images.digits)).sum() == 10000
    assert images.digits[:5].tolist() == [7, 2, 1, 0, 4]
    assert "CC BY-SA 3.0" in (mnist.DATA / "README.md").read_text()


def run(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert mnist.main(["--smoke", *options]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_it_learns_and_reports(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--model", model, "--epochs", "6", "--batch-size", "32")
    lines = run(capsys, *options).splitlines()
    assert [line.split(":")[0] for line in lines[:-1]] == [f"epoch {n + 1}" for n in range(6)]
    found = re.fullmatch(
        model + r": test accuracy ([\d.]+)%, compiled in [\d.]+ s, [\d.]+ ms a step, "
        r"[\d,]+ images/s", lines[-1],
    )  # fmt: skip
    assert found is not None
    assert float(found[1]) > 50  # of 256 images; guessing gives 10


def test_a_seed_gives_the_same_network(capsys: pytest.CaptureFixture[str]) -> None:
    first, again, other = (run(capsys, "--seed", seed).splitlines()[0] for seed in "110")
    assert first == again != other


def test_quiet_prints_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(run(capsys, "--quiet").splitlines()) == 1


def test_networks() -> None:
    pixels = mnist.load("t10k", 3).pixels
    for model in mnist.MODELS.values():
        network = model.init(random.key(0))
        assert mnist.logits_of(network, pixels).shape == (3, 10)
        assert all(leaf.dtype == np.float32 for leaf in tree.leaves(network))


def test_an_interrupt_ends_it(monkeypatch: pytest.MonkeyPatch,
                              capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    def interrupt(*args: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(mnist, "make_step", lambda *args: interrupt)
    assert mnist.main(["--smoke"]) == 130
    assert "interrupted" in capsys.readouterr().out


def test_read_idx(tmp_path: Path) -> None:

    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"\0\0\x08\x02" + b"\0\0\0\2" + b"\0\0\0\3" + bytes(range(6))))
    assert mnist.read_idx(path).tolist() == [[0, 1, 2], [3, 4, 5]]
