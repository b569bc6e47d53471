"""Dependences of a loop: which instruction waits for which, by cycles and by iterations.

    v1 += v3 * v2      waits for itself: 1 iteration, a cycle
    r6 = r6 + 128      waits for itself: 1 iteration, a cycle
    v3 = vmem(r6)      waits for the addition of the iteration before

Registers are renamed for each iteration, so that only values count, not the names that LLVM gave
them; how many are alive is counted by `modulo.pressure`.  Accesses of one array keep their order;
others are independent: a kernel writes no array that it reads at another element.
"""

from __future__ import annotations

from typing import NamedTuple

from tfn.lower.pack.instructions import Loop
from tfn.lower.pack.machine import Machine


class Edge(NamedTuple):
    """A `consumer` begins `latency` cycles after its `producer` of `distance` iterations before.

    Attributes:
        register: that holds the value; "" for an access of memory.
    """

    producer: int
    consumer: int
    latency: int
    distance: int
    register: str


def edges(loop: Loop, machine: Machine) -> list[Edge]:
    """All dependences of a loop."""
    return [*_of_registers(loop, machine), *_of_memory(loop)]


def _of_registers(loop: Loop, machine: Machine) -> list[Edge]:
    out: list[Edge] = []
    last = {register: i for i, item in enumerate(loop.body) for register in item.writes}
    written: dict[str, int] = {}
    begin = 0
    while begin < len(loop.body):
        end = begin
        while end < len(loop.body) and loop.body[end].packet == loop.body[begin].packet:
            end += 1
        packet = range(begin, end)
        inside = {register: i for i in packet for register in loop.body[i].writes}
        for i in packet:
            item = loop.body[i]
            for register in item.reads:
                if register in item.within and inside.get(register, i) != i:
                    out.append(Edge(inside[register], i, 0, 0, register))
                elif register in written:
                    out.append(_edge(loop, machine, written[register], i, 0, register))
                elif register in last:
                    out.append(_edge(loop, machine, last[register], i, 1, register))
        written |= inside
        begin = end
    return out


def _edge(
    loop: Loop, machine: Machine, producer: int, consumer: int, distance: int, register: str
) -> Edge:
    one, two = loop.body[producer], loop.body[consumer]
    # An address that a load or store has stepped is there after a cycle, unlike what it loads.
    stepped = one.access and register in one.address
    latency = (
        1 if stepped else machine.latency(one.kind, two.kind, register, register in two.accumulates)
    )
    return Edge(producer, consumer, latency, distance, register)


def origins(loop: Loop) -> list[frozenset[str]]:
    """For each instruction, the registers from before the loop that its address is made of."""
    sources: dict[str, frozenset[str]] = {}
    written = {register for item in loop.body for register in item.writes}
    out = []
    for item in loop.body:
        of_address = [sources.get(register, frozenset([register])) for register in item.address]
        out.append(frozenset[str]().union(*of_address))
        made_of = [sources.get(register, frozenset([register])) for register in item.reads]
        for register in item.writes:
            # An index that is stepped is no origin: every array is accessed by it.
            stepped = register in item.reads and register in written
            whole = frozenset[str]().union(*made_of)
            sources[register] = frozenset([register]) if stepped or item.access else whole
    return out


def _of_memory(loop: Loop) -> list[Edge]:
    accesses = [i for i, item in enumerate(loop.body) if item.access]
    roots = origins(loop)
    written = {register for item in loop.body for register in item.writes}
    out = []
    for a in accesses:
        for b in accesses:
            one, two = loop.body[a], loop.body[b]
            if one.access == two.access == "load" or roots[a] != roots[b]:
                continue
            latency = int("load" not in (one.access, two.access) or one.access != "load")
            if a < b:  # within a packet, two stores are made in order
                out.append(Edge(a, b, latency if one.packet < two.packet else 0, 0, ""))
            elif written.isdisjoint((*one.address, *two.address)):
                # An address that is written differs from iteration to iteration: the next one is
                # elsewhere.
                out.append(Edge(a, b, latency, 1, ""))
    return out
