"""Progress of a training loop: a bar with losses and speed, a line at the end, a picture.

Where there is no terminal, or when it is told to be quiet, nothing is drawn; what was counted is
there all the same.
"""

from __future__ import annotations

import math
import os
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tfn._support.files import replacing
from tfn.errors import MissingPackageError
from tfn.nn.writers import Writer

REDRAW_INTERVAL_SECONDS = 0.1
History = Mapping[str, Sequence[tuple[int, float]]]
"""Values by name: pairs of the step after which each was recorded, and the value."""


class Training:
    """A progress bar and a record of a training loop, as a context manager.

    The value of an array is read when the bar is drawn or the history is read, not before, so that
    showing it does not make the loop wait.

    Args:
        steps: number of steps of the whole run.
        unit: name of the items that a step processes: images, tokens.
        first: number of steps made before, by a run that this one continues.
        quiet: whether to write nothing at all.
        console: the console to write to; standard output if None.
        log_every: after so many steps the numbers go to `writers` and, where there is no terminal,
            to a line; those of the last step always.  Never if 0.
        writers: files of numbers, as of `tfn.nn.writers`; they are closed at the end.

    Attributes:
        done: number of steps made, those before included.
        first_seconds: time of the first step, which includes compilation.
        seconds: time of all other steps, without the time between a step and a note.

    Example:
        >>> with Training(steps=3, unit="images", quiet=True) as training:
        ...     for step in range(3):
        ...         training.step(128, loss=1 / (step + 1))
        >>> training.history()["loss"]
        [(1, 1.0), (2, 0.5), (3, 0.333...)]
        >>> print(training.summary())
        3 steps, loss 0.3333, compiled in ... s, ... ms a step, ... images/s
    """

    def __init__(
        self,
        steps: int,
        unit: str = "items",
        first: int = 0,
        *,
        quiet: bool = False,
        console: Console | None = None,
        log_every: int = 0,
        writers: Sequence[Writer] = (),
    ) -> None:
        self.steps, self.unit, self.done, self.quiet = steps, unit, first, quiet
        self.console = Console() if console is None else console
        self.first_seconds = self.seconds = 0.0
        self._first, self._count = first, 0
        self._every, self._writers, self._logged = log_every, writers, first
        self._numbers: dict[str, list[tuple[int, Any]]] = defaultdict(list)
        self._drawn = -math.inf
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[text]}"),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            auto_refresh=False,
            disable=quiet or not self.console.is_terminal,
        )
        self._task = self._bar.add_task("step", total=steps, completed=first, text="")

    def __enter__(self) -> Training:
        self._bar.start()
        self._lap = time.perf_counter()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()
        if self._every and self.done > self._logged:
            self._log()
        for writer in self._writers:
            writer.close()

    def _log(self) -> None:
        """The numbers of the last step, to the writers and to a line."""
        self._logged = self.done
        numbers = {name: x for name, (n, x) in self._last().items() if n == self.done}
        for writer in self._writers:
            writer.write(self.done, **numbers)
        if not self.quiet and not self.console.is_terminal:
            parts = [f"{name} {value:.4f}" for name, value in numbers.items()]
            speed = f"{self.speed:,.0f} {self.unit}/s"
            self.note(", ".join([f"step {self.done} of {self.steps}", *parts, speed]))

    def step(self, count: int, **numbers: Any) -> None:
        """Counts one more step.

        Args:
            count: number of items that the step processed.
            numbers: losses and the like, which are shown and recorded: floats, or arrays of one
                element.
        """
        self.done += 1
        for name, value in numbers.items():
            self._numbers[name].append((self.done, value))
        now = time.perf_counter()
        if self.done == self._first + 1:
            for value in numbers.values():
                float(value)  # what was compiled has run once
            now = time.perf_counter()
            self.first_seconds = now - self._lap
        else:
            self.seconds += now - self._lap
            self._count += count
        if self._every and self.done % self._every == 0:
            self._log()
        if not self._bar.disable and now - self._drawn >= REDRAW_INTERVAL_SECONDS:
            self._draw()
            self._drawn = now
        self._lap = time.perf_counter()

    def note(self, text: str) -> None:
        """A line that stays.  The time since the last step is not counted as training."""
        if not self.quiet:
            self.console.print(text, highlight=False, markup=False, soft_wrap=True)
        self._lap = time.perf_counter()

    def _draw(self) -> None:
        last = [f"{name} {value:.4f}" for name, (_, value) in self._last().items()]
        text = "  ".join([*last, f"{self.speed:,.0f} {self.unit}/s"])
        self._bar.update(self._task, completed=self.done, text=text)
        self._bar.refresh()

    def _last(self) -> dict[str, tuple[int, float]]:
        for values in self._numbers.values():
            values[-1] = values[-1][0], float(values[-1][1])
        return {name: values[-1] for name, values in self._numbers.items()}

    @property
    def speed(self) -> float:
        """Units a second, without the first step; 0 while nothing is known."""
        return self._count / self.seconds if self.seconds else 0.0

    def history(self) -> dict[str, list[tuple[int, float]]]:
        """All numbers that were shown, as `History`."""
        return {name: [(n, float(x)) for n, x in values] for name, values in self._numbers.items()}

    def summary(self) -> str:
        """One line: the last of each number, and the speed."""
        steps = self.done - self._first
        parts = [f"{self.done} steps"]
        parts += [f"{name} {value:.4f}" for name, (_, value) in self._last().items()]
        if steps > 0:
            parts.append(f"compiled in {self.first_seconds:.2f} s")
        if steps > 1:
            parts.append(f"{self.seconds / (steps - 1) * 1e3:.2f} ms a step")
            parts.append(f"{self.speed:,.0f} {self.unit}/s")
        return ", ".join(parts)


