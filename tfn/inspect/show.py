"""Pictures of compilation (`tfn.show`): a function at any stage of the compiler, as text.

jaxpr     the function as it was traced
shards    the program of one device of a mesh, and what it exchanges with the others
kernels   cut into kernels by barriers
ranges    each kernel as loops over scalars
splits    loops split and given a place, with the opt-ops that did it
linear    instructions in order: loops, vectors, addresses
llvm      the text of each kernel
driver    the text of the one function that runs them
memory    launches, and the plan of the arena
assembly  machine code of kernels and driver, as an assembler would read it
cycles    modulo schedules of innermost loops: cycles by slots, and whether none is shorter
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tfn._support.frozen import frozen
from tfn._support.lazy import by_name
from tfn._support.sections import cached_property
from tfn.eager import run
from tfn.errors import ArgumentError
from tfn.hw.compile.llvm import assembly
from tfn.hw.cpu.target import requested
from tfn.lower import pipeline
from tfn.lower.fuse.ranges import IndexedKernel, Region
from tfn.lower.languages import language_of, passes_of
from tfn.lower.loops import loop_nest, opt_ops
from tfn.lower.memory.planner import Schedule
from tfn.lower.program import Program
from tfn.lower.report import cost
from tfn.lower.report.print import instructions, memory, nest, notebook, stages
from tfn.lower.report.print.graph import Graph
from tfn.lower.target.target import Target
from tfn.trace.aval import Kind
from tfn.trace.inline import runnable
from tfn.trace.jaxpr import Jaxpr
from tfn.trace.op import Op
from tfn.trace.place import named_partition
from tfn.trace.uop import UOp
from tfn.transforms.jit import Jitted
from tfn.transforms.shard import program, report
from tfn.transforms.shard.program import Partitioned


class View:
    """One function on its way down, each stage made when it is first asked for."""

    def __init__(self, jaxpr: Jaxpr, target: Target, kinds: Sequence[Kind] = ()) -> None:
        self.jaxpr, self.target, self.kinds = jaxpr, target, kinds
        self.runnable = Jaxpr(runnable(run.place(jaxpr, kinds)[0].function)[0])

    @cached_property
    def partitioned(self) -> Partitioned | None:
        """The program of one device of the mesh of the arguments, if they have one."""
        partitions = [named_partition(kind) for kind in self.kinds]
        partitions += [None] * (len(self.jaxpr.params) - len(partitions))
        if program.mesh_of(self.jaxpr.function, partitions) is None:
            return None
        return program.partition(self.jaxpr, partitions)

    def shards(self) -> str:
        """The program of one device."""
        if self.partitioned is None:
            return f"on one device\n{self.jaxpr}"
        return report.text(self.partitioned)

    @cached_property
    def real(self) -> UOp:
        """The function without complex values."""
        function: UOp = passes_of(self.target).complex_pairs(self.runnable.function, self.target)
        return function

    @cached_property
    def stages(self) -> Sequence[IndexedKernel | Region]:
        """Its kernels over ranges, its loops and its branches."""
        return self.inside(self.real)[1]

    def inside(self, function: UOp) -> tuple[UOp, Sequence[IndexedKernel | Region]]:
        """A function with barriers, the whole or one in a loop, and its kernels over ranges."""
        passes = passes_of(self.target)
        with_barriers: UOp = passes.boundaries(function, self.target)
        return with_barriers, passes.ranges(with_barriers, self.target)

    @cached_property
    def graph(self) -> Graph:
        """Its equations by kernel, and the names of values."""
        return Graph(self.real, self.inside)

    @cached_property
    def schedule(self) -> Schedule:
        """Its steps, with a place for every value."""
        return pipeline.scheduled(self.runnable, self.target)

    @cached_property
    def program(self) -> Program:
        """All of it lowered."""
        return pipeline.program(self.runnable, self.schedule, language_of(self.target))

    def after(self, name: str, body: UOp) -> Any:
        """A kernel's body after the pass of this name."""
        value: Any = body
        for step in passes_of(self.target).of_kernel(body):
            value = step(value, self.target)
            if step.name == name:
                return value
        raise AssertionError(f"no pass is called {name}")

    def kernels(self, picture: Callable[[UOp, Sequence[str]], str]) -> str:
        """A picture of every kernel; a sort has only one."""

        def printer(body: UOp, names: Sequence[str]) -> str:
            return (stages.whole_kernel if body.op is Op.TUPLE else picture)(body, names)

        return stages.stages(self.graph, printer)

    def ranges(self, body: UOp, names: Sequence[str]) -> str:
        """A kernel as loops."""
        return nest.nest(loop_nest.nest(body), names)

    def splits(self, body: UOp, names: Sequence[str]) -> str:
        """A kernel as loops with places, and how they came about."""
        split_nest: loop_nest.Nest = self.after("split", body)
        opts = [f"# {opt_ops.show(opt)}" for opt in split_nest.opts]
        return "\n".join([*opts, nest.nest(split_nest, names)])

    def linear(self, body: UOp, names: Sequence[str]) -> str:
        """A kernel in order."""
        return instructions.instructions(self.after("linearize", body), names)

    @cached_property
    def cost(self) -> dict[str, float]:
        """Floating operations, transcendental functions and bytes of memory of one call."""
        work, (input_bytes, output_bytes) = (
            cost.work(self.real),
            cost.needed_bytes(self.jaxpr.function),
        )
        moved = report.moved_bytes(self.partitioned.spmd.function) if self.partitioned else {}
        return {
            "flops": float(work.flops),
            "transcendentals": float(work.transcendentals),
            "bytes accessed": cost.traffic_bytes(self.program.steps),
            "bytes in": input_bytes,
            "bytes out": output_bytes,
            **moved,
        }

    def text(self, stage: str) -> str:
        """The function at a stage.

        Raises:
            ArgumentError: if there is no such stage.
        """
        picture = STAGES.get(stage)
        if picture is None:
            raise ArgumentError(
                f"there is no stage {stage!r}",
                got=f"at={stage!r}",
                hint="stages are " + ", ".join(STAGES),
            )
        language = language_of(self.target)
        if stage in PROCESSOR_STAGES and not language.takes_llvm:
            raise ArgumentError(
                f"a grid has no stage {stage!r}: its driver compiles the text of kernels",
                got=f"a target whose kernels are in {language.name}",
                hint="at='text' is that text, at='memory' lists the launches",
            )
        return picture(self)

    def html(self, title: str, machine_code: bool = False) -> str:
        """The function in a notebook: figures, the arena as a picture, and stages to be unfolded.

        Args:
            title: the name of the function.
            machine_code: whether the assembly code is among the stages.
        """
        footprint, cost = self.program.footprint, self.cost
        figures = {
            "kernels": len(self.program.kernels),
            "floating operations": int(cost["flops"]),
            "transcendental functions": int(cost["transcendentals"]),
            "bytes moved": int(cost["bytes accessed"]),
            "bytes of arguments": footprint.argument_bytes,
            "bytes of results": footprint.output_bytes,
            "bytes between": footprint.temporary_bytes,
        }
        stages = [stage for stage in STAGES if machine_code or stage != "assembly"]
        stages.remove("cycles")  # it takes seconds
        texts = {stage: self.text(stage) for stage in stages}
        return notebook.unfolding(title, figures, texts, notebook.arena(self.schedule))

    def assembly(self) -> str:
        """The machine code of each distinct kernel, then of the driver."""
        texts = [*(kernel.text for kernel in self.program.kernels), self.program.text]
        return "\n".join(assembly(text, self.target).rstrip() for text in texts)

    def kernel_texts(self) -> str:
        """The text of each distinct kernel, in the language of the target."""
        return "\n".join(kernel.text for kernel in self.program.kernels).rstrip()


