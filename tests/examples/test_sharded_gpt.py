"""The GPT on many devices: the losses are those of one device, however the work is divided."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import sharded_gpt
from rich.console import Console

import tfn
from tfn import random, tree
from tfn.config import config


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
    [
        "data=4",
        "fsdp=4",
        "model=4",
        "data=2,fsdp=2,model=2",
        "pipe=2,data=2,model=2",
        "data=2 --accumulate=4",
    ],
)
def test_losses_are_those_of_one_device(options: str, of_one_device: list[float]) -> None:
    np.testing.assert_allclose(losses("--mesh", *options.split()), of_one_device, atol=1e-4)
    assert of_one_device[-1] < of_one_device[0]


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
