"""Event log of the process: what took how long, for the profiler; always on.

Rare things (a function is traced, lowered, compiled; a program runs by way of Python; the host is
called back; a block is annotated) are added here, to a ring of the latest.  Calls of native entry
points and their kernels are too many for Python: they write into rings of their own, see
`hw.cpu.call_log` and `hw.cpu.kernel_log`, with the number of the program by `number_of`.

While each call is timed, uses of buffers are kept, too: native code writes those of its buffers
into a third ring, see `hw.cpu.use_log`, and `use` adds what goes through Python.
"""

from __future__ import annotations

import itertools
import threading
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

MAX_EVENTS = 1 << 14
"""Events that are kept, about 2 MB of them: the compilations and callbacks of a long session."""

MAX_NAMES = 1 << 12
"""Names that are kept though their programs may be gone: of the latest entry points."""


class Event(NamedTuple):
    """Something that took time.

    Attributes:
        kind: trace, lower, compile, cache, program, kernel, collective, wait, host or annotation; a
            wait is that of a thread at the barrier after a kernel, until the last thread has
            finished it; a collective that is fused into a kernel takes no time of its own.
        name: of the function, program or block.
        begin_ns, end_ns: by the clock of `time.perf_counter_ns`.
        thread: that of `threading.get_ident`; 0 for calls of native entry points.
        detail: in words, such as the reason of a compilation.
        calls: of a native entry point that it stands for: of short programs some are timed; or the
            runs of a kernel within a loop, of which it is the first, with their mean time.
        number: of the program, for `named`; 0 for other events.
        live_bytes: of all arrays of the process at its end; 0 if that is not known.
        launch: of a kernel, its place among the launches of its program; -1 for other events.
        worker: the thread that ran a kernel, by its number among those of the program.
        moved_bytes: that a device, or a process, receives in a collective; 0 for other events.
        asked_ns: when the call asked for it, which may have ended before it began; 0 if it waited.
    """

    kind: str
    name: str
    begin_ns: int
    end_ns: int
    thread: int = 0
    detail: str = ""
    calls: int = 1
    number: int = 0
    live_bytes: int = 0
    launch: int = -1
    worker: int = 0
    moved_bytes: int = 0
    asked_ns: int = 0

    @property
    def duration_ns(self) -> int:
        """The time it took."""
        return self.end_ns - self.begin_ns


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Named:
    """The name of a program, a weak reference to it, and its target; None: the device cpu's."""

    name: str
    program: Callable[[], Any]
    target: Any = None


class CallRow(NamedTuple):
    """A row of the log of native calls: see `Event`."""

    number: int
    begin_ns: int
    end_ns: int
    calls: int
    live_bytes: int


class KernelRow(NamedTuple):
    """A row of the log of kernels: a launch on a thread, with all its runs if it is repeated."""

    number: int
    launch: int
    worker: int
    begin_ns: int
    busy_ns: int
    waiting_ns: int
    runs: int
    asked_ns: int = 0


class Use(NamedTuple):
    """A use of a buffer.

    Attributes:
        what: allocate, write (by a program that makes it), work (the same, for its own use), read
            or free.
        name: of the program, or `HOST`.
        buffer: its identity, which another may have once it is freed.
        size_bytes: of its contents.
        at_ns: by the clock of `time.perf_counter_ns`.
    """

    what: str
    name: str
    buffer: int
    size_bytes: int
    at_ns: int


HOST = "host"
"""Who makes arrays of data of Python, and reads them as such."""

MAX_USES = 1 << 16
"""Uses of buffers by way of Python that are kept."""


Native = Callable[[], tuple[list[CallRow], int]]
"""A log of native calls, the oldest first, and how many older ones have been dropped."""

# Plain tuples of texts and numbers, which the garbage collector need not look at.
_EVENTS: deque[tuple[str, str, int, int, int, str, int]] = deque(maxlen=MAX_EVENTS)
_USES: deque[Use] = deque(maxlen=MAX_USES)
_FREED: dict[int, weakref.ref[Any]] = {}
_COUNT = itertools.count()
_ADDED = [0]
_ENABLED = [True]
_EVERY_CALL = [False]
_NUMBERS = itertools.count(1)
_NAMES: WeakValueDictionary[int, Named] = WeakValueDictionary()
_RECENT: OrderedDict[int, str] = OrderedDict()
NATIVE: list[Native] = []
"""The logs of native calls, one for each device that has one."""
KERNELS: list[Callable[[], list[KernelRow]]] = []
"""The logs of kernels."""
USES: list[Callable[[], tuple[list[Use], int]]] = []
"""The logs of uses of native buffers: see `Native`."""
ADD_USE: dict[type, Callable[[str, str, Any], None]] = {}
"""For each type of native buffers, the function that adds a use, by name, to the log of its device:
so all uses of a buffer are in one log, and in their order."""
SWITCHES: list[Callable[[], None]] = []
"""Functions that tell those logs of a change of `enabled` or `every_call`."""


