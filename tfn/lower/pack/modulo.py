"""Modulo schedules: one iteration begins every II cycles, the initiation interval.

    II >= what the most used units take            (by resources)
    II >= cycles around a circle of dependences / iterations around it     (by recurrences)

    cycle   0       1       2       3       4
    load    i       .       i + 1   .       i + 2        II = 2: in each pair of cycles one load,
    add     .       .       .       i       .            one add of the iteration before

The heuristic is iterative modulo scheduling: instructions by their height, each at the first free
cycle, evicting others where none is.

Source: B. R. Rau 1994, "Iterative modulo scheduling: an algorithm for software pipelining loops";
for the bound by resources, Hall's theorem.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from math import ceil

from tfn.extend import frozen
from tfn.lower.pack.dependences import Edge, edges
from tfn.lower.pack.instructions import Loop
from tfn.lower.pack.machine import Group, Machine

MAX_EVICTIONS_PER_INSTRUCTION = 12
"""Attempts to place each instruction, on average, before the next longer interval is tried."""


@frozen
class Schedule:
    """The cycles of instructions.

    Attributes:
        interval: cycles from one iteration to the next.
        cycles: when each instruction of the loop begins, in the first iteration.
        units: what each takes.
        bound: an interval below which there is no schedule.
        proof: how the bound is known: "resources", "recurrence" or "z3"; with a lower bound than
            the interval, "deadline".
        live: registers of each file that are in use at once, at the most.
    """

    interval: int
    cycles: tuple[int, ...]
    units: tuple[tuple[str, ...], ...]
    bound: int
    proof: str
    live: dict[str, int]

    @property
    def is_minimal(self) -> bool:
        """Whether no schedule is shorter."""
        return self.interval == self.bound


def requirements(loop: Loop, machine: Machine) -> list[tuple[Group, ...]]:
    """For each instruction the groups of which it takes an option, extenders included."""
    extender = machine.kinds["extender"].groups if "extender" in machine.kinds else ()
    return [machine.kinds[item.kind].groups + extender * item.extenders for item in loop.body]


def subsets(needs: Sequence[tuple[Group, ...]]) -> list[frozenset[str]]:
    """Sets of units that bound a schedule: unions of the sets that groups may be taken from."""
    ranges = {frozenset(u for option in group for u in option) for need in needs for group in need}
    unions = set(ranges)
    for size in (2, 3):
        for several in combinations(ranges, size):
            unions.add(frozenset().union(*several))
    return sorted(unions, key=lambda units: (len(units), sorted(units)))


def demand(need: tuple[Group, ...], units: frozenset[str]) -> int:
    """The least number of a set's units that an instruction takes, whatever its options."""
    return sum(min(sum(u in units for u in option) for option in group) for group in need)


def resource_bound(loop: Loop, machine: Machine) -> int:
    """The interval that units need."""
    needs = requirements(loop, machine)
    return max(
        (ceil(sum(demand(n, units) for n in needs) / len(units)) for units in subsets(needs)),
        default=1,
    )


def recurrence_bound(count: int, waits: Sequence[Edge]) -> int:
    """The interval that circles of dependences need."""
    low, high = 1, max(sum(e.latency for e in waits), 1)
    while low < high:
        middle = (low + high) // 2
        if heights(count, waits, middle) is None:
            low = middle + 1
        else:
            high = middle
    return low


def heights(count: int, waits: Sequence[Edge], interval: int) -> list[int] | None:
    """For each instruction the cycles from it to the end; None if some circle takes longer."""
    out = [0] * count
    # A pass follows all edges to later instructions, so a path takes one for each of the others.
    order = sorted(waits, key=lambda e: -e.producer)
    back = {e.producer for e in waits if e.consumer <= e.producer}
    for _ in range(len(back) + 2):
        changed = False
        for e in order:
            length = out[e.consumer] + e.latency - interval * e.distance
            if length > out[e.producer]:
                out[e.producer], changed = length, True
        if not changed:
            return out
    return None


