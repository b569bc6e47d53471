"""What one core of the machine does at most, and what a row of the race has to do at least.

The machine is measured by kernels in LLVM IR that do nothing else: products and sums of registers;
reading, writing and copying as many bytes as a row has, so that data that fit into a cache are held
against the cache.  What a row has to do is counted in its program: the operations on floating
numbers, the bytes of its arguments and of its results, each of them once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import tfn
from tfn.hw.cpu.target import host

SIZES = tuple(1 << k for k in range(18, 29))
"""Bytes that are read, written, or half read and half written."""

REPEATS = 5
"""The best of so many samples counts."""

ACCUMULATORS, ROUNDS = 12, 50_000
"""Sums that are open at once, enough to hide the latency; and how often each is added to."""

STREAMS = 2, 4
"""Places that are read at once: a core fetches ahead in several."""

VECTOR, UNROLLED = 64, 8
"""Bytes that are read or written at once, by one instruction or more; and how often in a row."""

WORTH = 0.1
"""What takes less than so much of a row's time is no limit of it."""

LOOP = """
define void @{name}(i64 %begin, i64 %end, ptr %operands) {{
entry:
  %out = load ptr, ptr %operands
  %second = getelementptr ptr, ptr %operands, i64 1
  %in = load ptr, ptr %second
  %third = getelementptr ptr, ptr %operands, i64 2
  %place = load ptr, ptr %third
  %size = load i64, ptr %place
{before}  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{body}  %next = add i64 %i, {step}
  %more = icmp ult i64 %next, {until}
  br i1 %more, label %loop, label %done
done:
{after}  ret void
}}
"""
"""A kernel of three buffers: the result, an operand, and a size."""

LARGEST = SIZES[-1]
"""What the buffers hold."""


def best(run: Callable[[], Any], seconds: float) -> float:
    """Seconds of CPU time of one run; each sample takes about so many."""
    run()
    found, count = float("inf"), 1
    for _ in range(REPEATS):
        began = time.process_time()
        for _ in range(count):
            run()
        spent = time.process_time() - began
        found = min(found, spent / count)
        count = max(1, int(seconds / found))
    return found


# Arithmetic.


def peaks(seconds: float) -> dict[str, float]:
    """Operations in a second, by dtype: two for each product that is added to a sum."""
    lanes = host().vector_bytes // 4
    vectors = {
        "float32": (f"<{lanes} x float>", f"@llvm.fma.v{lanes}f32", 2 * lanes),
        "float64": (f"<{lanes // 2} x double>", f"@llvm.fma.v{lanes // 2}f64", lanes),
    }
    found = {dtype: _speed(dtype, v, v, f, n, seconds) for dtype, (v, f, n) in vectors.items()}
    if "+avx512bf16" in host().features:
        instruction = "@llvm.x86.avx512bf16.dpbf16ps.512"
        found["bfloat16"] = _speed(
            "bfloat16", "<16 x float>", "<32 x bfloat>", instruction, 64, seconds
        )
    return found


def _speed(
    name: str, sums: str, factors: str, instruction: str, operations: int, seconds: float
) -> float:
    """Of an instruction ``sums = f(sums, factors, factors)``, or fma, which takes the sums last."""
    types, values = [sums, factors, factors], ["%s{0}", "%a", "%b"]
    if "fma" in instruction:
        types, values = types[::-1], values[::-1]
    declared = f"declare {sums} {instruction}({', '.join(types)})\n"
    given = ", ".join(f"{t} {v}" for t, v in zip(types, values))
    line = f"  %t{{0}} = call {sums} {instruction}({given})\n"
    phi = f"  %s{{0}} = phi {sums} [ %start, %entry ], [ %t{{0}}, %loop ]\n"
    keep = f"  store volatile {sums} %t{{0}}, ptr %out, align 4\n"
    before = "".join(
        f"  %{v} = load {t}, ptr %in, align 4\n"
        for v, t in (("start", sums), ("a", factors), ("b", factors))
    )
    text = declared + LOOP.format(
        name=name,
        before=before,
        body=_repeated(phi, ACCUMULATORS) + _repeated(line, ACCUMULATORS),
        step=1,
        until="%size",
        after=_repeated(keep, ACCUMULATORS),
    )
    run = _kernel(name, text, 64, 64)
    return ACCUMULATORS * ROUNDS * operations / best(lambda: run(ROUNDS), seconds)


def _repeated(line: str, count: int) -> str:
    return "".join(line.format(k) for k in range(count))


