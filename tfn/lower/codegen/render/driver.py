"""Driver: the one function of a program, as LLVM IR: kernels in order, tiles shared, barriers.

Every thread runs it.  The tiles of a kernel are scheduled dynamically by an atomic counter: a
thread takes the next chunk until none is left, so a late thread delays the others by one chunk at
most.  A kernel of one tile is run by the thread that arrives first; serial steps and functions of
the host are run by thread 0, the caller.

The barrier counts arrivals; the last thread to arrive opens the next generation, the others spin a
while and then yield.

`sync` memory is zero when a program starts, but for the address of the host's entry:

    byte 0    the generation of the barrier
    byte 8    the address of the host's entry
    byte 16   the number of the host call that failed, plus one
    byte 24   the number of the launch that runs, where the driver reports it
    byte 32   the address of the log of kernel times, 0 if none is kept
    byte 40   the number of the program in that log
    byte 64   arrivals at the barrier
    byte 128  a tile counter per launch, each in its own cache line
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from tfn.lower.codegen.render import whole_loop
from tfn.lower.codegen.render.timing import TIMING
from tfn.lower.codegen.render.whole_loop import Memory, Wholes
from tfn.lower.program import (
    MAX_TIMED_LAUNCHES,
    Branch,
    Call,
    HostCall,
    Launch,
    Loop,
    Routine,
    Slot,
    Space,
    Step,
    all_launches,
    host_calls,
    is_serial,
    leaf_steps,
    routines,
)

SPINS_BEFORE_YIELD = 4000
"""Loads of the generation before a waiting thread yields its core.

More of them keep a core busy that another thread may need; fewer cost a system call where the
others arrive in a moment.
"""

HOST_ENTRY_OFFSET = 8
"""Byte of `sync` that holds the address of the host's entry."""

FAILURE_OFFSET = 16
"""Byte of `sync` that holds which call of the host has failed."""

PROGRESS_OFFSET = 24
"""Byte of `sync` that holds the number of the launch that runs, in programs that report it."""

COUNTERS_OFFSET = 128
"""Byte of `sync` where tile counters begin, after the line of the arrivals."""

COUNTER_BYTES = 64
"""A cache line for each tile counter: threads at different launches do not share one."""

MAX_CHUNKS = 16
"""Chunks that the tiles of a launch are handed out in, at the most.

More balance better and cost an atomic addition each; exported C code uses the same number.
"""


def sync_bytes(launches: Sequence[Launch]) -> int:
    """The bytes of `sync` memory that launches need."""
    return COUNTERS_OFFSET + COUNTER_BYTES * len(launches)


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
  %long = icmp ugt i64 %turn, {SPINS_BEFORE_YIELD}
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
SHARE = f"""
define internal void @share(ptr %kernel, i64 %tiles, i64 %chunk, i64 %start, ptr %operands,
                            i64 %threads, ptr %sync, i64 %number) #1 {{
entry:
  %alone = icmp eq i64 %threads, 1
  br i1 %alone, label %whole, label %take
whole:
  call void %kernel(i64 0, i64 %tiles, ptr %operands)
  ret void
take:
  %far = mul i64 %number, {COUNTER_BYTES}
  %counters = getelementptr i8, ptr %sync, i64 {COUNTERS_OFFSET}
  %counter = getelementptr i8, ptr %counters, i64 %far
  br label %more
more:
  %got = atomicrmw add ptr %counter, i64 %chunk monotonic
  %begin = sub i64 %got, %start
  %some = icmp slt i64 %begin, %tiles
  br i1 %some, label %run, label %done
run:
  %most = add i64 %begin, %chunk
  %over = icmp sgt i64 %most, %tiles
  %end = select i1 %over, i64 %tiles, i64 %most
  call void %kernel(i64 %begin, i64 %end, ptr %operands)
  br label %more
done:
  ret void
}}
"""
REPEATED_SHARE = """
define internal void @again(ptr %kernel, i64 %tiles, i64 %chunk, i64 %chunks, ptr %operands,
                            i64 %threads, ptr %sync, i64 %number, ptr %rounds) #1 {
entry:
  %place = getelementptr i64, ptr %rounds, i64 %number
  %start = load i64, ptr %place
  %taken = add i64 %threads, %chunks
  %length = mul i64 %taken, %chunk
  %next = add i64 %start, %length
  store i64 %next, ptr %place
  call void @share(ptr %kernel, i64 %tiles, i64 %chunk, i64 %start, ptr %operands, i64 %threads,
                   ptr %sync, i64 %number)
  ret void
}
"""
"""Runs a launch that is repeated.

Its tile counter goes on counting where the last round stopped: every thread has taken one chunk too
many, so the rounds begin at fixed distances, and no counter needs to be reset.
"""
CLAMP = """
declare i32 @llvm.smax.i32(i32, i32)
declare i32 @llvm.smin.i32(i32, i32)
"""
ZERO = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n"
HELPERS = {
    "@begin_timing(": TIMING,
    "@barrier(": BARRIER,
    "@again(": REPEATED_SHARE,
    "@share(": SHARE,
    "@llvm.sm": CLAMP,
    "@llvm.memset": ZERO,
}
"""Functions that a driver may call, and their text; callees come after their callers."""

