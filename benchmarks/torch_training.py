"""Training steps of networks of PyTorch: eager, compiled by Inductor, and compiled by tfn.

    python benchmarks/torch_training.py                      times of steps, in turns
    python benchmarks/torch_training.py --losses             50 losses beside eager's and float64's
    python benchmarks/torch_training.py --first              seconds to the first step, empty caches
    python benchmarks/torch_training.py --calls              microseconds of a tiny compiled call
    python benchmarks/torch_training.py --only gpt,vit --kinds eager,tfn

A step is forward, loss, backward and SGD with momentum; the loss is compiled with the network, the
optimizer is PyTorch's.  Each time is the least of many, by the processor's clock for one thread;
kinds take turns.  Inductor needs a C++ compiler.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import torch
from torch_networks import NETWORKS, made

KINDS = ("eager", "inductor", "tfn")
OTHERS = ("plain", "threads", "double", "tfn")
"""Ways to train whose losses are held against those of PyTorch with oneDNN on one thread."""
CALLS = 100
"""Calls in a row of a tiny function."""


def run_of(kind: str, module: Any) -> Any:
    """A module or function, compiled if a kind does so."""
    return module if kind == "eager" else torch.compile(module, backend=kind)


def stepper(kind: str, module: Any, inputs: Sequence[Any], rate: float) -> Callable[[], float]:
    """A function of nothing that trains a step and returns the loss."""
    run = run_of(kind, module)
    optimizer = torch.optim.SGD(module.parameters(), rate, momentum=0.9)

    def step() -> float:
        optimizer.zero_grad()
        loss = run(*inputs)
        loss.backward()
        optimizer.step()
        return float(loss)

    return step


def steppers(name: str, kinds: Sequence[str], rate: float) -> dict[str, Callable[[], float]]:
    """Steps of a network by kind, each of weights of its own."""
    module, inputs = made(name)
    return {kind: stepper(kind, copy.deepcopy(module), inputs, rate) for kind in kinds}


def timed(steps: dict[str, Callable[[], float]], seconds: float) -> dict[str, float]:
    """The least processor time of a step, by kind; kinds take turns."""
    least = dict.fromkeys(steps, float("inf"))
    end = time.perf_counter() + seconds * len(steps)
    while time.perf_counter() < end:
        for kind, step in steps.items():
            start = time.thread_time()
            step()
            least[kind] = min(least[kind], time.thread_time() - start)
    return least


def losses(name: str, kinds: Sequence[str], rate: float, steps: int) -> dict[str, list[float]]:
    """Losses of training by kind; `double` is eager's in float64, `threads` and `plain` are other
    orders of PyTorch's own sums: two threads, and without oneDNN."""
    module, inputs = made(name)
    found = {}
    for kind in kinds:
        torch._dynamo.reset()
        own, given = copy.deepcopy(module), list(inputs)
        if kind == "double":
            own = own.double()
            given = [x.double() if x.is_floating_point() else x for x in inputs]
        torch.set_num_threads(2 if kind == "threads" else 1)
        with torch.backends.mkldnn.flags(enabled=kind != "plain"):
            compiler = kind if kind in KINDS else "eager"
            step = stepper(compiler, own, given, rate)
            found[kind] = [step() for _ in range(steps)]
        torch.set_num_threads(1)
    return found


def first(name: str, kind: str) -> dict[str, float]:
    """Seconds of a process to the end of the first step with empty caches, by both clocks."""
    with tempfile.TemporaryDirectory() as folder:
        caches = {
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            "TORCHINDUCTOR_CACHE_DIR": folder,
            "XDG_CACHE_HOME": folder,
            "TFN_CACHE_DIR": folder,
        }
        command = [sys.executable, __file__, "--child", name, "--kinds", kind]
        done = subprocess.run(
            command, env=os.environ | caches, stdout=subprocess.PIPE, text=True, check=True
        )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def child(name: str, kind: str) -> None:
    """One step in this process, and its seconds, printed."""
    torch.set_num_threads(1)
    (step,) = steppers(name, (kind,), 0.01).values()
    wall, cpu = time.perf_counter(), sum(os.times()[:4])
    step()
    print(json.dumps({"wall": time.perf_counter() - wall, "cpu": sum(os.times()[:4]) - cpu}))


def repeated(run: Any, x: Any) -> None:
    """A call many times, so that the clock is no part of it."""
    for _ in range(CALLS):
        run(x)


def tiny(kinds: Sequence[str], seconds: float) -> dict[str, float]:
    """Seconds of a compiled call on 8 numbers, by kind."""
    x = torch.ones(8)
    calls: dict[str, Callable[[], Any]] = {}
    for kind in kinds:
        run = run_of(kind, lambda x: torch.sin(x) * 2 + 1)
        calls[kind] = partial(repeated, run, x)
        with torch.no_grad():
            calls[kind]()
    with torch.no_grad():
        return {kind: least / CALLS for kind, least in timed(calls, seconds).items()}


def mean(ratios: Sequence[float]) -> float:
    """The geometric mean."""
    return prod(ratios) ** (1 / max(len(ratios), 1))


def table(names: Sequence[str], kinds: Sequence[str], seconds: float, rate: float) -> None:
    """Print times of steps in milliseconds, and what the last kind takes of each other."""
    last, ratios = kinds[-1], dict[str, list[float]]()
    for name in names:
        steps = steppers(name, kinds, rate)
        for step in steps.values():
            step()
            step()
        found = timed(steps, seconds)
        for kind in kinds[:-1]:
            ratios.setdefault(kind, []).append(found[last] / found[kind])
        parts = [f"{kind} {found[kind] * 1e3:7.2f} ms" for kind in kinds]
        parts += [f"{last}/{kind} {ratios[kind][-1]:.2f}" for kind in kinds[:-1]]
        print(f"{name:13}", *parts, sep="  ", flush=True)
        torch._dynamo.reset()
    for kind, found_ratios in ratios.items():
        print(f"geometric mean of {last}/{kind}: {mean(found_ratios):.2f}")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what the options ask for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", default=",".join(NETWORKS), help="networks, with commas between")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--seconds", type=float, default=4.0, help="for each kind of each network")
    parser.add_argument("--rate", type=float, default=0.01, help="of learning")
    parser.add_argument("--losses", action="store_true")
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--calls", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    names, kinds = options.only.split(","), options.kinds.split(",")
    torch.set_num_threads(1)
    if options.child:
        child(options.child, kinds[0])
    elif options.calls:
        for kind, seconds in tiny(kinds, options.seconds).items():
            print(f"{kind:9} {seconds * 1e6:.1f} us")
    elif options.first:
        for name in names:
            for kind in kinds:
                found = first(name, kind)
                print(f"{name:13} {kind:9} {found['wall']:.1f} s, {found['cpu']:.1f} s of CPU")
    elif options.losses:
        for name in names:
            curves = losses(name, ("eager", *OTHERS), options.rate, 50)
            for kind in OTHERS:
                apart = max(abs(a - b) for a, b in zip(curves[kind], curves["eager"], strict=True))
                print(f"{name:13} {kind:8} apart from eager by {apart:.1e}", flush=True)
    else:
        table(names, kinds, options.seconds, options.rate)
    return 0


if __name__ == "__main__":
    sys.exit(main())
