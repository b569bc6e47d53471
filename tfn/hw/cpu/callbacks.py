"""Functions of the host, called from within a running program.

A program holds no address of a function: it asks one entry for a call by its number.  The entry
takes the interpreter's lock, shows the function the program's own memory as NumPy arrays, and
writes a word if it succeeded; if not, all threads leave the program, and the caller raises what
the function raised, with its frames.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from tfn.lower.program import HostCall
from tfn.trace.argument import filled

_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)  # takes the lock
MOST_VIEWS = 64
"""For how many places of its operands a call is kept bound."""


class _Site:
    """One call: its function, bound to the places of memory that it is called with."""

    def __init__(self, call: HostCall, functions: Sequence[Any]) -> None:
        run = filled(call.host.run, functions)
        self._bind = getattr(run, "bound", None) or partial(partial, run)
        self._results, self._types = len(call.host.results), call.types
        self.pointer_bytes = 8 * len(call.types)
        self._bound: dict[bytes, Callable[[], None]] = {}

    def bound(self, pointers: bytes) -> Callable[[], None]:
        """The call on arrays at these addresses."""
        found = self._bound.get(pointers)
        if found is None:
            if len(self._bound) >= MOST_VIEWS:
                self._bound.clear()
            addresses = memoryview(pointers).cast("Q")
            arrays = [_view(at, *kind) for at, kind in zip(addresses, self._types, strict=True)]
            for x in arrays[self._results :]:
                x.flags.writeable = False
            found = self._bind(arrays[: self._results], arrays[self._results :])
            self._bound[pointers] = found
        return found


def _view(address: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    size_bytes = prod(shape) * dtype.itemsize
    if not size_bytes:
        return np.empty(shape, dtype)
    return np.ndarray(shape, dtype, (ctypes.c_char * size_bytes).from_address(address))


def _ask(sites: Sequence[_Site], failed: threading.local, number: int, pointers: int) -> None:
    """Run one call and write 1 into the word after its operands; 0 if it raised.

    The answer is a word in memory because the result of a ctypes function that was interrupted
    before its first line is whatever the register held.
    """
    if number < 0:  # The last call failed: without an error of its own, by an interrupt.
        failed.error = getattr(failed, "error", None) or KeyboardInterrupt()
        ctypes.memset(pointers, 1, 1)
        return
    site = sites[number]
    answer = pointers + site.pointer_bytes
    try:
        site.bound(ctypes.string_at(pointers, site.pointer_bytes))()
        ctypes.memset(answer, 1, 1)
    except BaseException as error:  # The caller raises it, of whatever class.
        ctypes.memset(answer, 0, 1)  # An interrupt may also come after the last line above.
        failed.error = error


class HostEntry:
    """The entry of one program, with functions in its slots.

    Attributes:
        address: of a C function (number of the call, addresses of its operands and a word), which
            makes the word 1 if the call succeeded.  The number -1 says that one did not.
    """

    def __init__(self, calls: Sequence[HostCall], functions: Sequence[Any] = ()) -> None:
        self._failed = threading.local()  # a thread that calls a program asks the host itself
        # The entry knows the functions, but not us: so they die with us, and not at a collection.
        sites = [_Site(call, functions) for call in calls]
        self._entry = _ENTRY(partial(_ask, sites, self._failed))
        self.address = ctypes.c_void_p.from_buffer(self._entry).value or 0

    def check(self) -> None:
        """Raise what a function raised in the last run on this thread, if one did."""
        error = getattr(self._failed, "error", None)
        if error is not None:
            del self._failed.error
            raise error

    def checked(self, entry: Callable[..., Any]) -> Callable[..., Any]:
        """An entry that raises what a function raised."""

        def enter(*arguments: Any) -> Any:
            result = entry(*arguments)
            self.check()
            return result

        return enter
