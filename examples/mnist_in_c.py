"""Write the whole training of a network on MNIST as C: first values, shuffles, steps, tests.

    python examples/mnist_in_c.py --model mlp --folder build
    cc -O2 -ffp-contract=off examples/export/train.c build/*.c -o train
    ./train examples/data/mnist 1

The four functions are those of `examples/mnist.py`; what they compute is the same, bit by bit.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import mnist

import tfn
from tfn import random
from tfn.nn import optim

BATCH, IMAGES, TESTED = 128, 60_000, 1000
MAIN = Path(__file__).parent / "export" / "train.c"


def functions(model: mnist.Model, epochs: int) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """The functions of a training, each with what it is called with."""
    steps = epochs * (IMAGES // BATCH)
    optimizer = optim.adam(optim.cosine_decay_schedule(model.learning_rate, steps, alpha=0.02))

    def begin(seed: tfn.Array) -> Any:
        init_key, _ = random.split(random.key(seed))
        network = model.init(init_key)
        return network, optimizer.init(network)

    def shuffle(seed: tfn.Array, epoch: tfn.Array) -> tfn.Array:
        _, shuffle_key = random.split(random.key(seed))
        return random.permutation(random.fold_in(shuffle_key, epoch), IMAGES)

    number = tfn.ShapeDtypeStruct((), "int32")
    network, state = tfn.eval_shape(begin, number)

    def images(count: int) -> mnist.Images:
        pixels = tfn.ShapeDtypeStruct((count, 28, 28), "uint8")
        return mnist.Images(pixels, tfn.ShapeDtypeStruct((count,), "uint8"))  # type: ignore[arg-type]

    return {
        "begin": (begin, (number,)),
        "shuffle": (shuffle, (number, number)),
        "step": (mnist.make_step(optimizer), (network, state, images(BATCH))),
        "test": (mnist.count_right, (network, images(TESTED))),
    }


def main(arguments: list[str] | None = None) -> int:
    """Write the files; the exit status."""
    parser = argparse.ArgumentParser(description="Write the training of a network as C.")
    parser.add_argument("--model", choices=mnist.MODELS, default="mlp")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("build"), help="of the files; build")
    parser.add_argument("--kind", default="c", help="c, obj or so")
    parser.add_argument("--target", default="", help="as x86-64-v3; this machine by default")
    parser.add_argument("--smoke", action="store_true", help="the MLP, for one epoch: 4 s")
    options = parser.parse_args(arguments)
    if options.smoke:
        parser.set_defaults(model="mlp", epochs=1)
        options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for name, (function, args) in functions(mnist.MODELS[options.model], options.epochs).items():
        path = options.folder / f"{options.model}_{name}"
        exported = tfn.export(function, *args, path=path, kind=options.kind, target=options.target)
        paths += exported.files
    for file in paths:
        print(f"{file}: {file.stat().st_size:,} bytes")
    names = " ".join(str(path) for path in paths if path.suffix != ".h")
    print(f"mnist_in_c: {len(paths)} files in {options.folder.resolve()}; now")
    print(f"    cc -O2 -ffp-contract=off -I{options.folder} {MAIN} {names} -o train")
    print(f"    ./train {mnist.DATA} {options.epochs}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
