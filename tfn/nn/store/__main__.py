"""Command for stores: what is in one, whether it is whole, and how to mend it.

python -m tfn.nn.store ls store --prefix run-1               names, a page at a time
python -m tfn.nn.store du store                              bytes of each, and of its own
python -m tfn.nn.store put store data/text tokens.safetensors
python -m tfn.nn.store get store data/text tokens.safetensors
python -m tfn.nn.store pin store run-1/step-000000300
python -m tfn.nn.store verify store                          read all copies, compare digests
python -m tfn.nn.store scrub store --dry-run                 mend, move and copy
python -m tfn.nn.store gc store                              delete what no name refers to
python -m tfn.nn.store join store /mnt/b http://c:8400 --replicas 2
python -m tfn.nn.store serve store --host 0.0.0.0            with the token of store/token

The exit status is 0; 1 if something is damaged and not mended; 2 if what was asked cannot be done.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn
from rich.table import Table

from tfn.errors import DamagedError, TfnError
from tfn.nn import state
from tfn.nn.store import upkeep
from tfn.nn.store.repository import TOKEN, Store
from tfn.nn.store.server import serve

OK, DAMAGED, WRONG, INTERRUPTED = 0, 1, 2, 130
"""Values of the exit status."""
PAGE = 1000
"""Names that are listed if nothing else is said."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status.

    Args:
        arguments: of the command line; those of the process if None.
    """
    options = _parser().parse_args(arguments)
    console, errors = Console(), Console(stderr=True)
    try:
        store = Store(options.store, create=options.command == "put")
        status: int = COMMANDS[options.command][1](store, options, console)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (TfnError, OSError) as error:
        errors.print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
        return DAMAGED if isinstance(error, DamagedError) else WRONG
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tfn.nn.store", description="List, verify, mend and serve a store."
    )
    commands = parser.add_subparsers(required=True, dest="command")
    for name, (text, _, *options) in COMMANDS.items():
        command = commands.add_parser(name, help=text)
        command.add_argument("store", help="the folder of a store")
        for flag, settings in options:
            command.add_argument(flag, **settings)
    return parser


def _ls(store: Store, options: argparse.Namespace, console: Console) -> int:
    names = store.ls(options.prefix, after=options.after, limit=options.limit)
    for name in names:
        console.print(name, markup=False, highlight=False, soft_wrap=True)
    if len(names) == options.limit:
        console.print(f"more may follow: --after {names[-1]}", style="dim", soft_wrap=True)
    return OK


def _du(store: Store, options: argparse.Namespace, console: Console) -> int:
    table = Table()
    for name in ("name", "bytes of arrays", "of blocks", "of its own"):
        table.add_column(name, justify="left" if name == "name" else "right", overflow="fold")
    for row in upkeep.du(store, options.prefix):
        table.add_row(row.name or "all", *[f"{n:,}" for n in row[1:]])
    console.print(table)
    return OK


def _put(store: Store, options: argparse.Namespace, console: Console) -> int:
    store.put(options.name, state.mapped(options.file))
    return OK


def _get(store: Store, options: argparse.Namespace, console: Console) -> int:
    metadata = store.tree(options.name).metadata
    state.save(options.file, store.get(options.name), metadata=metadata)
    return OK


def _pin(store: Store, options: argparse.Namespace, console: Console) -> int:
    store.pin(options.name, options.command == "pin")
    return OK


def _delete(store: Store, options: argparse.Namespace, console: Console) -> int:
    with suppress(DamagedError):  # it can be deleted all the same
        if store.ref(options.name) is None:
            raise FileNotFoundError(f"the store has no {options.name}; see ls")
    store.delete(options.name)
    return OK


def _scrub(store: Store, options: argparse.Namespace, console: Console) -> int:
    columns = BarColumn(), DownloadColumn(), TransferSpeedColumn()
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)
        progress: Callable[[int, int], None] = lambda n, size: bar.update(task, completed=size)
        if options.command == "verify":
            found = upkeep.verify(store, progress=progress)
        else:
            found = upkeep.scrub(store, dry_run=options.dry_run, progress=progress)
    for damage in found:
        what = f"[green]mended[/] {damage.what}" if damage.mended else f"[red]{damage.what}[/]"
        holds = "; ".join(damage.holds) or "nothing that a name refers to"
        console.print(f"{what} {damage.file}: {holds}", highlight=False, soft_wrap=True)
    if not found:
        console.print("[green]whole[/]")
    wrong = [damage for damage in found if not damage.mended and damage.what != "misplaced"]
    return DAMAGED if wrong else OK


def _gc(store: Store, options: argparse.Namespace, console: Console) -> int:
    age = 3600 * options.age_hours
    count, size = upkeep.gc(store, age_seconds=age, dry_run=options.dry_run)
    console.print(f"{count:,} blocks, {size:,} bytes", highlight=False)
    return OK


def _join(store: Store, options: argparse.Namespace, console: Console) -> int:
    Store([*[p.address for p in store.places], *options.places], replicas=options.replicas)
    console.print("scrub the store, so that blocks go to their places", highlight=False)
    return OK


def _serve(store: Store, options: argparse.Namespace, console: Console) -> int:
    token = Path(options.store) / TOKEN
    text = token.read_text().strip() if token.exists() else ""
    with serve(options.store, options.host, options.port, token=text) as server:
        address = f"http://{options.host}:{server.server_address[1]}"
        console.print(f"{options.store} at {address}", highlight=False, soft_wrap=True)
        server.serve_forever()
    return OK


_NAME = ("name", {"help": "parts between slashes"})
_FILE = ("file", {"type": Path, "help": "a safetensors file"})
_PREFIX = ("--prefix", {"default": "", "help": "only names that begin so"})
_DRY_RUN = ("--dry-run", {"action": "store_true", "help": "only say what would be done"})
_REPLICAS = {"type": int, "help": "copies of each block; as before"}
COMMANDS: dict[str, Any] = {
    "ls": (
        *("list names", _ls, _PREFIX, ("--after", {"default": "", "help": "a name"})),
        ("--limit", {"type": int, "default": PAGE, "help": "names; %(default)s"}),
    ),
    "du": ("measure what names refer to", _du, _PREFIX),
    "put": ("write the arrays of a file", _put, _NAME, _FILE),
    "get": ("read arrays to a file", _get, _NAME, _FILE),
    "pin": ("keep a name", _pin, _NAME),
    "unpin": ("let a name be deleted", _pin, _NAME),
    "rm": ("delete a name", _delete, _NAME),
    "verify": ("read all copies, and compare their digests", _scrub),
    "scrub": ("mend, move and copy blocks", _scrub, _DRY_RUN),
    "gc": (
        *("delete what no name refers to", _gc, _DRY_RUN),
        (
            "--age-hours",
            {"type": float, "default": 24.0, "help": "of what is deleted; %(default)s"},
        ),
    ),
    "join": (
        *("add folders and servers", _join, ("places", {"nargs": "*"})),
        ("--replicas", _REPLICAS),
    ),
    "serve": (
        *("let other hosts read and write", _serve),
        ("--host", {"default": "127.0.0.1", "help": "%(default)s"}),
        ("--port", {"type": int, "default": 8400, "help": "%(default)s"}),
    ),
}
"""The commands: help, function, options."""

if __name__ == "__main__":
    sys.exit(main())