_CYCLES = by_name("tfn.inspect.cycles.schedules")

STAGES: dict[str, Callable[[View], str]] = {
    "jaxpr": lambda view: str(view.jaxpr),
    "shards": View.shards,
    "kernels": lambda view: str(view.graph),
    "ranges": lambda view: view.kernels(view.ranges),
    "splits": lambda view: view.kernels(view.splits),
    "linear": lambda view: view.kernels(view.linear),
    "llvm": View.kernel_texts,
    "text": View.kernel_texts,
    "driver": lambda view: view.program.text.rstrip(),
    "memory": lambda view: memory.memory(view.program, view.schedule, view.graph),
    "assembly": View.assembly,
    "cycles": lambda view: _CYCLES(view.program.kernels, view.target),
}
PROCESSOR_STAGES = frozenset({"llvm", "driver", "assembly", "cycles"})
"""Stages that only processors have, for which LLVM makes machine code."""


def view(jaxpr: Jaxpr, target: Target | str | None = None, kinds: Sequence[Kind] = ()) -> View:
    """A function on its way to a target, or to the default device, for arguments of kinds."""
    return View(jaxpr, requested(target, run.device().target), kinds)


@frozen
class Picture:
    """Text that a Python prompt shows as it is."""

    text: str

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text


def show(
    function: Callable[..., Any],
    *args: Any,
    at: str = "jaxpr",
    target: Target | str | None = None,
    **kwargs: Any,
) -> Picture:
    """Returns a function at one stage of its compilation, as text.

    Nothing is run; arrays are read for their shapes only, so `ShapeDtypeStruct` will do.  A prompt
    shows the result as it is, and ``str()`` gives the text.

    Args:
        function: a function of arrays, jitted or not.
        args, kwargs: arguments of the function; `ShapeDtypeStruct` will do for an array.
        at: a stage: jaxpr, shards, kernels, ranges, splits, linear, llvm, text, driver, memory,
            assembly or cycles.  The text of kernels is LLVM IR, or the language of a grid.
        target: the machine that code is generated for, a `Target` or the name of one, such as
            x86-64-v3; that of the default device if None.

    Raises:
        ArgumentError: if there is no such stage.

    Example:
        >>> import tfn
        >>> rows = tfn.ShapeDtypeStruct((4, 9), "float32")
        >>> tfn.show(lambda x: tfn.numpy.exp(x).sum(axis=1), rows, at="ranges")
        kernel 0: d:f32[4] <- a:f32[4,9]
          for r0 in 4:
            v0:f32 = 0.0
            for r1 in 9:
              v0 += exp(a[r0 * 9 + r1])
            d[r0] = v0
    """
    traced = (function if isinstance(function, Jitted) else Jitted(function)).trace(*args, **kwargs)
    return Picture(view(traced.jaxpr, target, traced.kinds).text(at))
