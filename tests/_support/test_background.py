"""Calls on threads of their own."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from tfn._support.background import Background


def test_results_and_errors() -> None:
    started = threading.Event()
    call = Background(started.wait)
    started.set()
    assert call.result() and call.result()
    with pytest.raises(ZeroDivisionError):
        Background(lambda: 1 // 0).result()


def test_the_caller_runs_it_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert Background(threading.get_ident).result() == threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        Background(lambda: 1 // 0).result()


def test_it_starts_when_the_main_thread_has_ended() -> None:
    script = """
import threading, time
from tfn._support.background import Background
def late():
    threading.main_thread().join()
    print(Background(lambda: "here").result())
threading.Thread(target=late).start()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "here\n", done.stderr
