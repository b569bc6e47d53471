"""The shortest initiation interval of a loop: lower bounds, a heuristic, and z3 between them.

    heuristic at the lower bound      minimal, and no solver was asked
    z3: no schedule at II - 1         minimal
    the deadline is over              the best so far, and the bound that was reached

In the conditions, each instruction has begun by cycle t or not, so that a dependence is a clause of
two literals; units are counted by Hall's condition: of each set of units, no row takes more than
there are; and so are the values alive in each row.

Source: A. E. Eichenberger and E. S. Davidson 1997, "Efficient formulation for optimal modulo
schedulers", for the formulation by rows and stages; N. Tamura et al.
2009, "Compiling finite linear CSP into SAT", for the order encoding.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from tfn.lower.index import solver
from tfn.lower.pack import modulo
from tfn.lower.pack.dependences import Edge, edges
from tfn.lower.pack.instructions import Loop
from tfn.lower.pack.machine import Machine
from tfn.lower.pack.modulo import Schedule

DEADLINE_SECONDS = 10.0
"""For one loop: a proof for 30 instructions takes a second, one for 200 may take for ever."""

MAX_INSTRUCTIONS = 300
"""Instructions of the longest loop that is scheduled: more take the heuristic half a minute."""

MAX_LITERALS = 8_000
"""Instructions times cycles of a problem for z3: to write down one of 8,000 takes some seconds."""

MAX_STAGES = 10
"""Iterations that run side by side, at the most: code before and after the loop grows with them."""


def schedule(
    loop: Loop, machine: Machine, deadline_seconds: float = DEADLINE_SECONDS
) -> Schedule | None:
    """The shortest schedule of a loop that was found before the deadline.

    Without z3 it is that of the heuristic.

    Returns:
        None if the loop has an instruction that no row describes, or too many, or none was found.
    """
    if loop.unknown or not 0 < len(loop.body) <= MAX_INSTRUCTIONS:
        return None
    end = time.monotonic() + deadline_seconds
    waits = edges(loop, machine)
    by_units = modulo.resource_bound(loop, machine)
    by_circles = modulo.recurrence_bound(len(loop.body), waits)
    bound = max(by_units, by_circles)
    proof = "resources" if by_units >= by_circles else "recurrence"
    found = _emitted(loop, machine)
    longest = found[0] if found else 2 * bound + len(loop.body)
    for interval in range(bound, longest):
        cycles = modulo.heuristic(loop, machine, interval)
        if cycles and modulo.fits(modulo.pressure(loop, machine, interval, cycles), machine):
            found = interval, cycles
            break
        if time.monotonic() > end:
            break
    if solver.installed():
        for interval in range(bound, found[0] if found else longest):
            if time.monotonic() > end:
                break
            answer = solve(loop, machine, interval, end)
            if answer == "none" and bound == interval:
                bound, proof = interval + 1, "z3"
            elif isinstance(answer, tuple):
                found = interval, answer
                break
    if found is None:
        return None
    interval, cycles = found
    return Schedule(
        interval,
        cycles,
        modulo.units_of(loop, machine, interval, cycles),
        bound,
        proof if bound == interval else "deadline",
        modulo.pressure(loop, machine, interval, cycles),
    )


def _emitted(loop: Loop, machine: Machine) -> tuple[int, tuple[int, ...]] | None:
    """LLVM's own order as a schedule, on a processor that runs packets in order."""
    if not machine.in_order:
        return None
    interval, cycles = modulo.emitted(loop, machine)
    rows: dict[int, list[int]] = {}
    for i, cycle in enumerate(cycles):
        rows.setdefault(cycle % interval, []).append(i)
    needs = modulo.requirements(loop, machine)
    placed = all(modulo.assign([needs[i] for i in row]) is not None for row in rows.values())
    return (interval, cycles) if placed else None


def solve(loop: Loop, machine: Machine, interval: int, end: float) -> tuple[int, ...] | str:
    """A schedule of an interval; "none" if there is provably none, "unknown" otherwise.

    Args:
        loop, machine: what is scheduled, and for what.
        interval: cycles from one iteration to the next.
        end: the time, by `time.monotonic`, at which the solver stops.
    """
    waits = edges(loop, machine)
    stages = _stages(len(loop.body), waits, interval)
    if len(loop.body) * interval * min(stages, MAX_STAGES) > MAX_LITERALS:
        return "unknown"
    problem = _Problem(loop, machine, interval, min(stages, MAX_STAGES))
    verdict = problem.check(end)
    if isinstance(verdict, str):
        return "none" if verdict == "none" and stages <= MAX_STAGES else "unknown"
    if modulo.fits(modulo.pressure(loop, machine, interval, verdict), machine):
        return verdict
    problem.limit_registers()
    verdict = problem.check(end)
    # A schedule of more stages may need fewer registers, so no answer is no proof.
    return verdict if isinstance(verdict, tuple) else "unknown"


