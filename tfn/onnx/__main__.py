"""Command for ONNX files: show one, run it, time it, export it.

python -m tfn.onnx model.onnx                            inputs, operations, weights
python -m tfn.onnx model.onnx --run --size batch=4       once, on drawn numbers
python -m tfn.onnx model.onnx --time                     one call of the compiled model
python -m tfn.onnx model.onnx --export c --to model.c    files that need neither Python nor tfn

Without a terminal, or with --quiet, there is a line for each fact in place of tables.  The exit
status is 0; 1 if the file is damaged; 2 if what was asked cannot be done.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from tfn import export, jit
from tfn.errors import StateError, TfnError
from tfn.extend import ShapeDtypeStruct
from tfn.onnx.model import Model, every_node, load

OK, DAMAGED, WRONG = 0, 1, 2
"""Values of the exit status."""

TIMED_SECONDS = 1.0
"""The time for which calls are repeated; the fastest one counts."""

Fact = tuple[str, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status.

    Args:
        arguments: of the command line; those of the process if None.
    """
    options = _parser().parse_args(arguments)
    console, errors = Console(), Console(stderr=True)
    try:
        sizes = dict(_size(text) for text in options.size)
        model = load(options.file)
        for title, names, rows in _sections(model, options, sizes):
            _show(console, title, names, rows, options.quiet or not console.is_terminal)
    except (TfnError, OSError, ValueError) as error:
        errors.print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
        return DAMAGED if isinstance(error, StateError) else WRONG
    return OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tfn.onnx", description="Show, run, time and export ONNX files."
    )
    parser.add_argument("file", type=Path, help="an ONNX file")
    parser.add_argument("--run", action="store_true", help="call it once, on drawn numbers")
    parser.add_argument("--time", action="store_true", help="time a call of the compiled model")
    parser.add_argument("--export", metavar="KIND", help="c, obj, so, wasm or js")
    parser.add_argument("--to", type=Path, help="the file to export to; that of the model")
    parser.add_argument(
        "--size", action="append", default=[], metavar="NAME=N", help="of an open size; 1"
    )
    parser.add_argument("--quiet", action="store_true", help="lines in place of tables")
    return parser


def _size(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if not number.isdecimal() or int(number) < 1:
        raise ValueError(f"--size takes a name and a number, as batch=4, not {text!r}")
    return name, int(number)


def _show(
    console: Console, title: str, names: Sequence[str], rows: Sequence[Fact], plain: bool
) -> None:
    """A table, or a line for each row."""
    if plain:
        for row in rows:
            console.print(
                f"{title}: {' '.join(filter(None, row))}",
                highlight=False,
                markup=False,
                soft_wrap=True,
            )
        return
    table = Table(title=title, title_justify="left")
    for name in names:
        table.add_column(name, justify="right" if name in ("number", "bytes") else "left")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _sections(
    model: Model, options: argparse.Namespace, sizes: dict[str, int]
) -> Iterator[tuple[str, Sequence[str], list[Fact]]]:
    """The parts that were asked for, one by one: a title, names of columns, rows."""
    named = ("name", "dtype", "shape")
    for title, typed in (("input", model.inputs), ("output", model.outputs)):
        yield title, named, [(n, str(s.dtype), _shape(s)) for n, s in typed.items()]
    counts = Counter(node.op for node in every_node(model.program.file))
    missing = model.unsupported()
    rows: list[Fact] = [(op, f"{n:,}") for op, n in counts.most_common()]
    yield "operation", ("operation", "number"), rows
    yield "weights", ("of", "number", "bytes"), [_weights(model)]
    if missing:
        yield "missing", ("operation", "number"), [(op, f"{n:,}") for op, n in missing.items()]
    specs = [_fixed(spec, sizes) for spec in model.inputs.values()]
    if options.run:
        results = jit(model)(*_drawn(specs))
        yield "result", (*named, "range"), [(name, *_result(x)) for name, x in results.items()]
    if options.time:
        yield "call", ("of", "number"), _timed(model, specs)
    if options.export:
        suffix = {"obj": "o"}.get(options.export, options.export)
        path = options.to or options.file.with_suffix(f".{suffix}")
        made = export(model, *specs, path=path, kind=options.export)
        yield "file", ("path", "bytes"), [(str(f), f"{f.stat().st_size:,}") for f in made.files]


def _shape(spec: ShapeDtypeStruct) -> str:
    return f"({', '.join(map(str, spec.shape))})"


def _weights(model: Model) -> Fact:
    arrays = list(model.params.values())
    size = sum(x.nbytes for x in arrays)
    return f"{sum(x.size for x in arrays):,} numbers", f"{len(arrays):,} arrays", f"{size:,} bytes"


def _fixed(spec: ShapeDtypeStruct, sizes: dict[str, int]) -> ShapeDtypeStruct:
    """A type whose open sizes are given, or 1."""
    shape = [
        n if isinstance(n, int) else n.at({s: sizes.get(s, 1) for s in n.symbols})
        for n in spec.shape
    ]
    return ShapeDtypeStruct(tuple(shape), spec.dtype)


def _drawn(specs: Sequence[ShapeDtypeStruct]) -> list[np.ndarray[Any, Any]]:
    """Normal numbers for floats, zeros for all else, which may be indices."""
    draw = np.random.default_rng(0)
    return [
        draw.standard_normal(s.shape).astype(s.dtype)
        if s.dtype.kind in "fV"
        else np.zeros(s.shape, s.dtype)
        for s in specs
    ]


def _result(x: Any) -> Fact:
    values = np.asarray(x).astype(np.float64) if x.dtype.kind != "c" else np.abs(x)
    span = f"{values.min():.4g} to {values.max():.4g}" if values.size else ""
    return str(x.dtype), str(x.shape), span


def _timed(model: Model, specs: Sequence[ShapeDtypeStruct]) -> list[Fact]:
    """The time of the first call and of the fastest other one, and the memory of a call."""
    values, compiled = _drawn(specs), jit(model)
    times: list[float] = []
    while len(times) < 3 or sum(times[1:]) < TIMED_SECONDS:
        begin = time.perf_counter()
        for result in compiled(*values).values():
            result.block_until_ready()
        times.append(time.perf_counter() - begin)
    memory = jit(model).lower(*specs).compile().memory_analysis()
    return [
        ("first, with compilation", f"{times[0]:.3f} s"),
        ("fastest", f"{1e3 * min(times[1:]):.3f} ms"),
        ("temporary memory", f"{memory.temporary_bytes:,} bytes"),
    ]


if __name__ == "__main__":
    sys.exit(main())