def enabled() -> bool:
    """Whether events are added."""
    return _ENABLED[0]


def every_call() -> bool:
    """Whether each call of a short program is timed, too."""
    return _EVERY_CALL[0]


def enable(on: bool, every: bool = False) -> None:
    """Switches the log on or off; `every` says whether each call of a short program is timed."""
    if every and not uses_kept():
        _USES.clear()
        _FREED.clear()
    _ENABLED[0], _EVERY_CALL[0] = on, every
    for switch in SWITCHES:
        switch()


def add(
    kind: str, name: str, begin_ns: int, detail: str = "", end_ns: int = 0, moved_bytes: int = 0
) -> None:
    """Adds an event that began then, and ends now unless its end is given; see `Event`."""
    if _ENABLED[0]:
        _ADDED[0] = next(_COUNT) + 1
        end_ns = end_ns or time.perf_counter_ns()
        thread = threading.get_ident()
        _EVENTS.append((kind, name, begin_ns, end_ns, thread, detail, moved_bytes))


def uses_kept() -> bool:
    """Whether uses of buffers are kept."""
    return _ENABLED[0] and _EVERY_CALL[0]


def use(what: str, name: str, *buffers: Any) -> None:
    """Adds the same use of each of some buffers, now; see `Use`."""
    if uses_kept():
        now_ns = time.perf_counter_ns()
        for buffer in buffers:
            add_native = ADD_USE.get(type(buffer))
            if add_native:
                add_native(what, name, buffer)
                continue
            key, size_bytes = id(buffer), buffer.size_bytes
            _USES.append(Use(what, name, key, size_bytes, now_ns))
            if key not in _FREED:  # native buffers log their end themselves
                _FREED[key] = weakref.ref(buffer, partial(_free, key, size_bytes))


def _free(buffer: int, size_bytes: int, _: object) -> None:
    """Adds the end of a buffer that is no native one."""
    if _FREED.pop(buffer, None) and uses_kept():
        _USES.append(Use("free", "", buffer, size_bytes, time.perf_counter_ns()))


def uses() -> tuple[list[list[Use]], int]:
    """The uses of buffers that are kept, in order, of each log, and how many have been dropped."""
    listed, dropped = [list(_USES)], int(len(_USES) == MAX_USES)
    for native in USES:
        rows, older = native()
        listed.append(rows)
        dropped += older
    return listed, dropped


def number_of(name: str, program: Any, target: Any = None) -> tuple[int, Named]:
    """A number for a program that logs refer to, and its name, which the program has to keep.

    Args:
        name: of the user's function, or of the operation.
        program: a weak reference to it.
        target: that it was lowered for; None: that of the device cpu.
    """
    number, known = next(_NUMBERS), Named(name, program, target)
    _NAMES[number], _RECENT[number] = known, name
    if len(_RECENT) > MAX_NAMES:
        _RECENT.popitem(last=False)
    return number, known


def named(number: int) -> Named:
    """The name of a program and the weak reference to it, by its number."""
    known = _NAMES.get(number)
    return known or Named(_RECENT.get(number, f"program {number}"), lambda: None)


def events() -> tuple[list[Event], int]:
    """All events of the rings, by their begin, and how many have been dropped in all."""
    listed = [Event(*row[:-1], moved_bytes=row[-1]) for row in list(_EVENTS)]
    dropped = max(0, _ADDED[0] - len(listed))
    for native in NATIVE:
        calls, older = native()
        dropped += older
        for row in calls:
            name, rest = named(row.number).name, (row.calls, row.number, row.live_bytes)
            listed.append(Event("program", name, row.begin_ns, row.end_ns, 0, "", *rest))
    listed += [event for rows in KERNELS for row in rows() for event in _of_kernel(row)]
    return sorted(listed, key=lambda event: event.begin_ns), dropped


def _of_kernel(row: KernelRow) -> Iterator[Event]:
    """The run of a kernel on a thread, and the waiting at the barrier after it."""
    name, runs = named(row.number).name, row.runs
    end_ns = row.begin_ns + row.busy_ns // runs
    place = 0, "", runs, row.number, 0, row.launch, row.worker, 0, row.asked_ns
    yield Event("kernel", name, row.begin_ns, end_ns, *place)
    if row.waiting_ns:
        yield Event("wait", name, end_ns, end_ns + row.waiting_ns // runs, *place)
