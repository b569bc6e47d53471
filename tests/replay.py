"""Replay: the kernels of a fixed set of programs, compared with those of the last record.

    make replay                    what a change of the compiler has done, kernel by kernel
    make replay ARGS=--update      records the kernels as they are now, before a release

Only text is compared, lowered for fixed targets: nothing is compiled or run, so that every machine
says the same.
"""

from __future__ import annotations

import argparse
import difflib
import gzip
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tfn
from tests.inspect.viewer.programs import gpt_step
from tests.test_show import PROGRAMS as PICTURES
from tfn import nn
from tfn import numpy as jnp
from tfn.config import config
from tfn.hw.cpu.target import named
from tfn.inspect.show import View
from tfn.lower import pipeline
from tfn.lower.loops import opt_ops

RECORD = Path(__file__).parent / "data" / "kernels.json.gz"
TARGETS = ("x86-64-v3", "x86-64-v4")
MAX_DIFFERENCE_LINES = 40
"""Lines of the difference of one program's loops that are printed."""

Data = dict[str, Any]


def floats(*shape: int, dtype: str = "float32") -> tfn.ShapeDtypeStruct:
    """The type of an array."""
    return tfn.ShapeDtypeStruct(shape, dtype)


def _attention(q: Any, k: Any, v: Any) -> Any:
    return nn.dot_product_attention(q, k, v, is_causal=True)


def _convolution(x: Any, w: Any) -> Any:
    numbers = ("NHWC", "HWIO", "NHWC")
    return tfn.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=numbers)


def programs() -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...]]]:
    """The programs: name, function, types of arguments."""
    for name, (function, args) in PICTURES.items():
        yield name, function, args
    for m, k, n in ((512, 512, 512), (7, 513, 129), (1, 1024, 1024), (8, 768, 3072)):
        yield f"matmul {m}x{k}x{n}", jnp.matmul, (floats(m, k), floats(k, n))
    wide = floats(256, 256, dtype="bfloat16")
    yield "matmul bf16", jnp.matmul, (wide, wide)
    heads = floats(2, 256, 4, 64)
    yield "attention", _attention, (heads, heads, heads)
    slopes = tfn.grad(lambda *x: _attention(*x).sum(), (0, 1, 2))
    yield "attention gradient", slopes, (heads, heads, heads)
    image, filters = floats(8, 28, 28, 16), floats(3, 3, 16, 32)
    yield "convolution", _convolution, (image, filters)
    yield (
        "convolution gradient",
        tfn.grad(lambda x, w: (_convolution(x, w) ** 2).sum(), (0, 1)),
        (image, filters),
    )
    for axis in (0, 1):
        yield f"sum over axis {axis}", lambda x, axis=axis: x.sum(axis), (floats(1000, 1000),)
    yield "argmax", lambda x: jnp.argmax(x, 1), (floats(128, 1000),)
    yield "cumsum", lambda x: jnp.cumsum(x, 1), (floats(128, 1000),)
    yield "sort", jnp.sort, (floats(100_000),)
    yield "transpose", lambda x: x.T + 1, (floats(1024, 768),)
    yield "gather", lambda x, i: x[i], (floats(1000, 64), floats(128, dtype="int32"))
    yield "fft", jnp.fft.fft, (floats(64, 128),)
    step, args = gpt_step(layers=2, width=64)
    yield "gpt step", step, args


def recorded(names: str = "") -> Data:
    """The kernels of all programs whose names contain a text, by program and target."""
    record: Data = {}
    before = config.disk_cache
    config.disk_cache = False  # it has kernels of other versions, and results of searches
    try:
        for name, function, args in programs():
            if names in name:
                jaxpr = tfn.jit(function).trace(*args).jaxpr
                for target in TARGETS:
                    record[f"{name}, {target}"] = _program(View(jaxpr, named(target)))
    finally:
        config.disk_cache = before
    return record