def assign(needs: Sequence[tuple[Group, ...]]) -> list[tuple[str, ...]] | None:
    """Units for instructions of one cycle, none taken twice; None if there are not enough."""
    order = sorted(range(len(needs)), key=lambda i: _freedom(needs[i]))
    chosen: dict[int, tuple[str, ...]] = {}
    # The rest either has units beside those taken or not, however these are shared.
    failed: set[tuple[int, frozenset[str]]] = set()

    def place(position: int, taken: frozenset[str]) -> bool:
        if position == len(order):
            return True
        if (position, taken) in failed:
            return False
        i = order[position]
        for options in product(*needs[i]):
            units = tuple(u for option in options for u in option)
            if len(set(units)) == len(units) and not taken.intersection(units):
                chosen[i] = units
                if place(position + 1, taken.union(units)):
                    return True
        failed.add((position, taken))
        return False

    return [chosen[i] for i in range(len(needs))] if place(0, frozenset()) else None


def _freedom(need: tuple[Group, ...]) -> int:
    total = 1
    for group in need:
        total *= len(group)
    return total


def heuristic(loop: Loop, machine: Machine, interval: int) -> tuple[int, ...] | None:
    """Cycles of instructions for an interval, by iterative modulo scheduling, or None."""
    waits, needs = edges(loop, machine), requirements(loop, machine)
    count = len(loop.body)
    height = heights(count, waits, interval)
    if height is None:
        return None
    incoming: list[list[Edge]] = [[] for _ in range(count)]
    outgoing: list[list[Edge]] = [[] for _ in range(count)]
    for e in waits:
        incoming[e.consumer].append(e)
        outgoing[e.producer].append(e)
    at: dict[int, int] = {}
    rows: list[list[int]] = [[] for _ in range(interval)]
    tried = [-1] * count
    waiting = set(range(count))
    for _ in range(MAX_EVICTIONS_PER_INSTRUCTION * count):
        if not waiting:
            return _shortened(at, interval, needs, incoming, outgoing)
        i = max(waiting, key=lambda k: (height[k], -k))
        waiting.discard(i)
        earliest = max(
            (
                at[e.producer] + e.latency - interval * e.distance
                for e in incoming[i]
                if e.producer in at and e.producer != i
            ),
            default=0,
        )
        cycle = next(
            (
                t
                for t in range(earliest, earliest + interval)
                if assign([needs[k] for k in (*rows[t % interval], i)]) is not None
            ),
            None,
        )
        if cycle is None:
            cycle = max(earliest, tried[i] + 1)
            row = rows[cycle % interval]
            while assign([needs[k] for k in (*row, i)]) is None:
                shared = max(
                    row,
                    key=lambda k: (
                        sum(demand(needs[k], frozenset(u for o in g for u in o)) for g in needs[i]),
                        -height[k],
                    ),
                )
                row.remove(shared)
                del at[shared]
                waiting.add(shared)
        tried[i] = cycle
        at[i] = cycle
        rows[cycle % interval].append(i)
        for e in outgoing[i]:
            k = e.consumer
            if k in at and k != i and at[k] < cycle + e.latency - interval * e.distance:
                rows[at.pop(k) % interval].remove(k)
                waiting.add(k)
    return None


def _shortened(
    at: dict[int, int],
    interval: int,
    needs: Sequence[tuple[Group, ...]],
    incoming: Sequence[Sequence[Edge]],
    outgoing: Sequence[Sequence[Edge]],
) -> tuple[int, ...]:
    """The schedule with instructions as late as those that read their results allow.

    An instruction moves if it does not lengthen more lifetimes than it shortens.
    """
    for i in sorted(at, key=lambda k: -at[k]):
        results = {e.register for e in outgoing[i] if e.register}
        operands = {(e.producer, e.register) for e in incoming[i] if e.register and e.producer != i}
        # An operand that others read later is alive anyway.
        last = sum(
            all(
                at[e.consumer] + interval * e.distance <= at[i]
                for e in outgoing[p]
                if e.register == register
            )
            for p, register in operands
        )
        others = [e for e in outgoing[i] if e.consumer != i]
        if not others or last > len(results):
            continue
        latest = min(at[e.consumer] + interval * e.distance - e.latency for e in others)
        for t in range(latest, at[i], -1):
            row = [k for k in at if k != i and at[k] % interval == t % interval]
            if assign([needs[k] for k in (*row, i)]) is not None:
                at[i] = t
                break
    first = min(at.values())
    first -= first % interval
    return tuple(at[i] - first for i in range(len(at)))


