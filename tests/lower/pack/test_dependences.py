"""Dependences: over iterations, within packets, of memory."""

from __future__ import annotations

from tfn.lower.pack import assembly
from tfn.lower.pack.dependences import Edge, edges, origins
from tfn.lower.pack.instructions import Loop
from tfn.lower.pack.machine import HEXAGON


def loop_of(*packets: str) -> Loop:
    body = "\n".join(f"\t{{\n\t\t{packet.replace('; ', chr(10))}\n\t}}" for packet in packets)
    text = f".LBB0_1:   // %loop1\n{body} :endloop0\n"
    (loop,) = assembly.divided(text, "hexagon").loops
    return loop


def test_sums_wait_for_themselves() -> None:
    loop = loop_of("v1.w = vadd(v1.w,v2.w)")
    assert edges(loop, HEXAGON) == [Edge(0, 0, 1, 1, "v1")]


def test_packets_read_before_they_write() -> None:
    loop = loop_of("r0 = add(r0,#1); r1 = memb(r0+#0)", "r2 = add(r1,r2)")
    found = {(e.producer, e.consumer, e.distance) for e in edges(loop, HEXAGON)}
    assert (0, 1, 1) in found  # the load reads what the iteration before has added
    assert (1, 2, 0) in found


def test_values_of_the_same_packet_wait_for_nothing() -> None:
    loop = loop_of("v7.cur = vmem(r3+#1); v2 = valign(v7,v9,r6)")
    assert Edge(0, 1, 0, 0, "v7") in edges(loop, HEXAGON)


def test_permutes_read_early() -> None:
    loop = loop_of("v1.w = vadd(v3.w,v2.w)", "v4 = valign(v1,v1,r6)")
    assert Edge(0, 1, 2, 0, "v1") in edges(loop, HEXAGON)


def test_arrays_are_told_apart_by_what_addresses_are_made_of() -> None:
    loop = loop_of(
        "r7 = asl(r0,#9)", "r12 = add(r6,r7)", "r13 = add(r4,r7)",
        "v1 = vmem(r12+#0)", "vmem(r13+#0) = v1", "v2 = vmem(r13+#1)", "r0 = add(r0,#1)",
    )  # fmt: skip
    roots = origins(loop)
    assert roots[3] != roots[4] == roots[5]
    memory = [(e.producer, e.consumer) for e in edges(loop, HEXAGON) if not e.register]
    assert memory == [(4, 5)]