def smoothed(values: Sequence[float], window: int) -> list[float]:
    """Returns running means over `window` values, the first ones over as many as there are.

    Example:
        >>> smoothed([1.0, 3.0, 5.0], 2)
        [1.0, 2.0, 4.0]
    """
    sums = [0.0]
    for value in values:
        sums.append(sums[-1] + value)
    starts = [max(0, n + 1 - window) for n in range(len(values))]
    return [(sums[n + 1] - sums[at]) / (n + 1 - at) for n, at in enumerate(starts)]


def plot(
    path: str | os.PathLike[str], history: History, *, title: str = "", log: bool = False
) -> None:
    """Draws curves of numbers over steps into a PNG file, noisy ones with their running means.

    Args:
        path: file to write; replaced as a whole.
        history: as `Training.history` gives it.
        title: text above the curves; none if empty.
        log: whether the axis of the numbers is logarithmic.

    Raises:
        MissingPackageError: without matplotlib.
        OSError: if the system refuses; the file is then what it was.

    Example:
        >>> plot("/tmp/tfn-example.png", {"loss": [(1, 1.0), (2, 0.5)]}, title="training")
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingPackageError(
            "pictures need matplotlib", hint="pip install 'tfn[plot]'"
        ) from None
    figure = Figure(figsize=(6.4, 4.0), dpi=150, layout="constrained")
    axes = figure.subplots()
    for color, (name, points) in enumerate(history.items()):
        steps, values = [n for n, _ in points], [x for _, x in points]
        window = len(values) // 50
        axes.plot(
            steps,
            values,
            f"C{color}",
            alpha=0.3 if window > 1 else 1.0,
            linewidth=1,
            label=None if window > 1 else name,
        )
        if window > 1:
            axes.plot(steps, smoothed(values, window), f"C{color}", label=name)
    axes.set_xlabel("step")
    axes.set_title(title)
    axes.grid(alpha=0.2)
    if log:
        axes.set_yscale("log")
    if history:
        axes.legend()
    with replacing(path) as file:
        figure.savefig(file, format="png")
