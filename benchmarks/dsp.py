"""Packets of the DSP: modulo schedules beside the loops that LLVM emits, counted by the emulator.

    python benchmarks/dsp.py                     loops, layers of the quantized CNN, images a second
    python benchmarks/dsp.py --only saxpy,relu   some rows
    python benchmarks/dsp.py --seconds 10        of tuning, for each row

Columns: packets of an iteration as LLVM orders the heuristics' loop, and their cycles; the interval
of its shortest modulo schedule and how that was proved; packets of an iteration of the pipelined
loop, with the best number of stages, unless LLVM's own loop is as short.  Then packets that
qemu-hexagon executes for the whole function: of plain loops that LLVM vectorises and unrolls by
itself (-O3), of the heuristics' loops, and of those that `tfn.tune(by="cycles")` chooses; and the
same for each multiply-accumulate or element.  Results are compared bit by bit.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import tfn
from tfn import numpy as jnp
from tfn.config import config
from tfn.eager import run
from tfn.hw.compile import llvm
from tfn.hw.compile.server import CompileServer
from tfn.hw.dsp.commands import BASE, Launch
from tfn.hw.dsp.linker import link
from tfn.lower import pipeline
from tfn.lower.loops import loop_nest, opt_ops
from tfn.lower.pack import assembly, modulo, optimal
from tfn.lower.pack.instructions import Loop
from tfn.lower.pack.machine import HEXAGON
from tfn.lower.pack.pipelined import pipelined
from tfn.lower.program import Kernel
from tfn.lower.target.target import Target
from tfn.nn import quantize
from tfn.nn.convolution import Steps

sys.path.append(str(Path(__file__).parents[1] / "examples"))

SCHEDULE_SECONDS = 10.0
"""For z3, for each loop."""
BATCH = 200
"""Images that are classified in a call, which is timed; the first call, which compiles, is not."""

SAME, VALID = (Steps((1, 1), padding, (1, 1), 1) for padding in ("SAME", "VALID"))


@dataclass(frozen=True)
class Case:
    """A function of arrays of one dtype, and its multiply-accumulates, or elements."""

    function: Callable[..., Any]
    dtype: str
    shapes: tuple[tuple[int, ...], ...]
    work: int


def case(function: Callable[..., Any], dtype: str, *shapes: tuple[int, ...], work: int) -> Case:
    """Of some shapes."""
    return Case(function, dtype, shapes, work)


def elementwise(function: Callable[..., Any], dtype: str, count: int) -> Case:
    """Of vectors."""
    return case(function, dtype, *((4096,),) * count, work=4096)


CASES: dict[str, Case] = {
    "int8 dot": elementwise(lambda x, y: (x.astype("int32") * y.astype("int32")).sum(), "int8", 2),
    "int8 relu": elementwise(lambda x: jnp.maximum(x, 0), "int8", 1),
    "int16 axpy": elementwise(lambda x, y: x * np.int16(3) + y, "int16", 2),
    "int32 axpy": elementwise(lambda x, y: x * np.int32(3) + y, "int32", 2),
    "int32 sum": elementwise(lambda x: x.sum(), "int32", 1),
    "int32 clip": elementwise(lambda x: jnp.clip(x, -7, 90), "int32", 1),
    "saxpy": elementwise(lambda x, y: x * np.float32(3) + y, "float32", 2),
    "float32 dot": elementwise(lambda x, y: (x * y).sum(), "float32", 2),
    "int32 matmul": case(lambda x, y: x @ y, "int32", (64, 64), (64, 64), work=64**3),
    "float32 matmul": case(lambda x, y: x @ y, "float32", (64, 64), (64, 64), work=64**3),
    "int8 matmul": case(quantize.matmul, "int8", (64, 128), (128, 256), work=64 * 128 * 256),
    "int8 conv 3x3": case(
        lambda x, w: quantize.conv(x, w, SAME),
        "int8",
        (1, 16, 16, 16),
        (3, 3, 16, 32),
        work=16 * 16 * 9 * 16 * 32,
    ),
    # The layers of the quantized CNN of examples/quantized_mnist.py, for 8 images.
    "CNN: first": case(
        lambda x, w: quantize.conv(x, w, SAME),
        "int8",
        (8, 28, 28, 1),
        (3, 3, 1, 16),
        work=8 * 28 * 28 * 9 * 16,
    ),
    "CNN: second": case(
        lambda x, w: quantize.conv(x, w, VALID),
        "int8",
        (8, 14, 14, 16),
        (3, 3, 16, 32),
        work=8 * 12 * 12 * 9 * 16 * 32,
    ),
    "CNN: hidden": case(quantize.matmul, "int8", (8, 1152), (1152, 128), work=8 * 1152 * 128),
    "CNN: out": case(quantize.matmul, "int8", (8, 128), (128, 10), work=8 * 128 * 10),
}


# r1:0 = c21:20, the emulator's counts of instructions and packets; then jumpr r31.
COUNTERS = """
@counters = constant [2 x i32] [i32 1746190336, i32 1386201088], section ".text.counters", align 16
define void @count(i64 %a, i64 %b, ptr %buffers, ptr %arena, ptr %sync) {
  %to = load ptr, ptr %buffers, align 4
  %n = call i64 @counters()
  store i64 %n, ptr %to, align 8
  ret void
}
"""


class Counter:
    """Packets of calls on the DSP: its queue, with a count before and after each batch."""

    def __init__(self) -> None:
        self.device = run.device()
        self.queue: Any = self.device.queue
        code = self.device.compiler.compile(COUNTERS, self.device.target)
        self.queue.start()
        shared = self.queue.shared
        place = self.queue._code.allocate(len(link([code], BASE).data))
        image = link([code], shared.base + place.begin)
        ctypes.memmove(shared.address + place.begin, image.data, len(image.data))
        self._at = [self.device.memory.copy(np.zeros(2, np.uint32)) for _ in range(2)]
        self._reads = [
            Launch(image.symbols["count"], 0, (shared.on_device(x.address),)) for x in self._at
        ]
        self._run, self.queue.run = self.queue.run, self._counted
        self.last = self._empty = 0
        self.queue.run([])
        self._empty = self.last

    def _counted(self, batch: Sequence[Any], *rest: Any) -> None:
        before, after = self._reads
        self._run([before, *batch, after], *rest)
        one, two = (int(x.view((2,), np.dtype(np.uint32))[0]) for x in self._at)
        self.last = (two - one) % 2**32 - self._empty


def optimised(text: str, target: Target) -> str:
    """LLVM IR after LLVM's own passes: loops become vectors and are unrolled as it sees fit."""
    library, machine = llvm.binding(), llvm.machine(target)
    attributes = f'"target-cpu"="{target.cpu}" "target-features"="{target.features}"'
    text = text.replace('"no-builtins"', f'"no-builtins" {attributes}')
    module = library.parse_assembly(text, library.create_context())
    module.triple, module.data_layout = target.triple, str(machine.target_data)
    options = library.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = True
    builder = library.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return str(module)


