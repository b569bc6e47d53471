"""Programs for JAX, run on tfn: ``python -m tfn.compat train.py --steps 10``, or ``-m module``."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from tfn.compat.install import install_as_jax


def main(arguments: list[str]) -> None:
    """Run a file, or after ``-m`` a module, with ``import jax`` meaning tfn."""
    if not arguments or arguments == ["-m"]:
        sys.exit("usage: python -m tfn.compat FILE [ARGUMENT...], or -m MODULE [ARGUMENT...]")
    install_as_jax()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = arguments
    sys.path[0] = str(Path(arguments[0]).resolve().parent)
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
