"""Native launches: what the entry of a program calls, and the words that it reads.

    a call of the user -> entry.ll of the CPU -> run of launch.ll -> cuGraphLaunch

The addresses of a call are compared with those that are in the tables of the graph's copies.  If
one has them it is launched as it is; else the table of another copy is filled and sent to the
device first.  So a loop whose results come back as arguments, in blocks that take turns, sends
nothing.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from functools import cache
from typing import Any
from weakref import WeakValueDictionary

from tfn.extend import LlvmCompiler, host, read_ir
from tfn.hw.cpu.loader import Loader
from tfn.hw.cpu.native import State
from tfn.hw.cuda.driver import Driver
from tfn.hw.cuda.graph import Graph

RECENT = 4
"""Programs whose kernels the error of a GPU names: a graph does not say which it was.  A power of
two."""
QUEUE = (
    "set_context",
    "context",
    "stream",
    "copy_to_device",
    "launch_graph",
    "started_at",
    "enabled_at",
    "failed",
    "started",
    "enabled",
    "recent",
)
"""The words of a queue; as many programs as `RECENT` says follow.

set_context, copy_to_device, launch_graph: addresses of functions of the driver.
started_at, enabled_at: addresses of the number of programs that were started, and of the word that
is 0 when entries leave calls to Python: those of native code, or else `started` and `enabled`.
failed: the code of the error of a launch, until Python has raised it.
recent: the numbers of the programs that were started last.
"""
CALL = (
    "queue",
    "program",
    "buffer_count",
    "word_count",
    "bases",
    "offsets",
    "words",
    "last",
    "copy_count",
    "copies",
)
"""The words of a call, which belongs to one graph of a program; its copies follow.

bases, offsets: for each word of the table the number of a buffer, and the bytes from there.
words: where they are put together.
last: the number of the copy that was launched last.
"""
COPY = ("executable", "place", "addresses")
"""The words of a copy: the graph, its table on the device, and the addresses that are in it."""


class Kernels:
    """The names of a program's kernels, for errors."""

    __slots__ = ("__weakref__", "names", "number")

    def __init__(self, names: Sequence[str], number: int = 0) -> None:
        self.names, self.number = tuple(names), number


@cache
def _code() -> Any:
    """`launch.ll`, compiled and loaded."""
    values: dict[str, object] = {f"QUEUE.{name}": at for at, name in enumerate(QUEUE)}
    values |= {f"CALL.{name}": at for at, name in enumerate(CALL)}
    values |= {f"COPY.{name}": at for at, name in enumerate(COPY)}
    values |= {"COPY_WORDS": len(COPY), "RECENT_MASK": RECENT - 1}
    compiler = LlvmCompiler()
    data = compiler.compile(read_ir("launch", values, folder=os.path.dirname(__file__)), host())
    return Loader(compiler).load(data, ("run", "note", "launch", "write"))


class Call:
    """The words of a call of a graph, and what they refer to.

    Attributes:
        address: of the words.
        graph: None for a program that launches nothing.
    """

    def __init__(self, queue: int, program: int, buffers: int, graph: Graph | None) -> None:
        copies = graph.copies if graph else ()
        table = graph.table if graph else None
        count = len(table.base) if table else 0
        self._words = (ctypes.c_int64 * max(count, 1))()
        # Addresses that no call has: that of the arena is never -1.
        self._known = [(ctypes.c_int64 * (buffers + 1))(*[-1] * (buffers + 1)) for _ in copies]
        words = [queue, program, buffers, count]
        words += [table.base.ctypes.data, table.offset.ctypes.data] if table else [0, 0]
        words += [ctypes.addressof(self._words), 0, len(copies)]
        for (executable, place), known in zip(copies, self._known, strict=True):
            words += [executable.value or 0, place, ctypes.addressof(known)]
        self._call = (ctypes.c_int64 * len(words))(*words)
        self.address, self.graph = ctypes.addressof(self._call), graph


