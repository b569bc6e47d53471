"""The one function of a program, as LLVM IR: kernels in order, tiles shared, barriers between.

Every thread runs it.  A kernel with several tiles is worked off by an atomic counter: a thread
takes the next chunk until none is left, so a late thread delays nobody for long.  A kernel of one
tile is run by whichever thread comes first.  A barrier counts arrivals; the last to arrive opens
the next generation, the others spin a while and then yield.  `sync` memory is zero when a program
starts: a generation, a count of arrivals, and one counter per launch.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfn.lower.kernel import Launch, Slot, Space

SPINS = 4000
COUNTERS_AT = 128
COUNTER_BYTES = 64
CHUNKS = 16
"""How many chunks the tiles of a launch are handed out in, at the most."""


def sync_bytes(launches: Sequence[Launch]) -> int:
    """Memory for the barrier and the tile counters, each in its own cache line."""
    return COUNTERS_AT + COUNTER_BYTES * len(launches)


BARRIER = f"""
define internal void @barrier(i64 %threads, ptr %sync) #1 {{
entry:
  %alone = icmp eq i64 %threads, 1
  br i1 %alone, label %done, label %arrive
arrive:
  %waiting = getelementptr i8, ptr %sync, i64 64
  %generation = load atomic i64, ptr %sync acquire, align 8
  %before = atomicrmw add ptr %waiting, i64 1 acq_rel
  %arrived = add i64 %before, 1
  %last = icmp eq i64 %arrived, %threads
  br i1 %last, label %open, label %spin
open:
  store atomic i64 0, ptr %waiting monotonic, align 8
  %next = add i64 %generation, 1
  store atomic i64 %next, ptr %sync release, align 8
  br label %done
spin:
  %turn = phi i64 [ 0, %arrive ], [ %turn.next, %again ]
  %now = load atomic i64, ptr %sync acquire, align 8
  %opened = icmp ne i64 %now, %generation
  br i1 %opened, label %done, label %wait
wait:
  %turn.next = add i64 %turn, 1
  %long = icmp ugt i64 %turn, {SPINS}
  br i1 %long, label %yield, label %again
yield:
  %ignored = call i32 @sched_yield()
  br label %again
again:
  br label %spin
done:
  ret void
}}
declare i32 @sched_yield() #1
"""


def driver_text(name: str, launches: Sequence[Launch], inputs: int) -> str:
    """``void NAME(i64 thread, i64 threads, ptr buffers, ptr arena, ptr sync)``."""
    lines: list[str] = []
    most = max((len(launch.operands) for launch in launches), default=1)
    lines.append(f"  %operands = alloca [{most} x ptr], align 8")
    lines.append("  %alone = icmp eq i64 %threads, 1")
    before = "entry"
    for i, launch in enumerate(launches):
        if launch.barrier:
            lines.append("  call void @barrier(i64 %threads, ptr %sync)")
        for k, slot in enumerate(launch.operands):
            pointer = _slot(lines, f"{i}.{k}", slot, inputs)
            at = f"%at{i}.{k}"
            lines.append(f"  {at} = getelementptr ptr, ptr %operands, i64 {k}")
            lines.append(f"  store ptr {pointer}, ptr {at}, align 8")
        before = _launch(lines, i, launch, before)
    declared = {launch.kernel.name for launch in launches}
    body = "\n".join(lines)
    return (
        f"define void @{name}"
        "(i64 %thread, i64 %threads, ptr %buffers, ptr %arena, ptr %sync) #1 {\n"
        f"entry:\n{body}\n  ret void\n}}\n"
        + "\n".join(f"declare void @{kernel}(i64, i64, ptr) #1" for kernel in sorted(declared))
        + BARRIER
        + 'attributes #1 = { nounwind "no-builtins" }\n'
    )


def _slot(lines: list[str], tag: str, slot: Slot, inputs: int) -> str:
    """The pointer of an operand."""
    if slot.space is Space.ARENA:
        lines.append(f"  %p{tag} = getelementptr i8, ptr %arena, i64 {slot.at}")
    else:
        index = slot.at + (inputs if slot.space is Space.OUTPUT else 0)
        lines.append(f"  %s{tag} = getelementptr ptr, ptr %buffers, i64 {index}")
        lines.append(f"  %p{tag} = load ptr, ptr %s{tag}, align 8")
    return f"%p{tag}"


def _launch(lines: list[str], i: int, launch: Launch, before: str) -> str:
    """All tiles at once if there is one thread, else chunk by chunk."""
    kernel = launch.kernel
    chunk = max(1, -(-kernel.tiles // CHUNKS))
    counter = COUNTERS_AT + COUNTER_BYTES * i
    lines += [
        f"  br i1 %alone, label %whole{i}, label %take{i}",
        f"whole{i}:",
        f"  call void @{kernel.name}(i64 0, i64 {kernel.tiles}, ptr %operands)",
        f"  br label %done{i}",
        f"take{i}:",
        f"  %counter{i} = getelementptr i8, ptr %sync, i64 {counter}",
        f"  %begin{i} = atomicrmw add ptr %counter{i}, i64 {chunk} monotonic",
        f"  %some{i} = icmp slt i64 %begin{i}, {kernel.tiles}",
        f"  br i1 %some{i}, label %run{i}, label %done{i}",
        f"run{i}:",
        f"  %most{i} = add i64 %begin{i}, {chunk}",
        f"  %over{i} = icmp sgt i64 %most{i}, {kernel.tiles}",
        f"  %end{i} = select i1 %over{i}, i64 {kernel.tiles}, i64 %most{i}",
        f"  call void @{kernel.name}(i64 %begin{i}, i64 %end{i}, ptr %operands)",
        f"  br label %take{i}",
        f"done{i}:",
    ]
    return f"done{i}"
