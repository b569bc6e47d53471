"""What the command lines of the examples share: options, a small run, and the end by Ctrl-C."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from tfn.config import config


def add_training(parser: argparse.ArgumentParser, save_every: int | None = None) -> None:
    """Add the options of a program that trains.

    Args:
        parser: of the command line.
        save_every: steps between checkpoints by default; None if there is one after each epoch.
    """
    parser.add_argument("--threads", type=int, help="of the CPU device; one per core by default")
    last = "epoch that was whole" if save_every is None else "checkpoint"
    if save_every is not None:
        parser.add_argument(
            "--save-every", type=int, default=save_every, help="steps between checkpoints"
        )
    parser.add_argument("--resume", action="store_true", help=f"from the last {last}")
    parser.add_argument(
        "--checkpoints",
        type=Path,
        default=config.cache_dir / "checkpoints",
        help="folder of what --resume needs; %(default)s",
    )
    parser.add_argument("--quiet", action="store_true", help="print only the last line")


def add_scene(parser: argparse.ArgumentParser, temperature: float) -> None:
    """Add the options of a program that learns to write, and of the scene that it writes."""
    parser.add_argument("--prompt", default="MACBETH.\n", help="how the scene begins")
    parser.add_argument("--characters", type=int, default=600, help="length of the scene")
    parser.add_argument(
        "--temperature", type=float, default=temperature, help="how bold it is; above 0"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tested", type=int, help="characters of The Tempest; all by default")
    parser.add_argument("--plot", type=Path, help="a PNG file for the curve of losses")


def parsed(
    parser: argparse.ArgumentParser, arguments: Sequence[str] | None, **small: Any
) -> argparse.Namespace:
    """The options, of which --smoke has other defaults."""
    options = parser.parse_args(arguments)
    if options.smoke:
        parser.set_defaults(**small)
        options = parser.parse_args(arguments)
    return options


def run(
    program: Callable[[argparse.Namespace, Console], object],
    options: argparse.Namespace,
    interrupted: str = "interrupted; --resume goes on from the last checkpoint",
) -> int:
    """Run a program with the threads that its options ask for; the exit status."""
    if options.threads is not None:
        config.threads = options.threads
    console = Console()
    try:
        program(options, console)
    except KeyboardInterrupt:
        console.print(interrupted)
        return 130
    return 0
