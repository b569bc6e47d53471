"""How far the compiler's choice is from the best that a search finds, one kernel after the other.

    python benchmarks/kernels.py                          all kernels, one core, a table
    python benchmarks/kernels.py --only softmax,mm_tn     some kernels, or groups of them
    python benchmarks/kernels.py --seconds 60 --json out.json

Each function is tuned by `tfn.tune`, in a process of its own that has a deadline, and with a cache
folder that is thrown away: what is found here is used nowhere.  A kernel where the search wins much
is one for which `tfn/lower/loops/heuristics.py` knows too little.  Ctrl-C prints the rows so far.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table
from run import environment, machine, pretty

import tfn
from tfn import lax, nn
from tfn import numpy as jnp
from tfn.lower.loops.opt_ops import show

MARGIN_SECONDS = 60.0
"""For everything but the search: a process that takes longer is ended."""

WORTH = 1.05
"""A choice that takes so much more than the best is worth looking at."""

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Bench:
    """A function, most often of one kernel: its group, its arguments, and their dtype."""

    group: str
    function: Callable[..., Any]
    shapes: tuple[Shape, ...]
    dtype: str = "float32"

    @property
    def types(self) -> list[tfn.ShapeDtypeStruct]:
        """Of the arguments."""
        return [tfn.ShapeDtypeStruct(shape, self.dtype) for shape in self.shapes]


def product(a: Any, b: Any) -> Any:
    """Of matrices."""
    return a @ b


def convolution(x: Any, w: Any, stride: int = 1, padding: str = "SAME", groups: int = 1) -> Any:
    """Channels last."""
    return lax.conv_general_dilated(
        x,
        w,
        (stride, stride),
        padding,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )


def pool(operation: Any, start: float, x: Any) -> Any:
    """Windows of 2 x 2, channels last."""
    window = (1, 2, 2, 1)
    return lax.reduce_window(x, start, operation, window, window, "VALID")


def slope(f: Callable[..., Any], argument: int) -> Callable[..., Any]:
    """The gradient of a function to one argument; the last one is the cotangent."""

    def pulled(*args: Any) -> Any:
        *inputs, ct = args
        return tfn.grad(lambda *xs: (f(*xs) * ct).sum(), argument)(*inputs)

    return pulled


def layer_norm(x: Any, g: Any, b: Any) -> Any:
    """Rows with mean 0 and variance 1, scaled and shifted."""
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * g + b


def attention(q: Any, k: Any, v: Any) -> Any:
    """As it is written on paper."""
    return nn.softmax(q @ k.mT * q.shape[-1] ** -0.5) @ v


def adam(p: Any, m: Any, v: Any, g: Any) -> Any:
    """One step of many parameters."""
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), m, v


def rows_of(x: Any) -> Any:
    """Many rows of a table, in an order that is computed."""
    return x[(jnp.arange(x.shape[0]) * 7919) % x.shape[0]]


IMAGES, WINDOWS, WIDE = (8, 32, 32, 64), (3, 3, 64, 64), (1024, 1024)
ROW, HEADS = (1024,), (8, 128, 32)

# fmt: off
KERNELS = {
    "mm256":         Bench("matrices", product, ((256, 256), (256, 256))),
    "mm512":         Bench("matrices", product, ((512, 512), (512, 512))),
    "mm_odd":        Bench("matrices", product, ((501, 350), (350, 333))),
    "mm_tn":         Bench("matrices", lambda a, b: a.T @ b, ((512, 512), (512, 512))),
    "mm_nt":         Bench("matrices", lambda a, b: a @ b.T, ((512, 512), (512, 512))),
    "mm_tall":       Bench("matrices", product, ((8192, 64), (64, 64))),
    "mm_few":        Bench("matrices", product, ((8, 1024), (1024, 1024))),
    "mm_inner":      Bench("matrices", product, ((32, 8192), (8192, 32))),
    "mm_gelu":       Bench("matrices", lambda x, w, b: nn.gelu(x @ w + b),
                           ((256, 512), (512, 512), (512,))),
    "mm_bf16":       Bench("matrices", product, ((512, 512), (512, 512)), "bfloat16"),
    "mm_f64":        Bench("matrices", product, ((256, 256), (256, 256)), "float64"),
    "bmm64":         Bench("matrices", product, ((64, 64, 64), (64, 64, 64))),
    "matvec":        Bench("matrices", product, ((2048, 2048), (2048,))),
    "vecmat":        Bench("matrices", product, ((1, 2048), (2048, 2048))),
    "attention":     Bench("matrices", attention, (HEADS, HEADS, HEADS)),

    "conv":          Bench("convolutions", convolution, (IMAGES, WINDOWS)),
    "conv_1x1":      Bench("convolutions", convolution, (IMAGES, (1, 1, 64, 128))),
    "conv_stride":   Bench("convolutions", partial(convolution, stride=2), (IMAGES, WINDOWS)),
    "conv_first":    Bench("convolutions", partial(convolution, stride=2),
                           ((4, 112, 112, 3), (7, 7, 3, 64))),
    "conv_depth":    Bench("convolutions", partial(convolution, groups=64),
                           (IMAGES, (3, 3, 1, 64))),
    "conv_grad_x":   Bench("convolutions", slope(convolution, 0), (IMAGES, WINDOWS, IMAGES)),
    "conv_grad_w":   Bench("convolutions", slope(convolution, 1), (IMAGES, WINDOWS, IMAGES)),
    "pool_max":      Bench("convolutions", partial(pool, lax.max, -jnp.inf), (IMAGES,)),
    "pool_sum":      Bench("convolutions", partial(pool, lax.add, 0.0), (IMAGES,)),
    "pool_grad":     Bench("convolutions", slope(partial(pool, lax.max, -jnp.inf), 0),
                           (IMAGES, (8, 16, 16, 64))),

    "softmax":       Bench("rows", nn.softmax, (WIDE,)),
    "softmax_short": Bench("rows", nn.softmax, ((8192, 80),)),
    "layernorm":     Bench("rows", layer_norm, (WIDE, ROW, ROW)),
    "norm_grad":     Bench("rows", slope(layer_norm, 0), (WIDE, ROW, ROW, WIDE)),
    "sum_all":       Bench("rows", lambda x: x.sum(), (WIDE,)),
    "sum_rows":      Bench("rows", lambda x: x.sum(1), (WIDE,)),
    "sum_columns":   Bench("rows", lambda x: x.sum(0), (WIDE,)),
    "sum_middle":    Bench("rows", lambda x: x.sum(1), ((64, 64, 256),)),
    "max_rows":      Bench("rows", lambda x: x.max(1), (WIDE,)),
    "argmax_rows":   Bench("rows", lambda x: x.argmax(1), (WIDE,)),
    "cumsum_rows":   Bench("rows", lambda x: jnp.cumsum(x, 1), (WIDE,)),

    "add":           Bench("elements", lambda x, y: x + y, (WIDE, WIDE)),
    "add_row":       Bench("elements", lambda x, y: x + y, (WIDE, ROW)),
    "add_column":    Bench("elements", lambda x, y: x + y, (WIDE, (1024, 1))),
    "gelu":          Bench("elements", nn.gelu, (WIDE,)),
    "exp_bf16":      Bench("elements", jnp.exp, (WIDE,), "bfloat16"),
    "adam":          Bench("elements", adam, (WIDE,) * 4),
    "transpose":     Bench("elements", lambda x: x.T, (WIDE,)),
    "transpose_add": Bench("elements", lambda x, y: x.T + y, (WIDE, WIDE)),
    "channels_last": Bench("elements", lambda x: x.transpose(0, 2, 3, 1), ((8, 64, 32, 32),)),
    "heads":         Bench("elements", lambda x: x.reshape(8, 256, 8, 64).transpose(0, 2, 1, 3),
                           ((8, 256, 512),)),
    "concatenate":   Bench("elements", lambda x, y: jnp.concatenate([x, y], 1), (WIDE, WIDE)),
    "flip":          Bench("elements", lambda x: x[:, ::-1], (WIDE,)),
    "pad":           Bench("elements", lambda x: jnp.pad(x, 3), (WIDE,)),
    "take":          Bench("elements", rows_of, ((16384, 64),)),
}
# fmt: on


def serve(name: str, seconds: float) -> None:
    """In the child: tune one kernel, on one core, and say what was found in one line of JSON."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    bench = KERNELS[name]
    report = tfn.tune(bench.function, *bench.types, seconds=seconds, quiet=True)
    rows = [
        {
            "name": row.name,
            "launches": row.launches,
            "before_ns": row.before_ns,
            "after_ns": row.after_ns,
            "tried": row.tried,
            "before": [show(opt) for opt in row.before],
            "after": [show(opt) for opt in row.after],
        }
        for row in report.rows
    ]
    print(json.dumps({"rows": rows, "left": report.left}))