def _program(view: View) -> Data:
    kernels: dict[str, Data] = {}
    for kernel in view.program.kernels:
        items = pipeline.instructions(kernel, view.target)
        kernels[kernel.name] = {
            "opts": [opt_ops.show(opt) for opt in kernel.opts],  # type: ignore[arg-type]
            "instructions": len(items),
            "ns": kernel.work_ns,
        }
    return {
        "kernels": kernels,
        "launches": [launch.kernel.name for launch in view.program.launches],
        "arena_bytes": view.program.arena_bytes,
        "ns": view.program.work_ns,
        "loops": view.text("splits"),
    }


def difference(before: Data, after: Data) -> list[str]:
    """What has changed, in lines for people; none if nothing has."""
    lines: list[str] = []
    for name in dict.fromkeys((*before, *after)):
        if name not in before or name not in after:
            lines.append(f"{name}: {'new' if name in after else 'gone'}")
        elif before[name] != after[name]:
            lines += [f"{name}:", *(f"  {line}" for line in _changed(before[name], after[name]))]
    return lines


def _changed(before: Data, after: Data) -> Iterator[str]:
    for key, what in {
        "launches": "launches",
        "kernels": "distinct kernels",
        "arena_bytes": "bytes of the arena",
        "ns": "expected ns",
    }.items():
        old, new = (x[key] if isinstance(x[key], int) else len(x[key]) for x in (before, after))
        if old != new:
            yield f"{what} {old:,} -> {new:,}{_percent(old, new)}"
    gone = [name for name in before["kernels"] if name not in after["kernels"]]
    new_ones = [name for name in after["kernels"] if name not in before["kernels"]]
    for old_name, new_name in zip(gone, new_ones):
        old, new = before["kernels"][old_name], after["kernels"][new_name]
        yield f"kernel {old_name[:9]} -> {new_name[:9]}: " + ", ".join(_kernel_changes(old, new))
    for name in gone[len(new_ones) :]:
        yield f"kernel {name[:9]} is gone"
    for name in new_ones[len(gone) :]:
        yield f"kernel {name[:9]} is new"
    texts = (x["loops"].splitlines() for x in (before, after))
    compared = list(difflib.unified_diff(*texts, "before", "after", lineterm="", n=2))[2:]
    yield from compared[:MAX_DIFFERENCE_LINES]
    if len(compared) > MAX_DIFFERENCE_LINES:
        yield f"... and {len(compared) - MAX_DIFFERENCE_LINES} more lines"


def _kernel_changes(old: Data, new: Data) -> Iterator[str]:
    yield f"instructions {old['instructions']:,} -> {new['instructions']:,}"
    if old["ns"] != new["ns"]:
        yield f"expected ns {old['ns']:,} -> {new['ns']:,}{_percent(old['ns'], new['ns'])}"
    if old["opts"] != new["opts"]:
        yield f"opt-ops {' '.join(old['opts'])} -> {' '.join(new['opts'])}"
    else:
        yield "the same opt-ops"


def _percent(old: float, new: float) -> str:
    return f" ({100 * (new - old) / old:+.1f}%)" if old else ""


def main(arguments: list[str] | None = None) -> int:
    """Compares, or records; the status is 0 unless `--strict` meets a difference."""
    parser = argparse.ArgumentParser(prog="make replay", description=__doc__.split("\n")[0])
    parser.add_argument("--update", action="store_true", help="record the kernels as they are")
    parser.add_argument("--strict", action="store_true", help="fail if anything has changed")
    parser.add_argument("--only", default="", metavar="TEXT", help="programs with it in their name")
    options = parser.parse_args(arguments)
    after = recorded(options.only)
    if options.update:
        text = json.dumps(after, indent=0)
        RECORD.write_bytes(gzip.compress(text.encode(), mtime=0))
        print(f"recorded {len(after)} programs")
        return 0
    before = json.loads(gzip.decompress(RECORD.read_bytes()))
    before = {name: data for name, data in before.items() if options.only in name}
    lines = difference(before, after)
    same = sum(before.get(name) == data for name, data in after.items())
    print("\n".join([*lines, f"{same} of {len(after)} programs have the kernels of the record"]))
    return int(bool(lines) and options.strict)


if __name__ == "__main__":
    sys.exit(main())
