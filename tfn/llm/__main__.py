"""Command for language models in files.

python -m tfn.llm show model.gguf             quantization, context, memory, tokenizer
python -m tfn.llm show model.gguf --tensors   each tensor too

Without a terminal, or with --quiet, there is a line for each fact in place of tables.  The exit
status is 0; 1 if a file is damaged; 2 if what was asked cannot be done.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tfn.errors import StateError, TfnError
from tfn.llm import gguf, show
from tfn.llm.model import config_of

OK, DAMAGED, WRONG = 0, 1, 2
"""Values of the exit status."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status.

    Args:
        arguments: of the command line; those of the process if None.
    """
    options = _parser().parse_args(arguments)
    console, errors = Console(), Console(stderr=True)
    try:
        options.run(options, console)
    except (TfnError, OSError, ValueError) as error:
        errors.print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
        return DAMAGED if isinstance(error, StateError) else WRONG
    return OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tfn.llm", description="Run language models that are in files."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    one = commands.add_parser("show", help="what a file is: quantization, context, memory")
    one.add_argument("model", type=Path, help="a GGUF file, any of its parts")
    one.add_argument("--tensors", action="store_true", help="list the tensors too")
    one.add_argument("--quiet", action="store_true", help="lines in place of tables")
    one.set_defaults(run=_show)
    return parser


def _show(options: argparse.Namespace, console: Console) -> None:
    """Facts of a file, and its tensors."""
    file = gguf.read(options.model)
    plain = options.quiet or not console.is_terminal
    rows = [*show.facts(file, config_of(file))]
    _table(console, options.model.name, ("", ""), rows, plain)
    if options.tensors:
        named = [
            (t.name, t.format.name, "x".join(map(str, t.shape)), show.amount(t.data.nbytes))
            for t in file.tensors.values()
        ]
        _table(console, "tensors", ("name", "format", "shape", "size"), named, plain)


def _table(
    console: Console,
    title: str,
    names: Sequence[str],
    rows: Sequence[tuple[str, ...]],
    plain: bool,
) -> None:
    """A table, or a line for each row."""
    if plain:
        for row in rows:
            console.print(
                ": ".join(row[:2]) + "".join(f" {part}" for part in row[2:]),
                highlight=False,
                markup=False,
                soft_wrap=True,
            )
        return
    table = Table(title=title, title_justify="left", show_header=any(names))
    for name in names:
        table.add_column(name, justify="right" if name == "size" else "left")
    for row in rows:
        table.add_row(*row)
    console.print(table, markup=False)


if __name__ == "__main__":
    sys.exit(main())