def executed(given: Case, operands: Sequence[Any], counter: Counter) -> tuple[Any, int]:
    """The result of a function, compiled anew, and the packets of a call."""
    pipeline.forget()
    run.forget()
    compiled = tfn.jit(lambda *xs: given.function(*xs))
    compiled(*operands)
    return np.asarray(compiled(*operands)), counter.last


def executed_by_llvm(given: Case, operands: Sequence[Any], counter: Counter) -> tuple[Any, int]:
    """The same, with plain loops that LLVM optimises."""
    passes, compiler = pipeline.passes, counter.device.compiler
    translate = compiler._translate
    plain = replace(passes.split, run=lambda body, _: loop_nest.simplified(loop_nest.nest(body)))
    pipeline.passes = replace(passes, split=plain)
    compiler._translate = lambda texts, target, level: translate(
        [optimised(text, target) for text in texts], target, level
    )
    try:
        return executed(given, operands, counter)
    finally:
        pipeline.passes, compiler._translate = passes, translate
        pipeline.forget()
        run.forget()


def innermost(text: str, target: Target) -> Loop | None:
    """The longest innermost loop of a kernel, as LLVM emits it."""
    code = SERVER.assembly(text, target)
    loops = [x for x in assembly.divided(code, "hexagon").loops if not x.unknown]
    kernels = [x for x in loops if x.name.endswith(".kernel")] or loops
    return max(kernels, key=lambda x: x.packets, default=None)


SERVER = CompileServer()
PROOFS = {"resources": "units", "recurrence": "recurrence", "z3": "z3", "deadline": "open"}


