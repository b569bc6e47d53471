"""A network trained by a main in C on the real images: the same bits as here, and no library."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import mnist
import mnist_in_c
import numpy as np
import pytest

import tfn

ROOT = Path(__file__).parents[2]
STEPS = mnist_in_c.IMAGES // mnist_in_c.BATCH


def trained() -> bytes:
    """The parameters after one epoch, with the state of the optimizer."""
    made = mnist_in_c.functions(mnist.MODELS["mlp"], epochs=1)
    begin, shuffle = (tfn.jit(made[name][0]) for name in ("begin", "shuffle"))
    step, zero = made["step"][0], np.int32(0)
    images = mnist.load("train")
    pixels, digits = (np.asarray(x) for x in images)
    network, state = begin(zero)
    order = np.asarray(shuffle(zero, zero))
    for i in range(STEPS):
        at = order[i * mnist_in_c.BATCH : (i + 1) * mnist_in_c.BATCH]
        network, state, _ = step(network, state, mnist.Images(pixels[at], digits[at]))
    return b"".join(np.asarray(x).tobytes() for x in tfn.tree.leaves((network, state)))


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")
@pytest.mark.skipif(not shutil.which("gzip"), reason="there is no gzip to read the images")
def test_an_epoch_in_c_is_an_epoch_here(tmp_path: Path) -> None:
    assert mnist_in_c.main(["--folder", str(tmp_path)]) == 0
    sources = sorted(tmp_path.glob("mlp_*.c"))
    assert len(sources) == 4
    command = [
        "cc",
        "-O2",
        "-ffp-contract=off",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-I{tmp_path}",
        ROOT / "examples/export/train.c",
        *sources,
        "-o",
        tmp_path / "train",
    ]
    subprocess.run(command, check=True)
    ran = subprocess.run(
        [tmp_path / "train", mnist.DATA, "1", tmp_path / "out"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert float(ran.stdout.split("accuracy ")[1].split("%")[0]) > 95
    assert (tmp_path / "out").read_bytes() == trained()
