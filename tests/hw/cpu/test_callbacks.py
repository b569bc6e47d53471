"""Host callbacks: results, errors, lifetime of the entry."""

from __future__ import annotations

import ctypes
import gc
import threading
import weakref

import numpy as np
import pytest

from tfn.dtypes import FLOAT32
from tfn.hw.cpu.callbacks import _ENTRY, MAX_BINDINGS, HostEntry
from tfn.lower.program import HostCall
from tfn.trace.argument import Host, VmapMethod

KIND = ((3,), FLOAT32)


def entry(run):
    call = HostCall(Host(run, (KIND,), VmapMethod.REFUSE), (), (KIND, KIND), False)
    made = HostEntry([call])
    function = _ENTRY(made.address)

    def ask(number, *arrays):
        words = (ctypes.c_uint64 * (len(arrays) + 1))(*[x.ctypes.data for x in arrays])
        function(number, words)
        return words[len(arrays)]

    return made, ask


def double(results, operands):
    np.multiply(operands[0], 2, out=results[0])


def test_results_are_written_in_place():
    made, ask = entry(double)
    for i in range(2 * MAX_BINDINGS):  # more places than are kept
        x, y = np.full(3, i, np.float32), np.zeros(3, np.float32)
        assert ask(0, y, x) == 1
        assert y.tolist() == [2 * i] * 3
    made.check()


def test_an_entry_is_freed_by_reference_counting():
    """Its functions may hold arrays."""
    made, ask = entry(double)
    sites = weakref.ref(made)
    gc.disable()
    try:
        del made, ask
        assert sites() is None
    finally:
        gc.enable()


def test_a_failure_is_raised_once_and_in_its_thread():
    def bad(results, operands):
        raise ValueError(threading.get_ident())

    made, ask = entry(bad)
    x = np.zeros(3, np.float32)
    thread = threading.Thread(target=ask, args=(0, x, x))
    thread.start()
    thread.join()
    made.check()
    assert ask(0, x, x) == 0
    with pytest.raises(ValueError, match=str(threading.get_ident())):
        made.check()
    made.check()


def test_a_failure_without_a_reason_is_an_interrupt():
    made, ask = entry(double)
    assert ask(-1) == 1
    with pytest.raises(KeyboardInterrupt):
        made.check()
    made.check()
