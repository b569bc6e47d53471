"""The console of the server: bars on a terminal, lines elsewhere, nothing but errors if quiet."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn
from rich.progress import Progress as Bars

from tfn.llm.engine import Event, Progress

LONG_PROMPT = 512
"""Tokens of a prompt from which its progress is shown."""

LINE_SECONDS = 2.0
"""The least time between two lines about one thing."""


class Report:
    """The console of a server; its methods may be called from any thread.

    Args:
        console: that it writes to.
        quiet: whether only errors are shown.
    """

    def __init__(self, console: Console, quiet: bool = False) -> None:
        self.console, self.quiet = console, quiet
        self.bars: Bars | None = None
        self.shown: dict[object, TaskID] = {}
        self.said: dict[object, float] = {}
        self.lock = Lock()

    @contextmanager
    def live(self) -> Iterator[None]:
        """Shows bars while it is open, if the console is a terminal."""
        if self.quiet or not self.console.is_terminal:
            yield
            return
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
        with Bars(*columns, console=self.console, transient=True) as self.bars:
            yield
        self.bars = None

    def line(self, text: str) -> None:
        """A line, with the time."""
        if not self.quiet:
            self.plain(f"{time.strftime('%H:%M:%S')} {text}")

    def fact(self, name: str, text: str) -> None:
        """A fact in words."""
        if not self.quiet:
            self.plain(f"{name + ':':<14}{text}")

    def plain(self, text: str, style: str | None = None) -> None:
        """A line as it is."""
        self.console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)

    def failed(self, error: BaseException) -> None:
        """An error that is no mistake of a request, with where it came from."""
        with self.lock:
            self.plain(f"{type(error).__name__}: {error}", style="red")
            place = error.__traceback__
            while place is not None:
                code = place.tb_frame.f_code
                self.plain(f"  {code.co_filename}:{place.tb_lineno} in {code.co_name}")
                place = place.tb_next

    def step(self, name: str, done: int, total: int, key: object = None) -> None:
        """So much of something is done.

        Args:
            name: of it, in words.
            done: of `total`.
            total: all of it.
            key: that tells it from others of the name.
        """
        key = name if key is None else key
        with self.lock:
            if self.bars is not None:
                if key not in self.shown:
                    self.shown[key] = self.bars.add_task(name, total=total)
                self.bars.update(self.shown[key], completed=done)
                if done >= total:
                    self.bars.remove_task(self.shown.pop(key))
                return
            now = time.monotonic()
            if now - self.said.get(key, -LINE_SECONDS) >= LINE_SECONDS or done >= total:
                self.said[key] = now
                self.line(f"{name}: {done:,} of {total:,}")
            if done >= total:
                self.said.pop(key, None)

    def event(self, number: int, event: Event) -> None:
        """An event of the answer to a request."""
        if isinstance(event, Progress) and event.total >= LONG_PROMPT:
            self.step(f"prompt {number}", event.done, event.total, (number,))

    def ended(self, number: int) -> None:
        """The end of a request, of which a client that left may have kept a bar."""
        with self.lock:
            if self.bars is not None and (number,) in self.shown:
                self.bars.remove_task(self.shown.pop((number,)))
            self.said.pop((number,), None)
