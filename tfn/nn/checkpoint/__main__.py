"""Command for checkpoints: list them, verify them, convert them.

python -m tfn.nn.checkpoint ls run                                what a folder has
python -m tfn.nn.checkpoint verify run                            read all bytes, compare digests
python -m tfn.nn.checkpoint verify run/step-000000300 model.safetensors
python -m tfn.nn.checkpoint convert run/step-000000300 model.safetensors
python -m tfn.nn.checkpoint convert model.safetensors run --files 8 --step 300
python -m tfn.nn.checkpoint convert run/step-000000300 store/run  into a store, and back

The exit status is 0; 1 if a checkpoint is damaged; 2 if what was asked cannot be done.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tfn.errors import StateError, TfnError
from tfn.nn.checkpoint import convert
from tfn.nn.checkpoint.folder import Checkpoints
from tfn.nn.checkpoint.manifest import NAME, Manifest, quick_check
from tfn.nn.checkpoint.steps import STEP
from tfn.nn.checkpoint.stored import read
from tfn.nn.store import Store, located

OK, DAMAGED, WRONG, INTERRUPTED = 0, 1, 2, 130
"""Values of the exit status."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status.

    Args:
        arguments: of the command line; those of the process if None.
    """
    options = _parser().parse_args(arguments)
    console, errors = Console(), Console(stderr=True)
    try:
        status: int = options.run(options, console)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (TfnError, OSError) as error:
        errors.print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
        return DAMAGED if isinstance(error, StateError) else WRONG
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tfn.nn.checkpoint", description="List, verify and convert checkpoints."
    )
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("ls", help="list the checkpoints of a folder")
    command.add_argument("folder", type=Path)
    command.set_defaults(run=_list)
    command = commands.add_parser("verify", help="read all bytes, and compare their digests")
    command.add_argument(
        "paths", type=Path, nargs="+", help="folders of runs, folders of steps, or files"
    )
    command.set_defaults(run=_verify)
    command = commands.add_parser(
        "convert", help="write a checkpoint as one safetensors file, or either as other files"
    )
    command.add_argument("source", type=Path, help="the folder of one step, or a file")
    command.add_argument(
        "target", type=Path, help="a file, which ends in .safetensors, or the folder of a run"
    )
    command.add_argument("--files", type=int, default=1, help="number of files; %(default)s")
    command.add_argument("--step", type=int, help="of the new checkpoint; that of the source")
    command.set_defaults(run=_convert)
    return parser


def _checkpoints(path: Path) -> list[Path]:
    """The checkpoints that a path means: one, or those of a run, or of all runs of a store."""
    place = located(path)
    if place is not None and not place[1]:
        names = Store(place[0], create=False).ls()
        return [path / name for name in names if STEP.fullmatch(name.rpartition("/")[2])]
    if place is not None and not path.exists():
        names = Store(place[0], create=False).ls(place[1])
        steps = [name for name in names if name == place[1] or name.startswith(f"{place[1]}/")]
        if not steps:
            raise FileNotFoundError(f"the store {place[0]} has no {place[1]}")
        if place[1] in steps:
            return [path]
    elif not path.exists():
        raise FileNotFoundError(f"there is no {path}")
    if path.is_file() or (path / NAME).exists():
        return [path]
    return [path / found.name for found in map(Checkpoints(path).path, Checkpoints(path).steps())]


def _list(options: argparse.Namespace, console: Console) -> int:
    found, place = _checkpoints(options.folder), located(options.folder)
    of_store = place is not None and not place[1]
    name_of = (lambda path: str(path.relative_to(options.folder))) if of_store else _step_of
    table = Table(title=f"checkpoints of {options.folder}", title_justify="left")
    for name in ("step", "written (UTC)", "files", "bytes", "leaves", "mesh", "numbers", "state"):
        right = name in ("step", "files", "bytes", "leaves")
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    broken = 0
    for path in found:
        try:
            record = read(path)
            if located(path) is None:
                quick_check(path, record)
        except StateError as error:
            broken += 1
            table.add_row(name_of(path), *[""] * 6, f"[red]{error.what}")
        else:
            table.add_row(name_of(path), *_row(record), "[green]whole")
    text = table if found else f"no checkpoints in {options.folder}"
    console.print(text, highlight=False, soft_wrap=not found)
    return DAMAGED if broken else OK


def _step_of(path: Path) -> str:
    digits = path.name.removeprefix("step-").removesuffix(".safetensors")
    return f"{int(digits):,}" if digits.isdecimal() else path.name


def _row(record: Manifest) -> list[str]:
    numbers = ", ".join(f"{name}={x}" for name, x in record.numbers.items())
    return [
        record.created.removesuffix("+00:00").replace("T", " "),
        str(len(record.files)),
        f"{record.size_bytes:,}",
        str(len(record.names())),
        convert.sizes_text(record.meshes),
        numbers if len(numbers) <= 40 else numbers[:40] + "...",
    ]


def _verify(options: argparse.Namespace, console: Console) -> int:
    status = OK
    for path in [found for given in options.paths for found in _checkpoints(given)]:
        try:
            record = convert.verify(path)
        except StateError as error:
            status = DAMAGED
            console.print(f"[red]damaged[/] {path}: {error.what}: {error.got}", soft_wrap=True)
        else:
            size = f"{record.size_bytes:,} bytes in {len(record.files)} files"
            console.print(f"[green]whole[/]   {path}: {size}", highlight=False, soft_wrap=True)
    return status


def _convert(options: argparse.Namespace, console: Console) -> int:
    if options.target.suffix == ".safetensors":
        if options.files != 1:
            raise FileNotFoundError("a single file has no --files; name the folder of a run")
        convert.to_file(options.source, options.target)
        written = options.target
    else:
        written = convert.to_checkpoint(
            options.source, options.target, files=options.files, step=options.step
        )
    console.print(f"written to {written}", highlight=False, soft_wrap=True)
    return OK


if __name__ == "__main__":
    sys.exit(main())
