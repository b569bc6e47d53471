"""Write a network into two packages that need neither tfn nor NumPy: one of Python, one of Rust.

    python examples/network_in_packages.py --folder build
    pip install build/python && python -m network 0.1 0.2 0.3 0.4
    cargo run --offline --manifest-path build/rust/Cargo.toml -- 0.1 0.2 0.3 0.4

The package of Python loads a shared library, that of Rust compiles the file in C.  Both print the
probabilities of three classes: the same numbers, since they are one function.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import tfn
from tfn import nn, random

PACKAGES = Path(__file__).parent / "export"
FEATURES, HIDDEN, CLASSES = 4, 32, 3


def drawn() -> nn.Sequential:
    """A network with drawn weights, in place of one that was trained."""
    first, second = random.split(random.key(0))
    return nn.Sequential.init(
        nn.Linear.init(first, FEATURES, HIDDEN), nn.relu, nn.Linear.init(second, HIDDEN, CLASSES)
    )


def probabilities(network: nn.Sequential, x: tfn.Array) -> tfn.Array:
    """Those of the classes, float32[3], for the features of an example, float32[4]."""
    return nn.softmax(network(x))


def main(arguments: list[str] | None = None) -> int:
    """Write the packages; the exit status."""
    parser = argparse.ArgumentParser(description="Write a network into packages.")
    parser.add_argument("--folder", type=Path, default=Path("build"), help="of the packages; build")
    parser.add_argument("--smoke", action="store_true", help="the same: it takes a second")
    options = parser.parse_args(arguments)
    x = tfn.ShapeDtypeStruct((FEATURES,), "float32")
    for package, file in (("python", "network/network.so"), ("rust", "src/network.c")):
        made = options.folder / package
        shutil.copytree(PACKAGES / package, made, dirs_exist_ok=True)
        exported = tfn.export(probabilities, drawn(), x, path=made / file, name="network", embed=0)
        print(*(f"{path}: {path.stat().st_size:,} bytes" for path in exported.files), sep="\n")
    print(f"network_in_packages: python and rust in {options.folder.resolve()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