class Launcher:
    """Launches the graphs of one queue.

    Attributes:
        run: the address of what entries call.
    """

    def __init__(self, driver: Driver) -> None:
        self.driver, library = driver, driver.library
        self._words = (ctypes.c_int64 * (len(QUEUE) + RECENT - 1))()
        self._set("set_context", library.address("cuCtxSetCurrent"))
        self._set("copy_to_device", library.address("cuMemcpyHtoDAsync"))
        self._set("launch_graph", library.address("cuGraphLaunch"))
        self._set("context", driver.context.value or 0)
        self._set("stream", driver.stream.value or 0)
        self._count_in(self._at("started"), self._at("enabled"))
        code = _code()
        self.run: int = code.addresses["run"]
        # Functions that keep the interpreter's lock, as those of entries do.
        pointer = ctypes.c_void_p
        launch = ctypes.PYFUNCTYPE(ctypes.c_int, *[pointer] * 4)
        self._launch = launch(code.addresses["launch"])
        self._note = ctypes.PYFUNCTYPE(None, pointer, pointer)(code.addresses["note"])
        self._kernels: WeakValueDictionary[int, Kernels] = WeakValueDictionary()
        self._count = 0

    def _at(self, name: str) -> int:
        return ctypes.addressof(self._words) + 8 * QUEUE.index(name)

    def _set(self, name: str, word: int) -> None:
        self._words[QUEUE.index(name)] = word

    def serve(self, state: State) -> None:
        """Count programs in the words of native code, and write its numbers to the device."""
        self._count_in(state.address("started"), state.address("enabled"))
        state["queue"] = ctypes.addressof(self._words)
        state["write_number"] = _code().addresses["write"]

    def _count_in(self, started_at: int, enabled_at: int) -> None:
        """Use these words for the number of programs, and to end native calls."""
        self._set("started_at", started_at)
        self._set("enabled_at", enabled_at)

    @property
    def started(self) -> int:
        """The number of programs that were started."""
        return ctypes.c_int64.from_address(self._words[QUEUE.index("started_at")]).value

    def take_failure(self) -> int:
        """The code of an error that a native call has left, once; 0 for none."""
        code = self._words[QUEUE.index("failed")]
        self._set("failed", 0)
        return code

    def enable(self) -> None:
        """Let entries run natively again."""
        ctypes.c_int64.from_address(self._words[QUEUE.index("enabled_at")]).value = 1

    def named(self, names: Sequence[str]) -> Kernels:
        """A program by its kernels; it is known as long as the result lives."""
        self._count += 1
        kernels = self._kernels[self._count] = Kernels(names, self._count)
        return kernels

    def recent(self, finished: int) -> list[str]:
        """The kernels of the last programs, of those beyond the `finished` first."""
        recent, started = QUEUE.index("recent"), self.started
        numbers = range(max(finished, started - RECENT) + 1, started + 1)
        programs = [self._kernels.get(self._words[recent + i % RECENT]) for i in numbers]
        return [name for kernels in programs if kernels for name in kernels.names]

    def call(self, kernels: Kernels, buffers: int, graph: Graph | None) -> Call:
        """The call of a graph on so many inputs and outputs."""
        return Call(ctypes.addressof(self._words), kernels.number, buffers, graph)

    def note(self, kernels: Kernels) -> None:
        """Count a program that is about to start."""
        self._note(ctypes.addressof(self._words), kernels.number)

    def launch(self, call: Call, addresses: Any, arena: int, moves: Any = None) -> int:
        """Launch a graph on buffers at addresses; returns the code of the driver's error.

        Args:
            addresses: a ctypes array, of inputs and outputs.
            moves: an int64 array of bytes to add to each word of the table.
        """
        return int(
            self._launch(
                call.address, addresses, arena, None if moves is None else moves.ctypes.data
            )
        )