def _kernel(name: str, text: str, taken: int, given: int) -> Callable[[int], Any]:
    """A text as a function of a size, on buffers of so many bytes."""
    takes, gives = (tfn.ShapeDtypeStruct((n // 4,), "float32") for n in (taken, given))
    size = tfn.ShapeDtypeStruct((1,), "int64")
    run = tfn.jit(tfn.kernel(text, name=name, takes=(takes, size), gives=gives))
    operand = _ones(takes.size)
    sizes = {n: tfn.numpy.array([n], "int64") for n in (ROUNDS, SIZES[0] // 2, *SIZES)}
    return lambda n: run(operand, sizes[n])


@cache
def _ones(size: int) -> tfn.Array:
    return tfn.numpy.ones(size, "float32")


# Memory.


def bandwidths(seconds: float) -> dict[str, list[float]]:
    """Bytes in a second that are read, written and copied (read or written), for each of `SIZES`.

    Of several ways the fastest counts: what is written may go past the caches, or into them.
    """
    read, write = (LARGEST, 64), (64, LARGEST)
    copy = LARGEST // 2, LARGEST // 2
    ways = {
        "read": [_kernel("read", _reading(streams), *read) for streams in STREAMS],
        "write": [_kernel("write", _writing("write", past), *write) for past in (False, True)],
        "copy": [_kernel("copy", _writing("copy", past), *copy) for past in (False, True)],
    }
    parts = {"read": 1, "write": 1, "copy": 2}
    return {
        kind: [
            size / min(best(partial(run, size // parts[kind]), seconds) for run in runs)
            for size in SIZES
        ]
        for kind, runs in ways.items()
    }


def _reading(streams: int) -> str:
    """All of a buffer, combined into nothing much."""
    each = UNROLLED // streams
    before = f"  %part = udiv i64 %size, {streams}\n  %at0 = add i64 0, 0\n"
    before += "".join(f"  %at{k} = add i64 %at{k - 1}, %part\n" for k in range(1, streams))
    phis = "  %s{0} = phi <16 x i32> [ zeroinitializer, %entry ], [ %t{0}, %loop ]\n"
    lines = "".join(
        f"  %o{k} = add i64 %at{k // each}, {k % each * VECTOR}\n  %j{k} = add i64 %i, %o{k}\n"
        f"  %p{k} = getelementptr i8, ptr %in, i64 %j{k}\n"
        f"  %v{k} = load <16 x i32>, ptr %p{k}, align 4\n"
        f"  %t{k} = or <16 x i32> %s{k}, %v{k}\n"
        for k in range(UNROLLED)
    )
    after = "  store volatile <16 x i32> %t{0}, ptr %out, align 4\n"
    return LOOP.format(
        name="read",
        before=before,
        body=_repeated(phis, UNROLLED) + lines,
        step=each * VECTOR,
        until="%part",
        after=_repeated(after, UNROLLED),
    )


def _writing(kind: str, past: bool) -> str:
    """A buffer of one number, or of what another has; `past` the caches, or into them.

    The number is not zero: there are processors that write zeros three times as fast.
    """
    how = f"align {VECTOR}, !nontemporal !0" if past else "align 4"
    copied = kind == "copy"
    read = (
        "  %p{0} = getelementptr i8, ptr %in, i64 %j{0}\n"
        "  %v{0} = load <16 x i32>, ptr %p{0}, align 4\n"
    )
    line = (
        "  %o{0} = mul i64 {0}, 64\n  %j{0} = add i64 %i, %o{0}\n"
        + copied * read
        + "  %q{0} = getelementptr i8, ptr %out, i64 %j{0}\n"
        + f"  store <16 x i32> {'%v{0}' if copied else 'splat (i32 1)'}, ptr %q{{0}}, {how}\n"
    )
    text = LOOP.format(
        name=kind,
        before="",
        body=_repeated(line, UNROLLED),
        step=UNROLLED * VECTOR,
        until="%size",
        after="",
    )
    return text + "!0 = !{i32 1}\n"


def measured(environment: dict[str, str], seconds: float) -> dict[str, Any]:
    """All limits of the machine, as a process of its own measures them."""
    command = [sys.executable, __file__, str(seconds)]
    said = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout
    found: dict[str, Any] = json.loads(said)
    return found


def main() -> None:
    """Measure, and print what was found as JSON."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    seconds = float(sys.argv[1])
    found = {"peaks": peaks(seconds), "sizes": SIZES, "bandwidths": bandwidths(seconds)}
    print(json.dumps(found))


# Rows.


def needs(step: Any) -> dict[str, Any] | None:
    """What a step has to do, if it is one call of a compiled function."""
    if not hasattr(step, "calls"):
        return None
    function, args, kwargs = step.calls
    lowered = function.lower(*args, **kwargs)
    cost = lowered.cost_analysis()
    sizes: dict[str, int] = {}
    for leaf in tfn.tree.leaves(lowered.in_avals):
        if leaf.dtype.name in ("float32", "float64", "bfloat16"):
            sizes[leaf.dtype.name] = sizes.get(leaf.dtype.name, 0) + leaf.size
    return {
        "dtype": max(sizes, key=sizes.__getitem__, default="float32"),
        "flops": cost["flops"],
        "bytes_in": cost["bytes in"],
        "bytes_out": cost["bytes out"],
    }


def bounds(machine: dict[str, Any], row: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """The seconds that each limit of the machine asks for a row."""
    yield "FMA", row["flops"] / machine["peaks"].get(row["dtype"], float("inf"))
    taken, given = row["bytes_in"], row["bytes_out"]
    fits = [k for k, size in enumerate(machine["sizes"]) if size <= taken + given]
    if fits:
        speed = {kind: values[fits[-1]] for kind, values in machine["bandwidths"].items()}
        both = min(taken, given)
        alone = (taken - both) / speed["read"] + (given - both) / speed["write"]
        yield "bandwidth", 2 * both / speed["copy"] + alone


def share(machine: dict[str, Any], row: dict[str, Any] | None, seconds: float) -> str:
    """How near a row is to the limit that is nearest, in words."""
    if row is None or "error" in row:
        return ""
    limit, least = max(bounds(machine, row), key=lambda bound: bound[1])
    return f"{least / seconds:.0%} {limit}" if least >= WORTH * seconds else ""


def described(machine: dict[str, Any]) -> str:
    """The limits in one line."""
    peaks = ", ".join(f"{v / 1e9:.0f} {k}" for k, v in machine["peaks"].items())
    memory = ", ".join(f"{v[-1] / 1e9:.0f} {k}" for k, v in machine["bandwidths"].items())
    return f"one core: GFLOP/s {peaks}; GB/s of memory {memory}"


if __name__ == "__main__":
    main()
