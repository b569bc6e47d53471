"""Software pipelining of LLVM IR: the stages of a modulo schedule side by side in one loop.

    loop:  load i            prologue:  load 0
           add i       ->    kernel:    load i + 1    add i    store i
           store i           epilogue:  add n - 1     store n - 1

The kernel is one block, tested at its end, which hardware loops need.

Loads of the next iteration come before stores of this one, so LLVM's packetizer, which keeps the
order of accesses it cannot tell apart, finds independent instructions for its packets.  A loop that
runs less often than there are stages runs as it was.

Source: B. R. Rau 1994, "Iterative modulo scheduling", on prologue, kernel and epilogue; modulo
variable expansion by phis as in M. Lam 1988, "Software pipelining".
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Sequence

from tfn.lower.pack import modulo
from tfn.lower.pack.dependences import edges
from tfn.lower.pack.llvm_ir import NAME, InnerLoop, Operation, blocks, inner_loops
from tfn.lower.pack.machine import MACHINES, Machine

MAX_TRIED_INTERVALS = 8
"""Intervals that are tried from the lower bound on: the first schedule will do, since LLVM orders
instructions within a stage anew."""


def pipelined(text: str, architecture: str, stages: int) -> str:
    """A kernel of LLVM IR whose innermost loops are pipelined, as far as they can be read.

    Args:
        text: of one function.
        architecture: of the triple; without a row in `MACHINES` the text stays as it is.
        stages: iterations side by side, into which the schedule of one is cut in equal parts; with
            1 a loop is only put in the order of its schedule and tested at its end.
    """
    if architecture in MACHINES:
        for loop in inner_loops(text, architecture):
            cycles = _cycles(loop, MACHINES[architecture])
            if cycles:
                length = -(-(max(cycles) + 1) // stages)
                text = _Emitter(text, loop, [t // length for t in cycles], cycles).text()
    return text


def _cycles(loop: InnerLoop, machine: Machine) -> list[int]:
    """When each operation begins in a modulo schedule, from 0; empty if none was found."""
    waits, count = edges(loop.loop, machine), len(loop.loop.body)
    by_units = modulo.resource_bound(loop.loop, machine)
    bound = max(by_units, modulo.recurrence_bound(count, waits))
    for interval in range(bound, bound + MAX_TRIED_INTERVALS):
        found = modulo.heuristic(loop.loop, machine, interval)
        if found is not None:
            cycles = found[: len(loop.scheduled)]  # without the step of the index
            return [cycle - min(cycles) for cycle in cycles]
    return []


class _Emitter:
    """The blocks of one pipelined loop.

    Values are named by the iteration that computes them: ``v6.p0`` in the prologue, ``v6.k`` in the
    kernel, ``v6.e1`` in the epilogue; ``v6.d2`` is what the kernel computed two rounds before.
    """

    def __init__(
        self, text: str, loop: InnerLoop, stages: Sequence[int], cycles: Sequence[int]
    ) -> None:
        self.old, self.loop, self.stages, self.cycles = text, loop, stages, cycles
        self.count = max(stages) + 1
        self.stage = {o.name: s for o, s in zip(loop.scheduled, stages, strict=True) if o.name}
        self.types = {o.name: o.type for o in loop.scheduled}
        self.carried = {phi.name: phi for phi in loop.phis}
        self.begins = {phi.after: phi.begin for phi in loop.phis}
        self.delays: dict[str, int] = {}
        self.prefix = loop.header
        numbers = [loop.begin, loop.end]
        self.trips = int(loop.end) - int(loop.begin) if all(map(_is_number, numbers)) else None

    def text(self) -> str:
        """The text with the loop pipelined; the same if it runs too seldom, or has no order."""
        order = self._order()
        if order is None or (self.trips is not None and self.trips < self.count):
            return self.old
        prologue = self._prologue()
        body = self._kernel(order)
        epilogue = self._epilogue()
        return self._joined(prologue, body, epilogue)

    def _order(self) -> list[int] | None:
        """Operations of the kernel in the order of their cycles, each after those it reads.

        None if an iteration would need a value of a later stage of the one before.
        """
        length = max(self.cycles) // self.count + 1
        rows = [cycle - length * s for cycle, s in zip(self.cycles, self.stages, strict=True)]
        position = {o.name: i for i, o in enumerate(self.loop.scheduled) if o.name}
        waiting = [0] * len(self.stages)
        users: list[list[int]] = [[] for _ in self.stages]
        stores = [i for i, o in enumerate(self.loop.scheduled) if not o.name]
        for i, operation in enumerate(self.loop.scheduled):
            uses = self._uses(operation, self.stages[i])
            if any(delay < 0 for _, delay in uses):
                return None
            now = {position[n] for n, delay in uses if not delay}
            if not operation.name:  # loads of the same iteration come before, stores in order
                earlier = (k for k in range(i) if k in stores or " load " in self._line(k))
                now |= {k for k in earlier if self.stages[k] == self.stages[i]}
            for k in now:
                users[k].append(i)
            waiting[i] = len(now)
        ready = [(rows[i], i) for i, n in enumerate(waiting) if not n]
        heapq.heapify(ready)
        order = []
        while ready:
            _, i = heapq.heappop(ready)
            order.append(i)
            for k in users[i]:
                waiting[k] -= 1
                if not waiting[k]:
                    heapq.heappush(ready, (rows[k], k))
        return order if len(order) == len(waiting) else None

    def _line(self, i: int) -> str:
        return self.loop.scheduled[i].text

    def _uses(self, operation: Operation, stage: int) -> list[tuple[str, int]]:
        """Values of operations that an operation reads, and of how many rounds before."""
        out = []
        for name in operation.operands:
            if name in self.carried:
                after = self.carried[name].after
                out.append((after, stage + 1 - self.stage[after]))
            elif name in self.stage:
                out.append((name, stage - self.stage[name]))
        return out

    # Copies of the body.

    def _copy(
        self,
        i: int,
        suffix: str,
        index: str,
        value: Callable[[str, int], str],
        lines: list[str],
        known: set[str],
    ) -> None:
        """Append an operation, with the addresses it needs, for one iteration.

        Args:
            i: the number of the operation.
            suffix: of the names it defines.
            index: the index of the iteration.
            value: names the value of an operation, of this iteration or one before.
            lines: what has been emitted.
            known: addresses that have been emitted with this suffix.
        """
        operation = self.loop.scheduled[i]

        def renamed(name: str) -> str:
            if name == self.loop.index:
                return index
            if name in self.loop.addresses:
                return f"{name}.{suffix}"
            if name in self.carried:
                return value(self.carried[name].after, -1)
            return value(name, 0) if name in self.stage else name

        needed = [n for n in operation.operands if n in self.loop.addresses]
        order: list[str] = []
        while needed:
            name = needed.pop()
            order.insert(0, name)
            needed += [n for n in self.loop.addresses[name].operands if n in self.loop.addresses]
        for name in dict.fromkeys(order):
            if f"{name}.{suffix}" not in known:
                known.add(f"{name}.{suffix}")
                lines.append(self._named(self.loop.addresses[name], f"{name}.{suffix}", renamed))
        lines.append(self._named(operation, f"{operation.name}.{suffix}", renamed))

    def _named(self, operation: Operation, name: str, renamed: Callable[[str], str]) -> str:
        left, equals, right = operation.text.partition(" = ")
        if not operation.name:
            return NAME.sub(lambda m: renamed(m[0]), left)
        assert equals
        return f"  {name} = " + NAME.sub(lambda m: renamed(m[0]), right)

    def _oldest_first(self) -> list[int]:
        """Operations of a round by iterations: one may read what that before has just computed."""
        return sorted(range(len(self.stages)), key=lambda i: -self.stages[i])

    def _prologue(self) -> list[str]:
        """Rounds 0 to stages - 2: round t computes stage s of iteration t - s."""
        lines: list[str] = []
        known: set[str] = set()
        for t in range(self.count - 1):
            for i in self._oldest_first():
                k = t - self.stages[i]
                if k < 0:
                    continue
                index = self._offset(self.loop.begin, k, f"p{k}", lines, known)

                def value(name: str, before: int, k: int = k) -> str:
                    return self._in_prologue(name, k + before)

                self._copy(i, f"p{k}", index, value, lines, known)
        return lines

    def _in_prologue(self, name: str, iteration: int) -> str:
        return self.begins[name] if iteration < 0 else f"{name}.p{iteration}"

    def _offset(self, start: str, by: int, suffix: str, lines: list[str], known: set[str]) -> str:
        """An index as a value: a number, or an addition."""
        if _is_number(start):
            return str(int(start) + by)
        name = f"%{self.prefix}.i.{suffix}"
        if name not in known:
            known.add(name)
            lines.append(f"  {name} = add nsw i64 {start}, {by}")
        return name

    def _kernel(self, order: Sequence[int]) -> list[str]:
        """The loop: round j computes stage s of iteration j - s."""
        lines: list[str] = []
        known: set[str] = set()
        round_ = f"%{self.prefix}.j"
        for i in order:
            s = self.stages[i]
            index = self._offset(round_, -s, f"k{s}", lines, known) if s else round_

            def value(name: str, before: int, s: int = s) -> str:
                return self._in_kernel(name, s - before - self.stage[name])

            self._copy(i, f"k{s}", index, value, lines, known)
        phis = [
            f"  {round_} = phi i64 [ {self._start()}, %{self.prefix}.prologue ], "
            f"[ {round_}.next, %{self.prefix}.kernel ]"
        ]
        for name, most in self.delays.items():
            for d in range(1, most + 1):
                first = self._in_prologue(name, self.count - 1 - d - self.stage[name])
                after = self._in_kernel(name, d - 1)
                phis.append(
                    f"  {name}.d{d} = phi {self.types[name]} [ {first}, "
                    f"%{self.prefix}.prologue ], [ {after}, %{self.prefix}.kernel ]"
                )
        ends = [
            f"  {round_}.next = add nsw i64 {round_}, 1",
            f"  %{self.prefix}.more = icmp slt i64 {round_}.next, {self.loop.end}",
            f"  br i1 %{self.prefix}.more, label %{self.prefix}.kernel, "
            f"label %{self.prefix}.epilogue",
        ]
        return [*phis, *lines, *ends]

    def _in_kernel(self, name: str, delay: int) -> str:
        """A value of some rounds before; a phi is made for each."""
        if not delay:
            return f"{name}.k{self.stage[name]}"
        self.delays[name] = max(self.delays.get(name, 0), delay)
        return f"{name}.d{delay}"

    def _start(self) -> str:
        if _is_number(self.loop.begin):
            return str(int(self.loop.begin) + self.count - 1)
        return f"%{self.prefix}.start"

    def _in_epilogue(self, name: str, back: int) -> str:
        """The value of an operation in the iteration that is so many before the last."""
        delay = back - self.stage[name]
        return self._in_kernel(name, delay) if delay >= 0 else f"{name}.e{back}"

    def _epilogue(self) -> list[str]:
        """Rounds after the last: stage s of iteration n - 1 - back runs where s > back."""
        lines: list[str] = []
        known: set[str] = set()
        for t in range(self.count - 1):
            for i in self._oldest_first():
                back = self.stages[i] - 1 - t
                if back < 0:
                    continue
                index = self._offset(self.loop.end, -1 - back, f"e{back}", lines, known)

                def value(name: str, before: int, back: int = back) -> str:
                    return self._in_epilogue(name, back - before)

                self._copy(i, f"e{back}", index, value, lines, known)
        return lines

    # The function around it.

    def _joined(self, prologue: list[str], body: list[str], epilogue: list[str]) -> str:
        """The function, in which the pipelined loop comes before the old one, or in its place."""
        loop, name = self.loop, self.prefix
        parts = blocks(self.old)
        results = self._results(parts)
        if self.trips is None:
            guard = [
                f"  %{name}.trips = sub nsw i64 {loop.end}, {loop.begin}",
                f"  %{name}.enough = icmp sge i64 %{name}.trips, {self.count}",
                f"  br i1 %{name}.enough, label %{name}.prologue, label %{loop.header}",
            ]
        else:
            guard = [f"  br label %{name}.prologue"]
        if not _is_number(loop.begin):
            prologue = [
                *prologue,
                f"  %{name}.start = add nsw i64 {loop.begin}, {self.count - 1}",
            ]
        new = {
            f"{name}.guard": guard,
            f"{name}.prologue": [*prologue, f"  br label %{name}.kernel"],
            f"{name}.kernel": body,
            f"{name}.epilogue": [*epilogue, f"  br label %{loop.exit}"],
        }
        out: list[str] = []
        head, tail = self.old.split("\nentry:\n", 1)[0], self.old.split("\n}", 1)[1]
        inside = {loop.header, loop.latch}
        for label, lines in parts.items():
            if label == loop.header:
                for made, content in new.items():
                    out += [f"{made}:", *content]
            if label in inside:
                if self.trips is not None:
                    continue
                lines = [x.replace(f"%{loop.before} ]", f"%{name}.guard ]") for x in lines]
            else:
                lines = [
                    re.sub(rf"label %{loop.header}\b(?!\.)", f"label %{name}.guard", x)
                    for x in lines
                ]
                lines = self._after(label, lines, results)
            out += [f"{label}:", *lines]
        return "\n".join([head, *out, "}"]) + tail

    def _results(self, parts: dict[str, list[str]]) -> dict[str, str]:
        """Values of the loop that are read after it, and what they are after the epilogue."""
        loop = self.loop
        inside = {loop.header, loop.latch}
        used = {
            name
            for label, lines in parts.items()
            if label not in inside
            for line in lines
            for name in NAME.findall(line)
        }
        results = {n: self._in_epilogue(n, 0) for n in self.stage if n in used}
        for phi in loop.phis:
            if phi.name in used:
                results[phi.name] = self._in_epilogue(phi.after, 0)
        if loop.index in used:
            results[loop.index] = loop.end
        return results

    def _after(self, label: str, lines: list[str], results: dict[str, str]) -> list[str]:
        """Lines after the loop, which read its results under new names."""
        if not results:
            return lines
        merged = {n: f"{n}.out" for n in results} if self.trips is None else results
        renamed = [NAME.sub(lambda m: merged.get(m[0], m[0]), line) for line in lines]
        if label != self.loop.exit or self.trips is not None:
            return renamed
        types = {phi.name: phi.type for phi in self.loop.phis} | self.types
        types[self.loop.index] = "i64"
        return [
            f"  {n}.out = phi {types[n]} [ {n}, %{self.loop.header} ], "
            f"[ {value}, %{self.prefix}.epilogue ]"
            for n, value in results.items()
        ] + renamed


def _is_number(text: str) -> bool:
    return text.lstrip("-").isdigit()
