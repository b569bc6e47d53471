"""Events of kernels with the names that people know: the function, and the operations it fuses.

p0984f2...  ->  kernel      step 2 dot_general, tanh
                collective  all_reduce over data: f32[64,32], 12,288 bytes received by a device
                wait        step

A collective between devices of one process is a part of a kernel, and has no time of its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from tfn.extend import Program, events, run
from tfn.inspect.kernels import KernelWork, of_program
from tfn.transforms.shard.report import Moved

MAX_KNOWN = 64
"""Programs whose kernels are kept by number: their graphs are cut into kernels once more for it."""

_KNOWN: dict[int, Sequence[KernelWork]] = {}


def work_of(event: events.Event) -> KernelWork | None:
    """The work of the kernel of an event; None if its program is no longer loaded."""
    known = events.named(event.number)
    program = known.program()
    if not isinstance(program, Program) or event.launch < 0:
        return None
    if event.number not in _KNOWN:
        _KNOWN[event.number] = of_program(program, known.target or run.device("cpu").target)
        if len(_KNOWN) > MAX_KNOWN:
            del _KNOWN[next(iter(_KNOWN))]
    return _KNOWN[event.number][event.launch]


def named(listed: Iterable[events.Event]) -> list[events.Event]:
    """The events; those of kernels and of waits get the names of their kernel and function.

    Kernels that do exchanges of devices have events of these beside them.  Native code writes a
    digest for the program.  The function is that of the call around it, or that asked for it.
    """
    listed = list(listed)
    calls = [event for event in listed if event.kind == "program"]
    begins = [call.begin_ns for call in calls]
    result = []
    for event in listed:
        fused: list[events.Event] = []
        if event.launch >= 0:
            function = _around(event, calls, begins) or event.name
            work = work_of(event)
            title = work.title if work else ""
            name = f"{function} {event.launch} {title}".rstrip()
            event = event._replace(name=name if event.kind == "kernel" else function)
            if work and event.kind == "kernel" and event.worker == 0:
                fused = [_collective(event, moved) for moved in work.exchanges]
        result += [event, *fused]
    return sorted(result, key=lambda event: event.begin_ns)


def _collective(kernel: events.Event, moved: Moved) -> events.Event:
    """An exchange of a kernel, as an event without a length at its begin."""
    what, values = str(moved).split(": ", 1)
    detail = f"{values}, fused into {kernel.name}"
    thread, at_ns = kernel.thread, kernel.begin_ns
    place = kernel.calls, 0, 0, kernel.launch, 0, moved.size_bytes
    return events.Event("collective", what, at_ns, at_ns, thread, detail, *place)


def _around(event: events.Event, calls: Sequence[events.Event], begins: Sequence[int]) -> str:
    """The name of the latest call that began before an event, or before it was asked for, if it
    had not ended by then."""
    ns = event.asked_ns or event.begin_ns
    at = bisect_right(begins, ns) - 1
    return calls[at].name if at >= 0 and ns <= calls[at].end_ns else ""