PARAMETERS = "i64 %thread, i64 %threads, ptr %buffers, ptr %arena, ptr %sync"
STOP = "stop:\n  ret void\n"


def driver_text(
    name: str,
    steps: Sequence[Step],
    inputs: int,
    single_threaded: bool = False,
    pointer_bytes: int = 8,
    reports: bool = False,
    timed: bool = False,
    whole_loops: bool = False,
) -> str:
    """``void NAME(i64 thread, i64 threads, ptr buffers, ptr arena, ptr sync)``.

    The text for a single thread needs no barriers, no `sync`, and no C library; if it `reports`, it
    stores the number of each launch in `sync` before it begins, so that a fault has a name.  If it
    is `timed`, it can log the time of its kernels; a program of one kernel is timed as a whole.
    With `whole_loops`, loops of one thread and their small kernels are functions of the driver.
    """
    launches, called = list(all_launches(steps)), routines(steps)
    names = {routine: f"routine{i}" for i, routine in enumerate(called)}
    numbers = {id(launch): i for i, launch in enumerate(launches)}
    numbers |= {id(call): i for i, call in enumerate(host_calls(steps))}
    repeated_ids = {id(launch) for launch in repeated(steps)}
    start = []
    timed = timed and 1 < len(launches) <= MAX_TIMED_LAUNCHES
    if timed:
        start += [
            "  %clock.words = alloca [5 x i64], align 8",
            "  %clock = call ptr @begin_timing(ptr %clock.words, ptr %sync, i64 %thread, "
            f"i64 {len(launches)})",
        ]
    if (repeated_ids or called) and not single_threaded:
        size_bytes = 8 * len(launches)
        start += [
            f"  %rounds = alloca [{len(launches)} x i64], align 8",
            f"  call void @llvm.memset.p0.i64(ptr %rounds, i8 0, i64 {size_bytes}, i1 false)",
        ]

    wholes = Wholes([], {}) if whole_loops else None

    def driver(inputs: int) -> LlvmDriver:
        return LlvmDriver(
            inputs,
            numbers,
            names,
            repeated_ids,
            single_threaded,
            pointer_bytes,
            reports,
            timed,
            wholes,
        )

    text = driver(inputs).define(f"void @{name}({PARAMETERS})", start, steps)
    for routine in called:
        head = f"internal void @{names[routine]}({PARAMETERS}, ptr %rounds, ptr %clock)"
        text += driver(routine.inputs).define(head, [], routine.steps)
    within = list[str]()
    if wholes is not None and wholes.texts:
        text += "".join(wholes.texts)
        within = [whole_loop.inlined_text(kernel) for kernel in wholes.kernels.values()]
    declared = sorted({launch.kernel.name for launch in launches})
    outside = [kernel for kernel in declared if f"@{kernel}(" in text or f"@{kernel}," in text]
    text += "\n".join(f"declare void @{kernel}(i64, i64, ptr) #1" for kernel in outside)
    for call, helper in HELPERS.items():
        text += helper if call in text else ""
    text += 'attributes #1 = { nounwind "no-builtins" }\n'
    return whole_loop.declared_once("\n".join([text, *within])) if within else text


