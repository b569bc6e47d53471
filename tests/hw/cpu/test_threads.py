"""Worker threads through the life of a process: exit, fork, interrupts."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from tests.hw.cpu.test_queue import sums
from tests.hw.programs import summed
from tfn.config import config
from tfn.hw.cpu import thread_pool
from tfn.hw.cpu.device import cpu
from tfn.hw.cpu.threads import of_process, share

START = """
import os, signal, sys, threading, time
import numpy as np
from tests.hw.cpu.test_queue import sums
from tests.hw.programs import summed
from tfn.config import config
from tfn.hw.cpu.device import cpu

config.threads = 3
device = cpu()
run = device.load(summed(50))
x = np.ones(50 * 64, np.float32)
expected = sums(device, run, x)[0]
for _ in range(50):
    sums(device, run, x)
"""


def process(code: str) -> str:
    """What a fresh process prints; it must end well, in time, and say nothing else."""
    done = subprocess.run(
        [sys.executable, "-c", START + textwrap.dedent(code)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("wait", [0, 0.05], ids=["awake", "asleep"])
def test_a_process_ends_while_workers_wait(wait):
    assert process(f"time.sleep({wait}); print('end')") == "end\n"


def test_a_process_ends_while_another_thread_runs_programs():
    code = """
    def forever():
        while True:
            sums(device, run, x)

    threading.Thread(target=forever, daemon=True).start()
    time.sleep(0.05)
    print("end")
    """
    assert process(code) == "end\n"


def test_programs_run_after_the_workers_ended():
    code = """
    device.queue.threads.close()
    print(sums(device, run, x) == (expected, 1), threading.active_count())
    """
    assert process(code) == "True 1\n"


def test_programs_run_at_exit():
    code = """
    import atexit
    atexit.register(lambda: print(sums(device, run, x)[0] == expected))
    """
    assert process(code) == "True\n"


def test_a_child_has_workers_of_its_own():
    code = """
    import warnings
    warnings.simplefilter("ignore")  # that forking with threads is a risk is why this is tested
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            sums(device, run, x)

    other = threading.Thread(target=busy)
    other.start()  # so that the fork may happen in the middle of a program
    for _ in range(5):
        child = os.fork()
        if not child:
            counts, late = [], time.monotonic() + 50  # a busy machine may take its time
            while max((n for _, n in counts), default=0) < 2 and time.monotonic() < late:
                counts += [sums(device, run, x) for _ in range(300)]
            right = all(bits == expected for bits, _ in counts)
            again = device.load(summed(60))  # compiles, loads and runs something new
            right = right and sums(device, again, np.ones(60 * 64, np.float32))[0] != 0
            os._exit(0 if right and max(count for _, count in counts) > 1 else 1)
        print(os.waitpid(child, 0)[1], sums(device, run, x)[0] == expected)
    stop.set()
    other.join()
    """
    assert process(code) == "0 True\n" * 5


@pytest.mark.parametrize("lock", ["runtime", "llvmlite"])
def test_a_forked_child_compiles_while_another_thread_compiled(lock: str) -> None:
    """A lock that a thread holds while the process forks would stay locked in the child."""
    code = f"""
    import warnings
    from tfn.hw.compile.llvm import binding
    from tfn.hw.cpu import thread_pool
    warnings.simplefilter("ignore")
    inside, text = threading.Event(), thread_pool.text

    def slow_text():
        inside.set()
        time.sleep(0.3)
        return text()

    def slow_call():
        with binding().ffi.lib._lock:  # as while an object of LLVM dies
            inside.set()
            time.sleep(0.3)

    thread_pool.text, fresh = slow_text, cpu()
    work = (lambda: fresh.load(summed(70))) if {lock!r} == "runtime" else slow_call
    other = threading.Thread(target=work)
    other.start()
    inside.wait()
    child = os.fork()
    if not child:
        fresh.load(summed(60))
        os._exit(0)
    print(os.waitpid(child, 0)[1])
    other.join()
    """
    assert process(code) == "0\n"


def test_an_interrupt_comes_after_the_program():
    code = """
    big = device.load(summed(400_000))
    x = np.ones(400_000 * 64, np.float32)
    whole = sums(device, big, x)[0]
    main = threading.get_ident()
    interrupted = 0
    for i in range(10):
        timer = threading.Timer(0.01 + 0.001 * i, signal.pthread_kill, (main, signal.SIGINT))
        try:
            timer.start()
            while True:
                assert sums(device, big, x)[0] == whole
        except KeyboardInterrupt:
            interrupted += 1
        timer.join()
    config.threads = 2
    print(interrupted, sums(device, big, x)[0] == whole)
    """
    assert process(code) == "10 True\n"


def test_every_thread_keeps_ieee_arithmetic():
    """Libraries may make the calling thread flush denormal numbers; results stay the same."""
    code = """
    import ctypes
    from tfn.hw.cpu.target import host

    tiny = np.full(50 * 64, 1e-42, np.float32)
    if host().triple.startswith("x86_64"):
        text = '''
        declare void @llvm.x86.sse.ldmxcsr(ptr)
        define void @flush(ptr %p) {
          call void @llvm.x86.sse.ldmxcsr(ptr %p)
          ret void
        }'''
        loader = device.queue.loader
        code = loader.load(device.compiler.compile(text, host()), ("flush",))
        mode = ctypes.c_uint32(0x9FC0)  # flush to zero, denormals are zero
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.addresses["flush"])(ctypes.addressof(mode))
    bits, _ = sums(device, run, tiny)
    print(bits > 0)
    """
    assert process(code) == "True\n"


def test_as_many_threads_as_cores_by_default(monkeypatch):
    monkeypatch.setattr(config, "threads", 0)
    device = cpu()
    device.load(summed(3))
    pool = device.queue.threads
    assert of_process() == thread_pool.cores() >= 1
    assert (pool.pool() != 0) is (of_process() > 1)
    pool.close()
    assert pool.pool() == 0


def test_a_device_has_its_share_of_the_threads(monkeypatch):
    for threads, devices, shares in ((2, 2, [1, 1]), (5, 2, [3, 2]), (1, 3, [1, 1, 1])):
        monkeypatch.setattr(config, "threads", threads)
        monkeypatch.setattr(config, "devices", devices)
        assert [share(number) for number in range(devices)] == shares


def test_programs_of_one_device_run_on_its_threads(monkeypatch):
    monkeypatch.setattr(config, "threads", 6)
    monkeypatch.setattr(config, "devices", 2)
    device = cpu()
    run = device.load(summed(400))
    x = np.ones(400 * 64, np.float32)
    counts = {max(sums(device, run.on_share(number), x)[1] for _ in range(20)) for number in (0, 1)}
    assert max(counts) <= 3, "three of six threads"
    monkeypatch.setattr(config, "devices", 6)
    assert sums(device, run.on_share(5), x)[1] == 1
    assert sums(device, run.on_share(5), x)[0] == sums(device, run, x)[0], "the same bits"