def loop_cells(kernels: Sequence[Kernel], target: Target) -> list[str]:
    """Of the longest loop: LLVM's packets, the interval with its proof, ours with the stages."""
    found = [(loop, k) for k in kernels if (loop := innermost(k.text, target)) is not None]
    if not found:
        return ["-"] * 4
    loop, kernel = max(found, key=lambda pair: pair[0].packets)
    schedule = optimal.schedule(loop, HEXAGON, SCHEDULE_SECONDS)
    interval = "-"
    if schedule is not None:
        least = "" if schedule.is_minimal else f" (>= {schedule.bound})"
        interval = f"{schedule.interval}{least} {PROOFS[schedule.proof]}"
    best, stages = loop.packets, 0
    for count in range(1, opt_ops.MAX_STAGES + 1):
        text = pipelined(kernel.text, "hexagon", count)
        made = innermost(text, target) if text != kernel.text else None
        if made is not None and made.packets < best:
            best, stages = made.packets, count
    cycles = str(modulo.emitted_cycles(loop, HEXAGON))
    return [str(loop.packets), cycles, interval, f"{best} ({stages})" if stages else "LLVM's"]


def row(name: str, given: Case, seconds: float, counter: Counter) -> list[str]:
    """The cells of a case."""
    rng = np.random.default_rng(0)
    operands = [
        (
            rng.normal(size=shape) if given.dtype == "float32" else rng.integers(-128, 128, shape)
        ).astype(given.dtype)
        for shape in given.shapes
    ]
    target = counter.device.target
    jaxpr = tfn.jit(lambda *xs: given.function(*xs)).trace(*operands).jaxpr
    cells = loop_cells(pipeline.lower(jaxpr, target).kernels, target)
    expected, before = executed(given, operands, counter)
    try:
        same, plain = executed_by_llvm(given, operands, counter)
    except (tfn.errors.CompileError, tfn.errors.DeviceError) as error:
        same, plain = expected, 0
        print(f"{name}: LLVM's own loops: {error.what}", file=sys.stderr)
    tfn.tune(given.function, *operands, seconds=seconds, quiet=True, by="cycles")
    got, after = executed(given, operands, counter)
    np.testing.assert_array_equal(got, expected)
    if given.dtype != "float32":  # LLVM adds floats in another order
        np.testing.assert_array_equal(same, expected)
    counts = [f"{n:,}" if n else "-" for n in (plain, before, after)]
    return [name, *cells, *counts, *(f"{n / given.work:.4f}" for n in (plain, before, after))]


def images_per_second(counter: Counter, seconds: float) -> None:
    """The quantized CNN: images a second and packets of an image, before tuning and after."""
    import mnist
    import quantized_mnist
    from quantized_mnist import Quantizations, QuantizedCNN

    images = mnist.load("train", 500)
    floats = mnist.CNN.init(tfn.random.key(0))
    ranges = quantize.calibrate(
        lambda x: quantized_mnist.activations(floats, x), [images.pixels[:100]]
    )
    network = QuantizedCNN.of(floats, Quantizations.of(ranges))
    pixels = np.asarray(mnist.load("t10k", BATCH).pixels)
    macs = 28 * 28 * 9 * 16 + 12 * 12 * 9 * 16 * 32 + 1152 * 128 + 1280
    results = []
    for tuned in (False, True):
        if tuned:
            tfn.tune(network, pixels, seconds=seconds * 10, quiet=True, by="cycles")
        pipeline.forget()
        run.forget()
        compiled = tfn.jit(lambda network, pixels: network(pixels))
        results.append(np.asarray(compiled(network, pixels)))
        began = time.perf_counter()
        compiled(network, pixels)
        rate = BATCH / (time.perf_counter() - began)
        packets = counter.last / BATCH
        print(
            f"quantized CNN, {'tuned' if tuned else 'as the heuristics have it'}: "
            f"{packets:,.0f} packets an image, {packets / macs:.4f} for each multiply-accumulate; "
            f"{rate:.1f} images/s under the emulator"
        )
    np.testing.assert_array_equal(*results)


def main() -> int:
    """Print the table; the exit status."""
    parser = argparse.ArgumentParser(description="Packets of loops on the DSP, by its emulator.")
    parser.add_argument("--only", help="rows, separated by commas, or words in their names")
    parser.add_argument("--seconds", type=float, default=20.0, help="of tuning; %(default)s")
    parser.add_argument("--no-images", action="store_true", help="leave out the CNN")
    options = parser.parse_args()
    words = options.only.split(",") if options.only else [""]
    config.device, config.cache_dir = "dsp", tempfile.mkdtemp(prefix="tfn-dsp-")
    counter = Counter()
    headings = (
        "loop",
        "LLVM",
        "cycles",
        "II",
        "ours (stages)",
        "executed: -O3",
        "model",
        "tuned",
        "each: -O3",
        "model",
        "tuned",
    )
    table = Table(*headings, box=None)
    for name, given in CASES.items():
        if any(word in name for word in words):
            table.add_row(*row(name, given, options.seconds, counter))
    Console(width=150).print(table)
    if not options.no_images:
        images_per_second(counter, options.seconds)
    SERVER.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
