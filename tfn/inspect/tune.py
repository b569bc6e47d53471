"""Autotuning (`tfn.tune`): a search for faster opt-ops for kernels, cached on disk.

The result of a search is used from then on, by this and by later processes (without the disk cache,
by this one), wherever the same kernel is compiled for the same kind of machine.  It never changes
bits: the search leaves the order of summation as it is.

Candidates are timed, or estimated by modulo schedules of their loops (`tfn.inspect.cycles`), which
needs no machine.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tfn import jit
from tfn.errors import ArgumentError, SplitError
from tfn.extend import (
    Jitted,
    Kernel,
    KernelTimer,
    Op,
    Target,
    UOp,
    all_launches,
    frozen,
    passes_of,
    pipeline,
    real_number,
    run,
    walk,
)
from tfn.hw.compile import tuning_cache
from tfn.inspect import search_tree
from tfn.inspect.cycles import CycleModel
from tfn.lower.loops import loop_nest, opt_ops
from tfn.lower.loops.beam_search import Measure, SearchResult, Tree, Trial, search
from tfn.lower.program import OptOp

MAX_TIME_RATIO = 0.97
"""A kernel is replaced if it takes less than this fraction of the time before: differences below
3% are within the noise of the timer."""

PIPELINED = 3
"""Nests of a search, the best ones, whose innermost loops are pipelined too: the best with
overlapping iterations is seldom the best without, and each takes as many measurements as there are
numbers of stages."""


@frozen
class Row:
    """The result of the search for one kernel.

    Attributes:
        name: of the kernel that the model makes.
        launches: how often the program runs it.
        before_ns, after_ns: on one core; cycles if they were estimated.
        tried: how many nests were measured.
        before, after: the opt-ops.
        tree: all nests that were ranked or measured.
    """

    name: str
    launches: int
    before_ns: float
    after_ns: float
    tried: int
    before: tuple[OptOp, ...]
    after: tuple[OptOp, ...]
    tree: tuple[Trial, ...] = ()


@frozen
class Report:
    """The results of a search: opt-ops tried and chosen, times before and after.

    Attributes:
        rows: one for each kernel that was searched.
        left: number of kernels that were not searched for lack of time.
        by: "time", or "cycles".
    """

    rows: tuple[Row, ...]
    left: int = 0
    by: str = "time"

    @property
    def before_ns(self) -> float:
        """All launches of the kernels that were searched, as the model has them."""
        return sum(row.before_ns * row.launches for row in self.rows)

    @property
    def after_ns(self) -> float:
        """The same with the opt-ops of the search."""
        return sum(row.after_ns * row.launches for row in self.rows)

    def _repr_html_(self) -> str:
        """In a notebook: the tree of each search, to be unfolded."""
        return search_tree.html({row.name: row.tree for row in self.rows})

    def __str__(self) -> str:
        table = Table("kernel", "launches", "before", "after", "tried", "opt-ops that won")
        for row in self.rows:
            winners = (
                " ".join(map(opt_ops.show, row.after))
                if row.after != row.before
                else "those of the model"
            )
            table.add_row(
                row.name[:9],
                str(row.launches),
                self._text(row.before_ns),
                self._text(row.after_ns),
                str(row.tried),
                winners,
            )
        text = io.StringIO()
        Console(width=120, file=text).print(table)
        total = f"{self._text(self.before_ns)} -> {self._text(self.after_ns)}"
        rest = f"; no time for {self.left} other kernels" if self.left else ""
        return text.getvalue() + f"all launches on one core: {total}{rest}"

    def _text(self, ns: float) -> str:
        return f"{ns / 1000:.1f} us" if self.by == "time" else f"{ns:,.0f} cycles"


def tune(
    function: Callable[..., Any],
    *args: object,
    seconds: float = 60.0,
    quiet: bool = False,
    page: str | Path | None = None,
    by: str = "time",
    **kwargs: object,
) -> Report:
    """Searches for better opt-ops for the kernels of a function on these arguments.

    Kernels are searched in the order of the time they take, until `seconds` have passed; each
    candidate is compiled and timed in another process.  The fastest is stored in the cache
    folder; the result of an earlier search is a candidate too, and stays unless another beats it.

    Args:
        function: a function of arrays, jitted or not.
        args, kwargs: arguments of the function; `ShapeDtypeStruct` will do for an array.
        seconds: time after which no other candidate is measured.
        quiet: whether to draw no progress bar.
        page: of a file that shows the tree of each search as it grows; a browser that has opened
            it reads it anew every few seconds until the search has ended.
        by: "time", or "cycles": what modulo schedules of the loops take, which is computed, so
            that the device need not be able to time kernels.

    Raises:
        ArgumentError: on a device that compiles nothing; by cycles, where the slots and latencies
            of the processor are not known.

    Example:
        >>> import tfn
        >>> x = tfn.numpy.ones((64, 64))
        >>> report = tfn.tune(lambda x: x @ x, x, seconds=0.5, quiet=True)
        >>> report.after_ns <= report.before_ns
        True
    """
    device = run.device()
    timers: dict[str, Callable[[Target], KernelTimer] | None] = {
        "time": device.kernel_timer,
        "cycles": CycleModel,
    }
    if by not in timers:
        raise ArgumentError("tune compares kernels by time or by cycles", got=f"by={by!r}")
    make_timer = timers[by]
    if make_timer is None:
        raise ArgumentError(
            "tune times kernels on the cpu",
            got=f"the device {device.name}",
            hint="set TFN_DEVICE or config.device to cpu, or pass by='cycles'",
        )
    real_number("tune", "seconds", seconds, 0)
    jitted = function if isinstance(function, Jitted) else jit(function)
    target = device.target
    program = pipeline.with_bodies(run.load(jitted.trace(*args, **kwargs).jaxpr).program, target)
    bodies = pipeline.bodies(program, target)
    counts: dict[str, int] = {}
    for launch in all_launches(program.steps):
        counts[launch.kernel.name] = counts.get(launch.kernel.name, 0) + 1
    order = sorted(bodies, key=lambda name: -_kernel(program.kernels, name).work_ns * counts[name])
    end = time.monotonic() + seconds
    rows: list[Row] = []
    growing = search_tree.Growing(page) if page else None

    def grown(name: str, tree: Tree) -> None:
        if growing:
            growing.update({row.name: row.tree for row in rows} | {name: tuple(tree.values())})

    with make_timer(target) as timer, Progress(disable=quiet) as progress:
        task = progress.add_task("kernels", total=len(order))
        for name in order:
            if time.monotonic() > end:
                break
            rows.append(_search_kernel(bodies[name], counts[name], target, timer, end, grown))
            progress.advance(task)
    if growing:
        growing.finish({row.name: row.tree for row in rows})
    run.clear_caches()
    jitted.clear_cache()
    return Report(tuple(rows), len(order) - len(rows), by)


def _kernel(kernels: Sequence[Kernel], name: str) -> Kernel:
    return next(k for k in kernels if k.name == name)


def _search_kernel(
    body: UOp,
    launches: int,
    target: Target,
    timer: KernelTimer,
    end: float,
    grown: Callable[[str, Tree], None],
) -> Row:
    """Searches for one kernel; cached opt-ops are a candidate, and stay unless one is faster."""
    tree: Tree = {}
    passes = passes_of(target)
    simple = passes.decompose(body, target)
    plain = loop_nest.nest(simple)
    default = pipeline.kernel_of_nest(passes.split(simple, target), target)
    candidates = _replay(plain, tuning_cache.find(default.name, target))
    cached_opts = candidates[0].opts if candidates else default.opts
    params = {u.arg.index: u for u in walk([simple]) if u.op is Op.PARAM and u.arg.index >= 0}
    buffers = [(params[i].size, params[i].dtype) for i in range(len(params))]

    def measure(n: loop_nest.Nest) -> float | None:
        grown(default.name, tree)
        late = time.monotonic() > end and n.opts not in (default.opts, cached_opts)
        return None if late else timer.measure(pipeline.kernel_of_nest(n, target), buffers)

    winner = search(plain, target, measure, candidates, tree=tree)
    winner = _pipelined(plain, target, winner, measure, tree)
    better = winner.ns < MAX_TIME_RATIO * winner.heuristic_ns
    opts = winner.opts if better else default.opts
    if opts != cached_opts:
        tuning_cache.keep(default.name, target, opt_ops.to_rows(opts))
    after_ns = winner.ns if better else winner.heuristic_ns
    times = winner.heuristic_ns, after_ns, winner.measured
    return Row(default.name, launches, *times, default.opts, opts, tuple(tree.values()))


def _pipelined(
    plain: loop_nest.Nest, target: Target, found: SearchResult, measure: Measure, tree: Tree
) -> SearchResult:
    """The result of a search, or one of its best nests with pipelined loops if that is faster."""
    timed = [(trial.ns, opts) for opts, trial in tree.items() if trial.ns is not None]
    timed.sort(key=lambda pair: pair[0])
    count = 0
    for _, opts in timed:
        if opt_ops.stages(opts):  # of an earlier search
            continue
        texts = {pipeline.kernel_of_nest(_replayed(plain, opts), target).name}
        for stages in range(1, opt_ops.MAX_STAGES + 1):
            nest = _replayed(plain, (*opts, opt_ops.Pipeline(stages)))
            name = pipeline.kernel_of_nest(nest, target).name
            if name in texts:  # loops that cannot be read, or run too seldom
                continue
            texts.add(name)
            ns = measure(nest)
            if ns is None:
                return found
            tree[nest.opts] = Trial(nest.opts, opts, tree[opts].estimated, ns=ns)
            found = replace(found, measured=found.measured + 1)
            if ns < found.ns:
                found = replace(found, opts=nest.opts, ns=ns)
        count += len(texts) > 1
        if count == PIPELINED:
            break
    return found


def _replayed(plain: loop_nest.Nest, opts: Sequence[OptOp]) -> loop_nest.Nest:
    return loop_nest.simplified(opt_ops.replay(plain, opts))


def _replay(plain: loop_nest.Nest, rows: Sequence[opt_ops.Row] | None) -> list[loop_nest.Nest]:
    """Applies cached opt-ops; no nest if there are none, or if this version lacks one of them."""
    if rows is not None:
        with suppress(SplitError):
            return [_replayed(plain, opt_ops.from_rows(rows))]
    return []