def tuned(name: str, seconds: float) -> dict[str, Any]:
    """What a child found for one kernel, or why it found nothing."""
    with tempfile.TemporaryDirectory() as cache:
        child = subprocess.Popen(
            [sys.executable, __file__, "--serve", name, "--seconds", str(seconds)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=environment(TFN_CACHE_DIR=cache, TFN_DISK_CACHE="1"),
        )
        try:
            said, wrong = child.communicate(timeout=seconds + MARGIN_SECONDS)
        except subprocess.TimeoutExpired:
            return {"error": f"no answer within {seconds + MARGIN_SECONDS:.0f} s"}
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # with the process in which it times kernels
            child.wait()
    if child.returncode:
        return {"error": (wrong.strip().splitlines() or [f"it ended with {child.returncode}"])[-1]}
    report = json.loads(said)
    rows = report["rows"]
    total = {key: sum(r[key] * r["launches"] for r in rows) for key in ("before_ns", "after_ns")}
    return {
        **total,
        "tried": sum(r["tried"] for r in rows),
        "left": report["left"],
        "kernels": rows,
    }


def table(found: dict[str, dict[str, Any]], title: str) -> Table:
    """All kernels, by group."""
    made = Table(title=title)
    made.add_column("")
    for heading in ("as chosen", "best found", "to the best", "tried"):
        made.add_column(heading, justify="right")
    made.add_column("opt-ops of the best, if they are others", style="dim")
    before = ""
    for name, result in found.items():
        group = KERNELS[name].group
        if group != before and before:
            made.add_section()
        before = group
        if "error" in result:
            made.add_row(name, "", "", "", "", f"[red]{escape(result['error'])}[/]")
            continue
        won = [" ".join(r["after"]) for r in result["kernels"] if r["after"] != r["before"]]
        won += [f"no time for {result['left']} of its kernels"] if result["left"] else []
        ratio = result["before_ns"] / result["after_ns"] if result["after_ns"] else 1.0
        made.add_row(
            name,
            pretty(result["before_ns"] / 1e9),
            pretty(result["after_ns"] / 1e9),
            f"[{'green' if ratio < WORTH else 'red'}]{ratio:.2f}[/]",
            str(result["tried"]),
            "; ".join(won),
        )
    return made


def chosen(only: str) -> list[str]:
    """Kernels, by their names or by those of groups."""
    words = set(only.split(","))
    unknown = words - KERNELS.keys() - {bench.group for bench in KERNELS.values()} - {"all"}
    if unknown:
        raise SystemExit(f"there is no kernel or group {', '.join(sorted(unknown))}")
    return [name for name, b in KERNELS.items() if "all" in words or {name, b.group} & words]


def main() -> None:
    """Tune, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="all", help="kernels or groups, separated by commas")
    parser.add_argument("--seconds", type=float, default=20.0, help="to search, for each kernel")
    parser.add_argument("--json", type=Path, help="a file for what was found")
    parser.add_argument("--quiet", action="store_true", help="draw no bar")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.seconds)
        return
    screen = Console(width=None if sys.stdout.isatty() else 140)
    found: dict[str, dict[str, Any]] = {}
    names = chosen(options.only)
    with (
        suppress(KeyboardInterrupt),
        Progress(
            console=screen, transient=True, disable=options.quiet or not screen.is_terminal
        ) as progress,
    ):
        task = progress.add_task("", total=len(names))
        for name in names:
            progress.update(task, description=name)
            found[name] = tuned(name, options.seconds)
            progress.advance(task)
    screen.print(table(found, f"The compiler's choice beside the best found, {machine()}"))
    if options.json:
        record = {"machine": machine(), "seconds": options.seconds, "kernels": found}
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
