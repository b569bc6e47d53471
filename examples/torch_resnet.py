"""Train a small ResNet of PyTorch by `torch.compile` with tfn, beside PyTorch alone; write it as C.

    python examples/torch_resnet.py --folder build     the losses of both, then build/resnet.c

The network, its optimizer and the loop are PyTorch's; the graphs of the forward and the backward
pass are compiled by tfn.  Then the trained network is a function of arrays, and the C that is
written of it has its numbers.  PyTorch is needed: pip install 'tfn[torch]'.
"""

from __future__ import annotations

import argparse
import copy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mnist
import numpy as np
from rich.console import Console

import tfn
from tfn.torch.backend import backend
from tfn.torch.library import pytorch

BATCH = 32


def residual(i: int, o: int) -> Any:
    """Two convolutions with normalization, of half the size."""
    nn = pytorch().nn
    return nn.Sequential(
        nn.Conv2d(i, o, 3, 2, 1, bias=False),
        nn.BatchNorm2d(o),
        nn.ReLU(),
        nn.Conv2d(o, o, 3, 1, 1, bias=False),
        nn.BatchNorm2d(o),
    )


def network() -> Any:
    """A residual network of images, float32[n, 1, 28, 28], with ten logits."""
    torch = pytorch()

    class Resnet(torch.nn.Module):  # type: ignore[misc, name-defined]
        """A stem, two residual blocks beside their shortcuts, and a mean over space."""

        def __init__(self) -> None:
            super().__init__()
            self.stem = torch.nn.Conv2d(1, 8, 3, padding=1)
            self.first, self.second = residual(8, 16), residual(16, 32)
            self.short = torch.nn.ModuleList(
                torch.nn.Conv2d(i, 2 * i, 1, 2, bias=False) for i in (8, 16)
            )
            self.head = torch.nn.Linear(32, 10)

        def forward(self, x: Any) -> Any:
            """The logits."""
            x = torch.relu(self.stem(x))
            x = torch.relu(self.first(x) + self.short[0](x))
            x = torch.relu(self.second(x) + self.short[1](x))
            return self.head(x.mean((2, 3)))

    torch.manual_seed(0)
    return Resnet()


def train(module: Any, call: Any, steps: int) -> list[float]:
    """The losses of training steps; `call` is the module, or what was compiled of it."""
    torch, images = pytorch(), mnist.load("train", steps * BATCH)
    pixels = (
        torch.from_numpy(np.array(images.pixels)).float().reshape(steps, BATCH, 1, 28, 28) / 255
    )
    digits = torch.from_numpy(np.array(images.digits)).long().reshape(steps, BATCH)
    optimizer = torch.optim.SGD(module.parameters(), 0.05, momentum=0.9)
    losses = []
    for x, y in zip(pixels, digits, strict=True):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(call(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main(argv: Sequence[str] | None = None) -> int:
    """Train twice, compare, and write C."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--folder", type=Path, default=Path("build"))
    parser.add_argument("--smoke", action="store_true", help="4 steps, for tests")
    options = parser.parse_args(argv)
    options.steps = 4 if options.smoke else options.steps
    console, torch = Console(highlight=False), pytorch()
    module = network()
    own = copy.deepcopy(module)
    eager = train(module, module, options.steps)
    losses = train(own, torch.compile(own, backend=backend), options.steps)
    apart = max(abs(a - b) for a, b in zip(losses, eager, strict=True))
    console.print(f"loss {losses[0]:.3f} to {losses[-1]:.3f}, PyTorch alone {eager[-1]:.3f}")

    x = torch.zeros(1, 1, 28, 28)
    f, (params, buffers) = tfn.torch.from_module(own.eval(), (x,))
    options.folder.mkdir(parents=True, exist_ok=True)
    spec = tfn.ShapeDtypeStruct((1, 1, 28, 28), "float32")
    path = options.folder / "resnet.c"
    tfn.export(lambda image: f(params, buffers, image)[0], spec, path=path)
    console.print(f"torch_resnet: {options.steps} steps, apart by {apart:.1e}; {path} is written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
