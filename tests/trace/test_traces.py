"""Traces that run: by thread, until the function returns or fails."""

from __future__ import annotations

import threading

import pytest

from tfn.trace.traces import running, tracing


def test_traces_are_counted_by_thread():
    with tracing("f") as trace:
        assert running() == [trace]
        seen = []
        thread = threading.Thread(target=lambda: seen.append(list(running())))
        thread.start()
        thread.join()
        assert seen == [[]]
    assert running() == []


def test_a_trace_ends_even_if_the_function_fails():
    with pytest.raises(RuntimeError, match="stop"), tracing("f") as trace:
        raise RuntimeError("stop")
    assert not trace.live
    assert running() == []
