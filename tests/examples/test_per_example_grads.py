"""Private training: what is told of an image, by formulas and by experiment; a tiny training."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import per_example_grads as private
import pytest
from mnist import Images, load

import tfn
from tfn import nn, random, tree
from tfn import numpy as jnp
from tfn.nn import optim


@pytest.mark.parametrize("noise", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("order", [2, 7, 64])
def test_without_sampling_it_is_the_gaussian_mechanism(order: int, noise: float) -> None:
    assert private.renyi(order, 1.0, noise) == pytest.approx(order / (2 * noise**2))


def test_divergences_by_integration() -> None:
    """The definition: the mean of a power of the ratio of densities, with the image and without."""
    rate, noise, order = 0.1, 1.3, 3
    x = np.linspace(-30, 30, 200_001)
    without = np.exp(-(x**2) / (2 * noise**2)) / (noise * math.sqrt(2 * math.pi))
    shifted = np.exp(-((x - 1) ** 2) / (2 * noise**2)) / (noise * math.sqrt(2 * math.pi))
    ratio = (1 - rate) + rate * shifted / without
    mean = np.sum(without * ratio**order) * (x[1] - x[0])
    assert private.renyi(order, rate, noise) == pytest.approx(math.log(mean) / (order - 1))


def test_epsilon() -> None:
    rate = 256 / 60_000
    assert private.epsilon(0, rate, 1.0) == 0
    assert private.epsilon(14_062, rate, 1.12) == pytest.approx(2.52, abs=0.01)
    assert private.epsilon(1000, rate, 1.0) < private.epsilon(2000, rate, 1.0)
    assert private.epsilon(1000, rate, 2.0) < private.epsilon(1000, rate, 1.0)
    assert private.epsilon(1000, rate, 1.0) < private.epsilon(1000, 2 * rate, 1.0)


def few(count: int) -> tuple[nn.MLP, Images]:
    network = nn.MLP.init(random.key(0), (784, 8, 10), activation=nn.tanh)
    return network, load("train", count)


def private_sum(count: int, real: Any, longest: float, noise: float = 0.0) -> nn.MLP:
    network, images = few(count)
    summed: Callable[..., Any] = tfn.jit(
        private.private_gradient, static_argnames=("longest", "noise")
    )
    total, _ = summed(
        network, images, jnp.asarray(real), random.key(5), longest=longest, noise=noise
    )
    found: nn.MLP = total
    return found


def test_gradients_are_those_of_each_image_made_shorter() -> None:
    network, images = few(5)
    each = [
        tfn.grad(private.loss_of_one)(network, tree.map(lambda x, n=n: x[n], images))
        for n in range(5)
    ]
    lengths = [float(optim.global_norm(slopes)) for slopes in each]
    longest = sorted(lengths)[2]
    real = [True, True, False, True, True]
    want = tree.map(
        lambda *xs: sum(x * min(1.0, longest / n) for x, n, r in zip(xs, lengths, real) if r), *each
    )
    found = private_sum(5, real, longest)
    for x, y in zip(tree.leaves(found), tree.leaves(want), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-5)


def test_no_image_adds_more_than_it_may() -> None:
    all_of_them, but_one = ([True] * 5, [True] * 4 + [False])
    apart = tree.map(
        lambda x, y: x - y, private_sum(5, all_of_them, 0.3), private_sum(5, but_one, 0.3)
    )
    assert float(optim.global_norm(apart)) <= 0.3 + 1e-5


def test_noise_has_the_size_that_the_formula_assumes() -> None:
    found = private_sum(2, [False, False], longest=0.5, noise=3.0)
    drawn = np.concatenate([np.ravel(x) for x in tree.leaves(found)])
    assert drawn.std() == pytest.approx(1.5, rel=0.05)
    assert abs(drawn.mean()) < 0.1
    apart = np.corrcoef(drawn[:3000], drawn[3000:6000])[0, 1]
    assert abs(apart) < 0.1


def test_each_image_is_taken_by_chance() -> None:
    images = Images(jnp.zeros((500, 1)), jnp.arange(500))
    counts = np.zeros(500)
    for key in random.split(random.key(0), 60):
        rows, real = private.take(images, 0.2, 160, key)
        taken = np.asarray(rows.digits)[np.asarray(real)]
        assert len(set(taken.tolist())) == len(taken)
        assert rows.digits.shape == (160,)
        np.add.at(counts, taken, 1)
    assert counts.mean() == pytest.approx(12, abs=0.6)
    assert counts.std() == pytest.approx(math.sqrt(60 * 0.2 * 0.8), rel=0.2)


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def make(*options: str) -> list[str]:
        assert private.main(["--smoke", "--checkpoints", str(tmp_path), *options]) == 0
        return capsys.readouterr().out.splitlines()

    return make


def test_it_learns_reports_and_resumes(run: Any) -> None:
    lines = run("--noise", "0.5", "--epochs", "4")
    end = r"private: test accuracy ([\d.]+)%, \(([\d.]+), 1e-05\)-private, 32 steps.*"
    found = re.fullmatch(end, lines[-1])
    assert found is not None
    assert float(found[1]) > 30  # of 256 images; guessing gives 10
    assert float(found[2]) == pytest.approx(private.epsilon(32, 1 / 8, 0.5), abs=0.01)
    first = run("--quiet", "--noise", "0.5", "--epochs", "2")
    rest = run("--noise", "0.5", "--epochs", "4", "--resume")
    assert len(first) == 1
    assert rest[:2] == lines[2:4]
    assert rest[-1].split(", ")[:3] == lines[-1].split(", ")[:3]
