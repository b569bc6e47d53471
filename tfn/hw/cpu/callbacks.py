"""Host callbacks: Python functions called from within a running program.

A program holds no address of a function: it calls one entry with the number of a call site.  The
entry takes the interpreter's lock, shows the function the program's own memory as NumPy arrays, and
writes a word if it succeeded; if not, all threads leave the program, and the caller raises what
the function raised, with its frames.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from tfn._support import events
from tfn.dtypes import SHORT
from tfn.lower.program import HostCall, HostPart
from tfn.trace.argument import filled
from tfn.trace.processes import Message

_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)  # takes the interpreter's lock
METHODS = {HostPart.WHOLE: "bound", HostPart.BEGIN: "begun", HostPart.END: "ended"}
"""The method of a function of the host that prepares it for some buffers."""
MAX_BINDINGS = 64
"""Sets of operand addresses for which one call site keeps its arrays.  A program called in a loop
comes back with the same few sets; more would keep arrays of addresses that are gone."""


class Site:
    """One call site: its function, bound to the operands that it was called with."""

    def __init__(self, call: HostCall, functions: Sequence[Any]) -> None:
        run = filled(call.host.run, functions)
        bind: Any = getattr(run, METHODS[call.part], None)
        self._bind = bind or partial(partial, run)
        function: Any = run
        for wrapped in ("run", "function", "function"):  # of an effect, of its trees
            if not hasattr(function, "__name__"):
                function = getattr(function, wrapped, function)
        self.name = getattr(function, "__name__", type(function).__name__)
        self._results, self._types = len(call.host.results), call.types
        self._describe(run, call)
        self.pointer_bytes = 8 * len(call.types)
        self._bound: dict[bytes, Callable[[], None]] = {}
        self._first: Any = None  # a call that can be moved to other addresses

    def _describe(self, run: Any, call: HostCall) -> None:
        """The kind of its events, and what they say: a message of a program is a collective."""
        self.kind, self.detail, self.moved_bytes = "host", "", 0
        if isinstance(run, Message) and call.part is not HostPart.WHOLE:
            # Its own event comes when it has arrived.
            self.name = f"{call.part.value} {self.name}"
        elif isinstance(run, Message):
            results, operands = self._types[: self._results], self._types[self._results :]
            result_bytes = sum(prod(shape) * dtype.itemsize for shape, dtype in results)
            self.kind, self.moved_bytes = "collective", run.received_bytes(result_bytes)
            shown = (f"{SHORT[dtype]}[{','.join(map(str, shape))}]" for shape, dtype in operands)
            received = f"{self.moved_bytes:,} bytes received by a process"
            self.detail = f"{' '.join(shown)}: {received}"

    def bound(self, pointers: bytes) -> Callable[[], None]:
        """The call on arrays at these addresses."""
        bound = self._bound.get(pointers)
        if bound is None:
            if len(self._bound) >= MAX_BINDINGS:
                self._bound.clear()
            addresses = memoryview(pointers).cast("Q")
            bound = self._first.elsewhere(addresses) if self._first else self._new(addresses)
            self._bound[pointers] = bound
        return bound

    def _new(self, addresses: Iterable[int]) -> Callable[[], None]:
        arrays = [_view(at, *kind) for at, kind in zip(addresses, self._types, strict=True)]
        for x in arrays[self._results :]:
            x.flags.writeable = False
        bound: Any = self._bind(arrays[: self._results], arrays[self._results :])
        self._first = bound if hasattr(bound, "elsewhere") else None
        return bound  # type: ignore[no-any-return]


def _view(address: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    size_bytes = prod(shape) * dtype.itemsize
    if not size_bytes:
        return np.empty(shape, dtype)
    return np.ndarray(shape, dtype, (ctypes.c_char * size_bytes).from_address(address))


def _call(sites: Sequence[Site], failed: threading.local, number: int, pointers: int) -> None:
    """Run one call and write 1 into the word after its operands; 0 if it raised.

    The status is a word in memory because the result of a ctypes function that was interrupted
    before its first line is whatever the register held.
    """
    if number < 0:  # The last call failed: without an error of its own, by an interrupt.
        failed.error = getattr(failed, "error", None) or KeyboardInterrupt()
        ctypes.memset(pointers, 1, 1)
        return
    site = sites[number]
    status = pointers + site.pointer_bytes
    begin_ns = time.perf_counter_ns()
    try:
        site.bound(ctypes.string_at(pointers, site.pointer_bytes))()
        events.add(site.kind, site.name, begin_ns, site.detail, moved_bytes=site.moved_bytes)
        ctypes.memset(status, 1, 1)
    except BaseException as error:  # The caller raises it, of whatever class.
        ctypes.memset(status, 0, 1)  # An interrupt may also come after the last line above.
        failed.error = error


class HostEntry:
    """The entry of one program, with functions in its slots.

    Attributes:
        address: of a C function (number of the call site, addresses of its operands and a word),
            which sets the word to 1 if the call succeeded.  Number -1 reports that one did not.
    """

    def __init__(self, calls: Sequence[HostCall], functions: Sequence[Any] = ()) -> None:
        self._failed = threading.local()  # a thread that calls a program asks the host itself
        # The C function refers to the sites, not to this object: a cycle would keep the user's
        # functions alive until a garbage collection.
        sites = [Site(call, functions) for call in calls]
        self._entry = _ENTRY(partial(_call, sites, self._failed))
        self.address = ctypes.c_void_p.from_buffer(self._entry).value or 0

    def check(self) -> None:
        """Raise what a function raised in the last run on this thread, if one did."""
        error = getattr(self._failed, "error", None)
        if error is not None:
            del self._failed.error
            raise error

    def checked(self, entry: Callable[..., Any]) -> Callable[..., Any]:
        """An entry that raises what a function raised."""

        def enter(*arguments: object) -> Any:
            result = entry(*arguments)
            self.check()
            return result

        return enter