def repeated(steps: Sequence[Step]) -> Iterator[Launch]:
    """The launches that may run several times: those in loops, and those in routines."""
    for routine in routines(steps):
        yield from all_launches(routine.steps)
    for step in steps:
        if isinstance(step, Loop):
            yield from all_launches([step])
        elif isinstance(step, Branch):
            for way in step.branches:
                yield from repeated(way)


class LlvmDriver:
    """The body of a function as it grows: that of the program, or of a routine.

    Attributes:
        inputs: the number of buffers before those of the outputs.
        numbers: of the launches, for their tile counters; of the calls of the host, which the
            host is called with.
        routines: the names of the functions of routines.
        repeated: the launches that may run several times, by id.
        block: the label of the present basic block.
        counters: the present iteration of each open loop.
        may_stop: whether a call of the host may end the program early.
        section: the number of the open section that thread 0 runs alone; None outside of one.
        single_threaded: whether there is one thread for certain.
        pointer_bytes: the size of an address.
        reports: whether the number of each launch is stored before it begins.
        timed: whether the time of each launch is logged, if a log is kept.
        wholes: where functions of whole loops go; None if each kernel is called.
        memories: in such a function, the memory of its operands, and the names of the addresses.
    """

    def __init__(
        self,
        inputs: int,
        numbers: Mapping[int, int],
        routines: Mapping[Routine, str],
        repeated: Collection[int],
        single_threaded: bool,
        pointer_bytes: int = 8,
        reports: bool = False,
        timed: bool = False,
        wholes: Wholes | None = None,
    ) -> None:
        self.wholes, self.memories = wholes, dict[Memory, str]()
        self.inputs, self.numbers, self.routines = inputs, numbers, routines
        self.repeated, self.single_threaded = repeated, single_threaded
        self.pointer_bytes, self.reports, self.timed = pointer_bytes, reports, timed
        self.lines: list[str] = []
        self.block = "entry"
        self.count = 0
        self.counters: dict[int, str] = {}
        self.may_stop = False
        self.section: int | None = None

    def define(
        self, head: str, start: Sequence[str], steps: Sequence[Step], end: Sequence[str] = ()
    ) -> str:
        """The text of a function that runs some steps; `start` comes before, `end` after them."""
        counts = (len(step.operands) + isinstance(step, HostCall) for step in leaf_steps(steps))
        most = max(counts, default=1)
        # LLVM looks through the table of kernels that it inlines, if no other kernel has it.
        tables = {"operands": "place"} | ({"far": "far"} if self.memories else {})
        for table, place in tables.items():
            self.lines.append(f"  %{table} = alloca [{most} x ptr], align {self.pointer_bytes}")
            for k in range(most):
                self.lines.append(f"  %{place}{k} = getelementptr ptr, ptr %{table}, i64 {k}")
        self.lines += start
        self.steps(steps)
        self.lines += end
        body, stop = "\n".join(self.lines), STOP if self.may_stop else ""
        return f"define {head} #1 {{\nentry:\n{body}\n  ret void\n{stop}}}\n"

    def let(self, text: str) -> str:
        """Add an instruction; returns the name of its value."""
        self.count += 1
        self.lines.append(f"  %v{self.count} = {text}")
        return f"%v{self.count}"

    def barrier(self) -> None:
        """Wait for all threads; a serial step has none to wait for."""
        if self.single_threaded or self.section is not None:
            return
        name, clock = ("@meet", ", ptr %clock") if self.timed else ("@barrier", "")
        self.lines.append(f"  call void {name}(i64 %threads, ptr %sync{clock})")

    def steps(self, steps: Sequence[Step]) -> None:
        """Add steps in order; serial ones that follow each other are a section of thread 0."""
        within = self.section is not None
        apart = self.wholes is None or bool(self.memories)
        each = (([step], False) for step in steps)
        for run, is_whole in each if apart else whole_loop.parted(steps, self.single_threaded):
            step, barrier = run[-1], any(step.barrier for step in run)
            serial = within or (is_serial(step) and not self.single_threaded)
            if barrier or not serial:
                self.end_section(within)
            if barrier:
                self.barrier()
            if serial:
                self.begin_section()
            if is_whole:
                self.whole(run)
            elif isinstance(step, Launch):
                self.launch(step)
            elif isinstance(step, Loop):
                self.loop(step)
            elif isinstance(step, Branch):
                self.branch(step)
            elif isinstance(step, Call):
                self.call(step)
            else:
                self.host(step)
        self.end_section(within)

    def begin_section(self) -> None:
        """Only thread 0 runs what follows."""
        if self.section is None:
            self.section = len(self.lines)
            first = self.let("icmp eq i64 %thread, 0")
            self.block = f"serial{self.section}"
            after = f"label %{self.block}, label %shared{self.section}"
            self.lines += [f"  br i1 {first}, {after}", f"{self.block}:"]

    def end_section(self, within: bool) -> None:
        """All threads run what follows, unless the steps are within a section."""
        if self.section is not None and not within:
            self.block = f"shared{self.section}"
            self.lines += [f"  br label %{self.block}", f"{self.block}:"]
            self.section = None

    def pointer(self, slot: Slot) -> str:
        """The address of an operand, in the present iteration of the loops that move it."""
        if self.memories:
            part = next(part for part in self.memories if part.holds(slot))
            moved = slot.offset + (slot.at - part.at if slot.space is Space.ARENA else 0)
            start = self.let(f"getelementptr i8, ptr {self.memories[part]}, i64 {moved}")
        elif slot.space is Space.ARENA:
            start = self.let(f"getelementptr i8, ptr %arena, i64 {slot.at + slot.offset}")
        else:
            index = slot.at + (self.inputs if slot.space is Space.OUTPUT else 0)
            start = self.let(
                f"load ptr, ptr {self.let(f'getelementptr ptr, ptr %buffers, i64 {index}')}"
            )
            if slot.offset:
                start = self.let(f"getelementptr i8, ptr {start}, i64 {slot.offset}")
        for number, size in slot.strides:
            far = self.let(f"mul i64 {self.counters[number]}, {size}")
            start = self.let(f"getelementptr i8, ptr {start}, i64 {far}")
        return start

    def store_pointers(self, operands: Sequence[Slot], place: str = "place") -> list[str]:
        """Write the addresses of operands to the array that a kernel reads them from."""
        pointers = []
        for k, slot in enumerate(operands):
            pointers.append(self.pointer(slot))
            self.lines.append(
                f"  store ptr {pointers[-1]}, ptr %{place}{k}, align {self.pointer_bytes}"
            )
        return pointers

    def host(self, step: HostCall) -> None:
        """Thread 0, which is the caller, calls the host; all threads stop if that failed.

        The host answers in the word after the operands: the result of a function that was
        interrupted before its first line is whatever the register held.
        """
        i, self.may_stop = self.numbers[id(step)], True
        word, align = f"i{8 * self.pointer_bytes}", f"align {self.pointer_bytes}"
        first = self.let("icmp eq i64 %thread, 0")
        failure = self.let(f"getelementptr i8, ptr %sync, i64 {FAILURE_OFFSET}")
        self.lines += [f"  br i1 {first}, label %ask{i}, label %met{i}", f"ask{i}:"]
        self.store_pointers(step.operands)
        answer = f"%place{len(step.operands)}"
        at = self.let(f"getelementptr i8, ptr %sync, i64 {HOST_ENTRY_OFFSET}")
        function = self.let(f"load ptr, ptr {at}")
        self.lines += [
            f"  store {word} 0, ptr {answer}, {align}",
            f"  call void {function}(i64 {i}, ptr %operands)",
        ]
        failed = self.let(f"icmp eq {word} {self.let(f'load {word}, ptr {answer}, {align}')}, 0")
        self.lines += [
            f"  br i1 {failed}, label %fail{i}, label %met{i}",
            f"fail{i}:",
            f"  store i64 {i + 1}, ptr {failure}, align 8",
            # Number -1 tells the host of the failure, until its answer says that it was heard.
            f"  br label %tell{i}",
            f"tell{i}:",
            f"  store {word} 0, ptr %place0, {align}",
            f"  call void {function}(i64 -1, ptr %operands)",
        ]
        told = self.let(f"icmp ne {word} {self.let(f'load {word}, ptr %place0, {align}')}, 0")
        self.lines += [f"  br i1 {told}, label %met{i}, label %tell{i}", f"met{i}:"]
        if self.timed:
            self.lines.append("  call void @resumed(ptr %clock)")
        self.barrier()
        # Thread 0 may be at its next call before others read: they compare with this call's number.
        stop = self.let(f"icmp eq i64 {self.let(f'load i64, ptr {failure}, align 8')}, {i + 1}")
        self.lines += [f"  br i1 {stop}, label %stop, label %went{i}", f"went{i}:"]
        self.block = f"went{i}"

    def whole(self, steps: Sequence[Step]) -> None:
        """A call of a function that runs some steps, of which the last is a loop."""
        assert self.wholes is not None
        plan = whole_loop.plan(f"@whole{len(self.wholes.texts)}", steps, self.counters)
        inner = LlvmDriver(0, self.numbers, {}, (), True, self.pointer_bytes, wholes=self.wholes)
        inner.memories, inner.counters = plan.places, plan.counters
        self.wholes.texts.append(inner.define(plan.head, plan.begin, steps, plan.end))
        addresses = [f"ptr {self.pointer(slot)}" for slot in plan.pointers]
        counts = [f"i64 {value}" for value in self.counters.values()]
        self.lines.append(f"  call void {plan.name}({', '.join([*addresses, *counts])})")
        if self.timed:
            first = next(all_launches(steps[-1:]))
            self.lines.append(f"  call void @ran(ptr %clock, i64 {self.numbers[id(first)]})")

    def launch_within(self, launch: Launch) -> None:
        """All tiles of a kernel that is a part of a loop, or that the loop calls."""
        assert self.wholes is not None
        kernel = launch.kernel
        if inlined := whole_loop.is_inlined(kernel):
            self.wholes.kernels[kernel.name] = kernel
        name = whole_loop.name(kernel) if inlined else f"@{kernel.name}"
        table, place = ("%operands", "place") if inlined else ("%far", "far")
        self.store_pointers(launch.operands, place)
        self.lines.append(f"  call void {name}(i64 0, i64 {kernel.tiles}, ptr {table})")

    def launch(self, launch: Launch) -> None:
        """All tiles at once if there is one thread, else chunk by chunk.

        A copy of a donated input to the output in the same memory is skipped at run time.
        """
        if self.memories:
            self.launch_within(launch)
            return
        pointers = self.store_pointers(launch.operands)
        kernel, i = launch.kernel, self.numbers[id(launch)]
        repeated, tiles = id(launch) in self.repeated, str(kernel.tiles)
        # Whether the caller donated is known at run time only.
        spaces = [slot.space for slot in launch.operands]
        if spaces == [Space.OUTPUT, Space.INPUT] and not repeated and kernel.is_copy:
            is_same = self.let("icmp eq ptr " + ", ".join(pointers))
            tiles = self.let(f"select i1 {is_same}, i64 0, i64 {kernel.tiles}")
        if self.reports:
            progress = self.let(f"getelementptr i8, ptr %sync, i64 {PROGRESS_OFFSET}")
            self.lines.append(f"  store volatile i32 {i}, ptr {progress}, align 4")
        chunk = max(1, -(-kernel.tiles // MAX_CHUNKS))
        if repeated:
            function, begins, rounds = "again", -(-kernel.tiles // chunk), ", ptr %rounds"
        else:
            function, begins, rounds = "share", 0, ""
        whole = self.single_threaded or self.section is not None
        self.lines.append(
            f"  call void @{kernel.name}(i64 0, i64 {tiles}, ptr %operands)"
            if whole
            else f"  call void @{function}(ptr @{kernel.name}, i64 {tiles}, i64 {chunk}, "
            f"i64 {begins}, ptr %operands, i64 %threads, ptr %sync, i64 {i}{rounds})"
        )
        if self.timed and not self.single_threaded:
            self.lines.append(f"  call void @ran(ptr %clock, i64 {i})")

    def call(self, call: Call) -> None:
        """The addresses of the operands are the buffers of the routine."""
        self.store_pointers(call.operands)
        arena = self.pointer(call.arena)
        rounds = "null" if self.single_threaded else "%rounds"
        self.lines.append(
            f"  call void @{self.routines[call.routine]}(i64 %thread, i64 %threads, "
            f"ptr %operands, ptr {arena}, ptr %sync, ptr {rounds}, "
            f"ptr {'%clock' if self.timed else 'null'})"
        )
        self.barrier()
        if any(host_calls(call.routine.steps)):
            self._stop_if_failed()

    def _stop_if_failed(self) -> None:
        """All threads stop if a call of the host in the routine has failed."""
        self.may_stop = True
        failure = self.let(f"getelementptr i8, ptr %sync, i64 {FAILURE_OFFSET}")
        stop = self.let(f"icmp ne i64 {self.let(f'load i64, ptr {failure}, align 8')}, 0")
        self.block = f"went.on{self.count}"
        self.lines += [f"  br i1 {stop}, label %stop, label %{self.block}", f"{self.block}:"]
        self.barrier()  # all have read it before a later call may fail

    def loop(self, loop: Loop) -> None:
        """Head, barrier, test, body, and back; without a condition, body and barrier."""
        n = loop.number
        before = self.block
        self.lines += [f"  br label %loop{n}", f"loop{n}:"]
        at = len(self.lines)
        # The second edge of the phi is added when the body is written.
        self.lines.append(f"  %i{n} = phi i64 [ 0, %{before} ]")
        self.block, self.counters[n] = f"loop{n}", f"%i{n}"
        if loop.condition is None:
            more = self.let(f"icmp slt i64 %i{n}, {loop.trips}")
        else:
            self.steps(loop.head)
            self.barrier()
            byte = self.let(f"load i8, ptr {self.pointer(loop.condition)}")
            more = self.let(f"icmp ne i8 {byte}, 0")
        self.lines += [f"  br i1 {more}, label %body{n}, label %exit{n}", f"body{n}:"]
        self.block = f"body{n}"
        self.steps(loop.body)
        if loop.condition is None:
            self.barrier()
        step = self.let(f"add i64 %i{n}, 1")
        self.lines[at] += f", [ {step}, %{self.block} ]"
        self.lines += [f"  br label %loop{n}", f"exit{n}:"]
        self.block = f"exit{n}"
        del self.counters[n]

    def branch(self, branch: Branch) -> None:
        """The way of the index, which is clamped."""
        last = len(branch.branches) - 1
        index = self.let(f"load i32, ptr {self.pointer(branch.index)}")
        index = self.let(f"call i32 @llvm.smax.i32(i32 {index}, i32 0)")
        index = self.let(f"call i32 @llvm.smin.i32(i32 {index}, i32 {last})")
        self.count += 1
        tag = self.count
        cases = " ".join(f"i32 {i}, label %way{tag}.{i}" for i in range(last + 1))
        self.lines.append(f"  switch i32 {index}, label %way{tag}.0 [ {cases} ]")
        for i, way in enumerate(branch.branches):
            self.lines.append(f"way{tag}.{i}:")
            self.block = f"way{tag}.{i}"
            self.steps(way)
            self.lines.append(f"  br label %join{tag}")
        self.lines.append(f"join{tag}:")
        self.block = f"join{tag}"
        self.barrier()
