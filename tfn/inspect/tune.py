"""`tune`: better opt-ops for the kernels of a function, by search, kept on disk.

What is found is used from then on, by this and by later processes (without the disk cache, by this
one), wherever the same kernel is made for the same kind of machine.  It never changes a result: the
search leaves alone what bits depend on.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tfn._support.frozen import frozen
from tfn._support.validate import real_number
from tfn.eager import run
from tfn.errors import ArgumentError, SplitError
from tfn.hw.compile import tuning_cache
from tfn.hw.cpu.kernel_timer import Trials
from tfn.hw.cpu.queue import CpuQueue
from tfn.lower import pipeline
from tfn.lower.loops import loop_nest, opt_ops
from tfn.lower.loops.beam_search import search
from tfn.lower.passes import passes
from tfn.lower.program import Kernel, OptOp, all_launches
from tfn.lower.target.target import Target
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk
from tfn.transforms.jit import Jitted, jit

WORTH = 0.97
"""What is found is kept if it takes less than so much of the time before."""


@frozen
class Row:
    """What was found for one kernel.

    Attributes:
        name: of the kernel that the model makes.
        launches: how often the program runs it.
        before_ns, after_ns: on one core.
        tried: how many nests were measured.
        before, after: the opt-ops.
    """

    name: str
    launches: int
    before_ns: float
    after_ns: float
    tried: int
    before: tuple[OptOp, ...]
    after: tuple[OptOp, ...]


@frozen
class Report:
    """What was tried, what won, and by how much.

    Attributes:
        rows: one for each kernel that was searched.
        left: how many kernels there was no time for.
    """

    rows: tuple[Row, ...]
    left: int = 0

    @property
    def before_ns(self) -> float:
        """All launches of the kernels that were searched, as the model has them."""
        return sum(row.before_ns * row.launches for row in self.rows)

    @property
    def after_ns(self) -> float:
        """The same with what was found."""
        return sum(row.after_ns * row.launches for row in self.rows)

    def __str__(self) -> str:
        table = Table("kernel", "launches", "before", "after", "tried", "opt-ops that won")
        for row in self.rows:
            won = (
                " ".join(map(opt_ops.show, row.after))
                if row.after != row.before
                else "those of the model"
            )
            table.add_row(
                row.name[:9],
                str(row.launches),
                _microseconds(row.before_ns),
                _microseconds(row.after_ns),
                str(row.tried),
                won,
            )
        text = io.StringIO()
        Console(width=120, file=text).print(table)
        total = f"{_microseconds(self.before_ns)} -> {_microseconds(self.after_ns)}"
        left = f"; no time for {self.left} other kernels" if self.left else ""
        return text.getvalue() + f"all launches on one core: {total}{left}"


def _microseconds(ns: float) -> str:
    return f"{ns / 1000:.1f} us"


def tune(
    function: Callable[..., Any],
    *args: Any,
    seconds: float = 60.0,
    quiet: bool = False,
    **kwargs: Any,
) -> Report:
    """Search for better opt-ops for the kernels of a function on these arguments.

    Kernels are searched in the order of the time they take, until `seconds` have passed; each
    candidate is compiled and timed in another process.  What wins is kept under the cache folder;
    what an earlier search has kept there is a candidate too, and stays if nothing beats it.

    Args:
        function: what `jit` takes, or has made.
        args, kwargs: arguments, or `ShapeDtypeStruct` in the place of arrays.
        seconds: after which no other candidate is measured.
        quiet: whether to draw no bar.

    Raises:
        ArgumentError: on a device that compiles nothing.

    Example:
        >>> import tfn
        >>> x = tfn.numpy.ones((64, 64))
        >>> report = tfn.tune(lambda x: x @ x, x, seconds=0.5, quiet=True)
        >>> report.after_ns <= report.before_ns
        True
    """
    device = run.device()
    if not isinstance(device.queue, CpuQueue):
        raise ArgumentError(
            "tune times kernels on the cpu",
            got=f"the device {device.name}",
            hint="set TFN_DEVICE or config.device to cpu",
        )
    real_number("tune", "seconds", seconds, 0)
    jitted = function if isinstance(function, Jitted) else jit(function)
    program = run.load(jitted.trace(*args, **kwargs).jaxpr).program
    target = device.target
    found = pipeline.bodies(program, target)
    counts: dict[str, int] = {}
    for launch in all_launches(program.steps):
        counts[launch.kernel.name] = counts.get(launch.kernel.name, 0) + 1
    order = sorted(found, key=lambda name: -_kernel(program.kernels, name).work_ns * counts[name])
    end = time.monotonic() + seconds
    rows = []
    with Trials(target) as trials, Progress(disable=quiet) as progress:
        task = progress.add_task("kernels", total=len(order))
        for name in order:
            if time.monotonic() > end:
                break
            rows.append(_searched(found[name], counts[name], target, trials, end))
            progress.advance(task)
    run.forget()
    jitted.clear_cache()
    return Report(tuple(rows), len(order) - len(rows))


def _kernel(kernels: Sequence[Kernel], name: str) -> Kernel:
    return next(k for k in kernels if k.name == name)


def _searched(body: UOp, launches: int, target: Target, trials: Trials, end: float) -> Row:
    """Search for one kernel; what was kept before is timed again, and stays if nothing beats it."""
    simple = passes.decompose(body, target)
    plain = loop_nest.nest(simple)
    chosen = pipeline.kernel_of_nest(passes.split(simple, target), target)
    known = _replayed(plain, tuning_cache.find(chosen.name, target))
    kept = known[0].opts if known else chosen.opts
    params = {u.arg.index: u for u in walk([simple]) if u.op is Op.PARAM and u.arg.index >= 0}
    buffers = [(params[i].size, params[i].dtype) for i in range(len(params))]

    def measure(n: loop_nest.Nest) -> float | None:
        late = time.monotonic() > end and n.opts not in (chosen.opts, kept)
        return None if late else trials.measure(pipeline.kernel_of_nest(n, target), buffers)

    won = search(plain, target, measure, known)
    better = won.ns < WORTH * won.heuristic_ns
    opts = won.opts if better else chosen.opts
    if opts != kept:
        tuning_cache.keep(chosen.name, target, opt_ops.to_rows(opts))
    after_ns = won.ns if better else won.heuristic_ns
    return Row(chosen.name, launches, won.heuristic_ns, after_ns, won.measured, chosen.opts, opts)


def _replayed(plain: loop_nest.Nest, rows: Sequence[opt_ops.Row] | None) -> list[loop_nest.Nest]:
    """The nest of opt-ops that were kept, unless there are none, or none that this version has."""
    if rows is not None:
        with suppress(SplitError):
            return [loop_nest.simplified(opt_ops.replay(plain, opt_ops.from_rows(rows)))]
    return []
