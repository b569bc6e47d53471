"""The MNIST example: its data, a tiny training, how it ends, and how it goes on."""

import gzip
import re
from pathlib import Path
from typing import Any

import mnist
import numpy as np
import pytest

from tfn import random, tree
from tfn.config import config
from tfn.errors import StateError


def test_data_is_there() -> None:
    images = mnist.load("t10k")
    assert images.pixels.shape == (10000, 28, 28)
    assert np.bincount(np.asarray(images.digits)).sum() == 10000
    assert images.digits[:5].tolist() == [7, 2, 1, 0, 4]
    assert "CC BY-SA 3.0" in (mnist.DATA / "README.md").read_text()


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    """The checksum of gzip sees what changes."""
    path = tmp_path / "x.gz"
    sizes = np.array([3, 5], ">u4").tobytes()
    raw = gzip.compress(b"\0\0\x08\2" + sizes + bytes(range(15)), mtime=0)
    path.write_bytes(raw)
    good = mnist.read_idx(path).tolist()
    for at in range(len(raw)):
        for wrong in (raw[:at], raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]):
            path.write_bytes(wrong)
            try:
                assert mnist.read_idx(path).tolist() == good  # a byte of the head that says nothing
            except StateError:
                continue
            assert len(wrong) == len(raw)
    for content in (b"", b"\0\0\x08", b"\0\0\x08\1\0\0\0\5abc", b"\0\0\x0d\1\0\0\0\0"):
        path.write_bytes(gzip.compress(content))
        with pytest.raises(StateError):
            mnist.read_idx(path)


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def make(*options: str) -> list[str]:
        arguments = ["--smoke", "--checkpoints", str(tmp_path), *options]
        assert mnist.main(arguments) == 0
        return capsys.readouterr().out.splitlines()

    return make


@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_it_learns_and_reports(model: str, run: Any) -> None:
    lines = run("--model", model, "--epochs", "6", "--batch-size", "32")
    assert [line.split(":")[0] for line in lines[:-2]] == [f"epoch {n + 1}" for n in range(6)]
    found = re.fullmatch(
        model + r": test accuracy ([\d.]+)%, 48 steps, loss [\d.]+, compiled in [\d.]+ s, "
        r"[\d.]+ ms a step, [\d,]+ images/s",
        lines[-1],
    )
    assert found is not None
    assert float(found[1]) > 50  # of 256 images; guessing gives 10


def test_a_seed_gives_the_same_network(run: Any) -> None:
    first, again, other = (run("--seed", seed)[0] for seed in "110")
    assert first == again != other


@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_devices_divide_the_batches_and_change_nothing(model: str, run: Any) -> None:
    before = config.devices
    try:
        one, four = (run("--model", model, "--devices", n)[:-1] for n in "14")
    finally:
        config.devices = before
    loss, accuracy = (float(x) for x in re.findall(r"[\d.]+(?=,|%)", one[0]))
    assert one[0] == f"epoch 1: loss {loss:.4f}, test accuracy {accuracy:.2f}%"
    got = [float(x) for x in re.findall(r"[\d.]+(?=,|%)", four[0])]
    np.testing.assert_allclose(got, [loss, accuracy], atol=2e-4)


def test_devices_have_equal_parts(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        mnist.main(["--smoke", "--devices", "3"])
    assert "--devices divides a batch of 128 into equal parts" in capsys.readouterr().err


def test_quiet_prints_one_line(run: Any) -> None:
    assert len(run("--quiet")) == 1


def test_networks() -> None:
    pixels = mnist.load("t10k", 3).pixels
    for model in mnist.MODELS.values():
        network = model.init(random.key(0))
        assert mnist.logits_of(network, pixels).shape == (3, 10)
        assert all(leaf.dtype == np.float32 for leaf in tree.leaves(network))


def test_an_interrupted_run_goes_on(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--smoke", "--epochs", "4", "--batch-size", "64", "--checkpoints", str(tmp_path)]
    whole = run(*options)
    evaluate, calls = mnist.accuracy, []

    def interrupted(*args: Any) -> float:
        calls.append(args)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return evaluate(*args)

    with monkeypatch.context() as patch:
        patch.setattr(mnist, "accuracy", interrupted)
        assert mnist.main(options) == 130
    assert "--resume goes on" in capsys.readouterr().out
    rest = run(*options, "--resume")
    assert rest[:2] == whole[2:4]
    assert len(rest) == 4
    done = run(*options, "--resume")
    assert done[-1] == whole[-1].split(", ")[0] + ", 16 steps"


def test_a_curve_is_drawn(run: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="an extra")
    run("--plot", str(tmp_path / "loss.png"))
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")


def test_read_idx(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"\0\0\x08\x02" + b"\0\0\0\2" + b"\0\0\0\3" + bytes(range(6))))
    assert mnist.read_idx(path).tolist() == [[0, 1, 2], [3, 4, 5]]