def _stages(count: int, waits: Sequence[Edge], interval: int) -> int:
    """Stages that a schedule without limits on registers can do with, whatever its rows.

    For given rows, stages are the longest paths over dependences, each at its worst.
    """
    depth = [0] * count
    for _ in range(count + 1):
        changed = False
        for e in waits:
            most = -(-(e.latency - interval * e.distance + interval - 1) // interval)
            if e.producer != e.consumer and depth[e.producer] + most > depth[e.consumer]:
                depth[e.consumer], changed = depth[e.producer] + most, True
        if not changed:
            return max(depth) + 1
    return MAX_STAGES + 1


class _Problem:
    """The conditions on a schedule of an interval, with a number of stages, for z3."""

    def __init__(self, loop: Loop, machine: Machine, interval: int, stages: int) -> None:
        self.loop, self.machine, self.interval = loop, machine, interval
        self.z3 = z3 = solver.load()
        self.count, self.horizon = len(loop.body), interval * stages
        self.solver = z3.SolverFor("QF_FD")
        self.begun = [
            [z3.Bool(f"b{i}_{t}") for t in range(self.horizon - 1)] for i in range(self.count)
        ]
        self.rows = [[z3.Bool(f"r{i}_{m}") for m in range(interval)] for i in range(self.count)]
        for i in range(self.count):
            for one, two in pairwise(self.begun[i]):
                self.solver.add(z3.Implies(one, two))
            self.solver.add(z3.PbEq([(row, 1) for row in self.rows[i]], 1))
            for t in range(self.horizon):
                begins = z3.And(self.by(i, t), z3.Not(self.by(i, t - 1)))
                self.solver.add(z3.Implies(begins, self.rows[i][t % interval]))
        for e in edges(loop, machine):
            delay = e.latency - interval * e.distance
            for t in range(self.horizon):
                self.solver.add(z3.Implies(self.by(e.consumer, t), self.by(e.producer, t - delay)))
        self._limit_units()

    def by(self, i: int, t: int) -> Any:
        """Whether an instruction has begun by a cycle."""
        if t < 0:
            return self.z3.BoolVal(False)
        return self.begun[i][t] if t < self.horizon - 1 else self.z3.BoolVal(True)

    def check(self, end: float) -> tuple[int, ...] | str:
        """The cycles of instructions, "none" if there are none, or "unknown" at the end."""
        z3 = self.z3
        needs = modulo.requirements(self.loop, self.machine)
        while True:
            left_ms = int(1000 * (end - time.monotonic()))
            if left_ms <= 0:
                return "unknown"
            self.solver.set("timeout", left_ms)
            verdict = self.solver.check()
            if verdict != z3.sat:
                return "none" if verdict == z3.unsat else "unknown"
            model = self.solver.model()
            cycles = tuple(
                sum(not z3.is_true(model.eval(b, model_completion=True)) for b in begun)
                for begun in self.begun
            )
            row = modulo.crowded(needs, cycles, self.interval)
            if not row:
                return cycles
            # Pairs of units are counted, but may not be there side by side.
            m = cycles[row[0]] % self.interval
            self.solver.add(z3.Or([z3.Not(self.rows[i][m]) for i in row]))

    def _limit_units(self) -> None:
        needs = modulo.requirements(self.loop, self.machine)
        for units in modulo.subsets(needs):
            weights = [modulo.demand(need, units) for need in needs]
            members = [i for i, weight in enumerate(weights) if weight]
            if sum(weights) > len(units):
                for m in range(self.interval):
                    terms = [(self.rows[i][m], weights[i]) for i in members]
                    self.solver.add(self.z3.PbLe(terms, len(units)))

    def limit_registers(self) -> None:
        """In each row no more values are alive than there are registers."""
        z3, kept = self.z3, modulo.invariants(self.loop)
        alive: dict[tuple[str, int], list[Any]] = {}
        for (producer, register), uses in modulo.lifetimes(self.loop, self.machine).items():
            if register[0] not in self.machine.registers:
                continue
            last = self.horizon + self.interval * max(e.distance for e in uses)
            for t in range(last):
                waiting = [
                    z3.Not(self.by(e.consumer, t - self.interval * e.distance)) for e in uses
                ]
                begins = z3.Not(self.by(producer, t - 1))
                value = z3.Bool(f"a{producer}_{register}_{t}")
                self.solver.add(
                    z3.Implies(z3.And(self.by(producer, t), z3.Or(begins, *waiting)), value)
                )
                alive.setdefault((register[0], t % self.interval), []).append(value)
        for (file, _), values in alive.items():
            free = self.machine.registers[file] - sum(register[0] == file for register in kept)
            self.solver.add(z3.PbLe([(value, 1) for value in values], free))
