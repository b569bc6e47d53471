"""Fork-safe sections: a fork and the end of the process wait for them, with a limit."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from pathlib import Path

from tfn._support.sections import cached_property, section

START = """
import os, threading, time, warnings
warnings.simplefilter("ignore")  # that forking with threads is a risk is why this is tested
from tfn import tree
from tfn._support import sections
from tfn._support.sections import section

def forked(check):
    child = os.fork()
    if not child:
        check()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


def process(code: str) -> str:
    """What a fresh process prints; it must end well, in time, and say nothing else."""
    done = subprocess.run(
        [sys.executable, "-c", START + textwrap.dedent(code)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout


def test_threads_do_not_wait_for_each_other() -> None:
    with section(), section():
        seen = []
        other = threading.Thread(target=lambda: seen.append(section().acquire(timeout=5)))
        other.start()
        other.join()
    assert seen == [True]


def test_a_fork_waits_for_sections() -> None:
    code = """
    inside, left = threading.Event(), []

    def other():
        with section():
            inside.set()
            time.sleep(0.2)
            left.append(True)

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait()

    def check():
        assert left
        with section():
            pass
        threading.Thread(target=other).start()

    forked(check)
    thread.join()
    with section():
        print("end")
    """
    assert process(code) == "end\n"


def test_a_fork_waits_no_longer_than_its_patience() -> None:
    code = """
    sections.FORK_PATIENCE_SECONDS = 0.05
    inside, leave = threading.Event(), threading.Event()

    def other():
        with section():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait()
    for _ in range(2):
        forked(lambda: forked(lambda: section().acquire()))
    leave.set()
    thread.join()
    print("end")
    """
    assert process(code) == "end\n"


TREES = """
from collections import namedtuple
Pair = namedtuple("Pair", "a b")
x = {"a": [1, 2, 3], "b": (4, Pair(1, {"c": 5}))}

def work():
    while True:
        leaves, structure = tree.flatten(x)
        tree.show(structure), tree.unflatten(structure, leaves), tree.paths(x)
        tree.map(abs, x), tree.flatten_up_to(structure, x)

for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.05)
"""


def test_a_process_ends_while_threads_flatten_trees() -> None:
    """optree is C++: a thread that the interpreter ends in there aborts the process."""
    assert process(TREES + "print('end')") == "end\n"


def test_a_child_registers_classes_whatever_other_threads_did() -> None:
    code = """
    class Fixed: ...

    def check():
        tree.register_static(Fixed)
        assert tree.leaves(Fixed()) == []

    for _ in range(20):
        forked(check)
        time.sleep(0.002)
    print("end")
    """
    assert process(TREES + textwrap.dedent(code)) == "end\n"


class Slow:
    """A value that waits for an event."""

    def __init__(self, event: threading.Event) -> None:
        self.event = event

    @cached_property
    def value(self) -> bool:
        """Whether the event came."""
        return self.event.wait(5)


def test_a_cached_property_has_no_lock_for_all_objects() -> None:
    late, early = Slow(threading.Event()), Slow(threading.Event())
    early.event.set()
    other = threading.Thread(target=lambda: late.value)
    other.start()
    assert early.value
    late.event.set()
    other.join()
    assert late.value and vars(late)["value"] is True
    assert Slow.value.__doc__ == "Whether the event came."