def crowded(needs: Sequence[tuple[Group, ...]], cycles: Sequence[int], interval: int) -> list[int]:
    """Instructions of a row whose units are not there for all; empty if there is none."""
    for m in range(interval):
        row = [i for i, t in enumerate(cycles) if t % interval == m]
        if assign([needs[i] for i in row]) is None:
            return row
    return []


def units_of(
    loop: Loop, machine: Machine, interval: int, cycles: Sequence[int]
) -> tuple[tuple[str, ...], ...]:
    """The units of each instruction of a schedule."""
    needs = requirements(loop, machine)
    out: dict[int, tuple[str, ...]] = {}
    for row in range(interval):
        members = [i for i, t in enumerate(cycles) if t % interval == row]
        assigned = assign([needs[i] for i in members])
        assert assigned is not None, "a row of a schedule has units for all"
        out.update(zip(members, assigned, strict=True))
    return tuple(out[i] for i in range(len(loop.body)))


def lifetimes(loop: Loop, machine: Machine) -> dict[tuple[int, str], list[Edge]]:
    """For each value that a register holds, its uses."""
    uses: dict[tuple[int, str], list[Edge]] = {}
    for e in edges(loop, machine):
        if e.register:
            uses.setdefault((e.producer, e.register), []).append(e)
    return uses


def invariants(loop: Loop) -> set[str]:
    """Registers that a loop reads and does not write."""
    written = {register for item in loop.body for register in item.writes}
    return {register for item in loop.body for register in item.reads} - written


def pressure(loop: Loop, machine: Machine, interval: int, cycles: Sequence[int]) -> dict[str, int]:
    """Registers of each file that are in use in some cycle, at the most."""
    live = {file: [0] * interval for file in machine.registers}
    for register in invariants(loop):
        if register[0] in live:
            live[register[0]] = [n + 1 for n in live[register[0]]]
    for (producer, register), uses in lifetimes(loop, machine).items():
        if register[0] not in live:
            continue
        end = max(cycles[e.consumer] + interval * e.distance for e in uses)
        for cycle in range(cycles[producer], max(end, cycles[producer] + 1)):
            live[register[0]][cycle % interval] += 1
    return {file: max(rows) for file, rows in live.items()}


def fits(live: dict[str, int], machine: Machine) -> bool:
    """Whether there are as many registers."""
    return all(count <= machine.registers[file] for file, count in live.items())


def emitted(loop: Loop, machine: Machine) -> tuple[int, tuple[int, ...]]:
    """LLVM's order on a processor that runs packets in order, waiting for operands.

    Returns:
        The cycles of an iteration once it has settled, and when each instruction begins.
    """
    incoming: dict[int, list[Edge]] = {}
    for e in edges(loop, machine):
        incoming.setdefault(e.consumer, []).append(e)
    before: dict[int, int] = {}
    starts = [0]
    while len(starts) < 3 or starts[-1] - starts[-2] != starts[-2] - starts[-3]:
        now: dict[int, int] = {}
        cycle = starts[-1] - 1
        for packet in range(loop.packets):
            members = [i for i, item in enumerate(loop.body) if item.packet == packet]
            ready = [
                source[e.producer] + e.latency
                for i in members
                for e in incoming.get(i, ())
                if e.producer in (source := before if e.distance else now)
            ]
            cycle = max([cycle + 1, *ready])
            now.update(dict.fromkeys(members, cycle))
        before = now
        starts.append(cycle + 1)
    first = starts[-2]
    cycles = [before[i] - first for i in range(len(loop.body))]
    return starts[-1] - starts[-2], tuple(cycles)


def emitted_cycles(loop: Loop, machine: Machine) -> int:
    """Cycles of an iteration in LLVM's order."""
    return emitted(loop, machine)[0]
