"""The GPT on many devices: the losses are those of one device, however the work is divided."""

from __future__ import annotations

import random as chances
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import sharded_gpt
from rich.console import Console

import tfn
from tests.covering import in_turn
from tfn import random, tree
from tfn.config import config
from tfn.nn.checkpoint import Checkpoints, load


@pytest.fixture(autouse=True)
def _devices() -> Iterator[None]:
    before = config.devices
    yield
    config.devices = before


def losses(*options: str) -> list[float]:
    console = Console(quiet=True)
    arguments = ["--smoke", "--quiet", "--steps", "3", "--layers", "2", "--width", "16", *options]
    return sharded_gpt.train(sharded_gpt.parse(arguments), console)


@pytest.fixture(scope="module")
def of_one_device() -> list[float]:
    return losses("--mesh", "data=1")


@pytest.mark.parametrize(
    "options",
    in_turn(
        2,
        [
            "data=2,fsdp=2,model=2",
            "data=4",
            "fsdp=4",
            "pipe=2,data=2,model=2",
            "data=2 --accumulate=4",
            "model=4",
        ],
    ),
)
def test_losses_are_those_of_one_device(options: str, of_one_device: list[float]) -> None:
    np.testing.assert_allclose(losses("--mesh", *options.split()), of_one_device, atol=1e-4)
    assert of_one_device[-1] < of_one_device[0]


def test_a_resumed_run_is_the_uninterrupted_one(tmp_path: Path) -> None:
    """To the bit on the same mesh; on others, to the digits that meshes have in common."""
    mesh = ("--mesh", "fsdp=2,model=2", "--save-every", "3")
    whole = losses(*mesh, "--steps", "6", "--checkpoint", f"{tmp_path}/whole")
    half = losses(*mesh, "--steps", "3", "--checkpoint", f"{tmp_path}/half")
    for name in ("data", "model", "data=2,pipe"):
        shutil.copytree(tmp_path / "half", tmp_path / name)
    rest = losses(*mesh, "--steps", "6", "--checkpoint", f"{tmp_path}/half")
    assert half + rest == whole
    ends = [load(tmp_path / name / "step-000000006") for name in ("whole", "half")]
    assert ends[0].keys() == ends[1].keys()
    for name, x in ends[0].items():
        assert np.asarray(x).tobytes() == np.asarray(ends[1][name]).tobytes(), name
    for name in ("data", "model", "data=2,pipe"):
        place = f"{tmp_path}/{name}"
        again = losses("--mesh", f"{name}=2", "--steps", "6", "--checkpoint", place)
        np.testing.assert_allclose(again, rest, atol=1e-4)
    assert losses(*mesh, "--steps", "6", "--checkpoint", f"{tmp_path}/half") == []


def test_a_killed_run_goes_on_to_the_same_end(tmp_path: Path) -> None:
    """Killed at random moments while a thread writes, it ends in the bits of a calm run."""
    script = Path(sharded_gpt.__file__)
    options = ["--smoke", "--mesh=fsdp=2", "--steps=15", "--save-every=1", "--layers=2"]
    command = [sys.executable, str(script), *options, "--quiet", "--checkpoint"]
    subprocess.run([*command, str(tmp_path / "calm")], check=True, capture_output=True)
    checkpoints, chance = Checkpoints(tmp_path / "killed"), chances.Random(0)
    for _ in range(2):
        before = len(checkpoints.steps()) and checkpoints.steps()[-1]
        with subprocess.Popen(
            [*command, str(checkpoints.folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as run:
            limit = time.monotonic() + 60
            while not any(step > before + 1 for step in checkpoints.steps()):
                assert run.poll() is None and time.monotonic() < limit
                time.sleep(0.005)
            time.sleep(chance.uniform(0.0, 0.02))
            run.send_signal(signal.SIGKILL)
    assert checkpoints.steps()[-1] < 15
    ended = subprocess.run(
        [*command, str(checkpoints.folder)], check=True, capture_output=True, text=True
    )
    assert "loss" in ended.stdout
    calm, killed = (load(tmp_path / name / "step-000000015") for name in ("calm", "killed"))
    for name, x in calm.items():
        assert np.asarray(x).tobytes() == np.asarray(killed[name]).tobytes(), name


def test_parameters_and_moments_lie_in_parts() -> None:
    mesh = sharded_gpt.make_mesh("fsdp=4,model=2")
    network = sharded_gpt.GPT.init(random.key(0), 32, layers=2, width=16, heads=4)
    state = sharded_gpt.optim.adamw(1e-3).init(network)
    placed, moments = sharded_gpt.place((network, state), mesh)

    def parts(values: object) -> float:
        """The share of all bytes that one device has."""
        arrays = [x for x in tree.leaves(values) if isinstance(x, tfn.Array) and x.ndim]
        own = sum(x.addressable_shards[0].data.nbytes for x in arrays)
        return own / sum(x.nbytes for x in arrays)

    assert parts(network) == 1
    assert parts(placed) < 0.25 and parts(moments) < 0.25


def test_axes_that_are_not_there_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("rows=2", "data=0", "data"):
        assert sharded_gpt.main(["--smoke", "--mesh", text]) == 2
        assert "--mesh takes axes such as data=2,model=4" in capsys.readouterr().out
