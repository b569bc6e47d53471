"""The controller of a cluster: what a step costs it, and a model for many hosts.

    python benchmarks/controller.py                     steps of two workers, K calls per dispatch
    python benchmarks/controller.py --agents 64         dispatches to as many agents as processes

A dispatch of K calls to N hosts is modelled as

    step(K, N) = call + (send + N * host) / K

microseconds of the controller: `call` to make a handle and the command of one call, `send` and
`host` to send a dispatch and take its answers.  The last two are processor time of the controller,
all of its threads, fitted to few agents.

Agents of the measurement answer at once, without workers.  A table compares the model with the
processor time of the controller for many more agents than the fit has seen.  The clock says more:
agents share the cores of this machine with the controller, and have hosts of their own elsewhere.
"""

from __future__ import annotations

import argparse
import secrets
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import tfn
from tfn import config
from tfn.distributed import wire
from tfn.sharding import NamedSharding
from tfn.sharding import PartitionSpec as P

CALLS = (1, 10, 100, 1000)
FITTED = 8
"""The largest number of agents to which the model is fitted."""
HOSTS = (8, 64, 256, 1024, 4096)


class Echo:
    """An agent that answers at once."""

    def exchange(self, message: bytes) -> bytes:
        """The answer of a worker that has done what it was told."""
        return wire.pack(("done", ()))

    def spent_s(self) -> float:
        """Processor time of this process, all of its threads."""
        return time.process_time()


class Dispatch(NamedTuple):
    """Microseconds of a dispatch, and of its answers.

    Attributes:
        clock: from the first message to the last answer.
        controller: processor time of this process.
        agent: processor time of an agent.
    """

    clock: float
    controller: float
    agent: float


def step_us() -> dict[int, float]:
    """Microseconds of a step through a controller of two workers, by calls per dispatch."""
    found = {}
    with tfn.distributed.connect("ray", hosts="a:CPU*1,b:CPU*1", deadline_s=60) as cluster:
        controller: Any = cluster.controller
        mesh = tfn.make_mesh((2,), ("d",))
        x = tfn.device_put(np.zeros(64, "float32"), NamedSharding(mesh, P("d")))
        step: Any = tfn.jit(lambda x: x + 1)
        for count in CALLS:
            controller.steps = count
            steps = max(200, 2 * count)
            times = []
            for _ in range(3):
                cluster.synchronize()
                begin = time.perf_counter()
                for _ in range(steps):
                    x = step(x)
                cluster.synchronize()
                times.append((time.perf_counter() - begin) / steps)
            found[count] = 1e6 * float(np.median(times))
        controller.steps = 1 << 30
        begin = time.perf_counter()
        for _ in range(1000):
            x = step(x)
        found[0] = (time.perf_counter() - begin) * 1e3  # of 1000 calls, in us each
        cluster.synchronize()
    return found


def dispatches(counts: Sequence[int], seconds: float = 1.5) -> dict[int, Dispatch]:
    """Dispatches to so many agents."""
    config.default_variables(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
    import ray

    ray.init(
        address="local",
        include_dashboard=False,
        logging_level="ERROR",
        log_to_driver=False,
        num_cpus=2,
    )
    try:
        actor = ray.remote(num_cpus=0)(Echo)
        message = wire.pack((("call", "0" * 64, (1,), (), None, (2,), None, "step", None, False),))
        agents: list[Any] = []
        send = lambda: ray.get([agent.exchange.remote(message) for agent in agents])
        spent = lambda: float(np.sum(ray.get([agent.spent_s.remote() for agent in agents])))
        found = {}
        for count in counts:
            agents.extend([actor.remote() for _ in range(count - len(agents))])
            for _ in range(20):
                send()
            agents_s, own_s, clocks = spent(), time.process_time(), []
            until = time.perf_counter() + seconds
            while time.perf_counter() < until:
                begin = time.perf_counter()
                send()
                clocks.append(time.perf_counter() - begin)
            own_s, agents_s = time.process_time() - own_s, spent() - agents_s
            times = len(clocks)
            found[count] = Dispatch(
                1e6 * float(np.median(clocks)), 1e6 * own_s / times, 1e6 * agents_s / times / count
            )
    finally:
        ray.shutdown()
    return found


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agents", type=int, default=64, help="the largest number of agents")
    options = parser.parse_args()
    steps = step_us()
    call = steps.pop(0)
    print(f"call: {call:.0f} us of the controller, without sending\n")
    print("calls per dispatch   us per step, two workers")
    for count, us in steps.items():
        print(f"{count:18}   {us:.0f}")
    counts = [2**i for i in range(options.agents.bit_length())]
    measured = dispatches(counts)
    few = [n for n in counts if n <= FITTED]
    host, send = np.polyfit(few, [measured[n].controller for n in few], 1)
    agent = float(np.mean([measured[n].agent for n in few]))
    print(
        f"\nsend {send:.0f} us, host {host:.0f} us, agent {agent:.0f} us: processor time, ", end=""
    )
    print(f"fitted to {FITTED} agents and fewer\n")
    print("agents   controller   model   difference   an agent   us by the clock")
    for n, row in measured.items():
        model = send + n * host
        print(
            f"{n:6}   {row.controller:10.0f}   {model:5.0f}   "
            f"{100 * (model / row.controller - 1):+8.0f} %   {row.agent:8.0f}   {row.clock:15.0f}"
        )
    print("\nhosts    us per step of the controller, by calls per dispatch")
    print("        " + "".join([f"{count:>12}" for count in CALLS]))
    for n in HOSTS:
        row_us = [call + (send + n * host) / count for count in CALLS]
        print(f"{n:5}   " + "".join([f"{us:12,.0f}" for us in row_us]))


if __name__ == "__main__":
    main()
