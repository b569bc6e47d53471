"""Bounds proofs of all kernels that tests compile: a plugin of pytest.

Each program that is lowered in the process of a test is verified as `tfn.verify` does it: every
load and store of its kernels within their operands, every operand within its buffer.  A kernel is
verified once for each size of its operands.  The run fails if an access is not proved; the sums are
printed at the end:

    bounds: 81,205 loads and stores of 9,120 kernels proved, 2,310 by z3, 64 assumed, 0 unproved

Kernels that a test writes as text have no instructions to verify, and are counted as such.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import pytest

from tfn.eager import program_cache
from tfn.inspect import verify
from tfn.lower import pipeline
from tfn.lower.languages import Language
from tfn.lower.program import Kernel, Program
from tfn.lower.report.verify.operands import out_of_bounds
from tfn.lower.target.target import Target
from tfn.trace.jaxpr import Jaxpr
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk

KEY = "bounds_proofs"
"""The name of a worker's sums among what it sends to the main process."""

MOST = 500
"""Kernels whose instructions are kept until their program is verified."""


@dataclass
class Sums:
    """Proofs of one process, or of all.

    Attributes:
        kernels: the number verified, each with one list of operand sizes.
        as_text: the number of kernels without instructions.
        accesses, by_solver, assumed: loads and stores; how many of them were proved by z3, and
            under an assumption about the contents of memory.
        unproved: accesses and operands that may be out of bounds, with the test that compiled them.
    """

    kernels: int = 0
    as_text: int = 0
    accesses: int = 0
    by_solver: int = 0
    assumed: int = 0
    unproved: list[str] = field(default_factory=list)

    def add(self, other: dict[str, Any]) -> None:
        """Add the sums of a worker."""
        for f in fields(self):
            setattr(self, f.name, getattr(self, f.name) + other[f.name])

    def __str__(self) -> str:
        text = f", {self.as_text} kernels written as text" if self.as_text else ""
        return (
            f"bounds: {self.accesses - len(self.unproved):,} loads and stores of {self.kernels:,} "
            f"kernels proved, {self.by_solver:,} by z3, {self.assumed:,} assumed, "
            f"{len(self.unproved):,} unproved{text}"
        )


class Proofs:
    """Verifies programs as they are lowered.

    Attributes:
        sums: of this process, and in the main process of its workers.
        operand_bytes: the sizes that each verified kernel takes its operands to have.
        items: the instructions of kernels that have just been lowered, by their body and text.
        here: `rendered` has the instructions of texts that this thread made for the last kernel.
    """

    def __init__(self) -> None:
        self.sums = Sums()
        self.operand_bytes: dict[Kernel, dict[int, int]] = {}
        self.items: dict[tuple[UOp | None, str], tuple[UOp, ...]] = {}
        self.here = threading.local()

    def render(self, render: Callable[..., str]) -> Callable[..., str]:
        """`pipeline._render_kernel`, which notes what it renders."""

        def rendered(
            language: Language, target: Target, items: Sequence[UOp], stages: int, name: str
        ) -> str:
            text = render(language, target, items, stages, name)
            getattr(self.here, "rendered", {})[text] = tuple(items)
            return text

        return rendered

    def make(self, make: Callable[..., Kernel]) -> Callable[..., Kernel]:
        """`pipeline._load_or_lower`, which notes the instructions: no proof lowers them again."""

        def made(body: UOp, target: Target, language: Language) -> Kernel:
            self.here.rendered = {}
            kernel = make(body, target, language)
            text = kernel.text.replace(language.symbol_prefix + kernel.name, "@@")
            items = self.here.rendered.get(text)  # none of a kernel that was found on disk
            if items is not None and len(self.items) < MOST:
                self.items[body, kernel.text] = items
            return kernel

        return made

    def lower(self, lower: Callable[..., Program]) -> Callable[..., Program]:
        """`pipeline.lower`, with a proof of each program that it gives."""

        def lowered(
            jaxpr: Jaxpr,
            target: Target,
            language: Language | None = None,
            hoist: bool = False,
        ) -> Program:
            program = lower(jaxpr, target, language, hoist)
            self.program(program, target, language)
            self.items.clear()
            return program

        return lowered

    def program(self, program: Program, target: Target, language: Language | None) -> None:
        """Verify the kernels that are new, and where each launch has its operands."""
        for launch in program.launches:
            if launch.kernel in self.operand_bytes:
                continue
            items = self.items.get((launch.kernel.source, launch.kernel.text))
            result, size_bytes = verify.checked(0, launch, target, language, items)
            self.operand_bytes[launch.kernel] = size_bytes
            source = launch.kernel.source
            if source is not None and any(u.op is Op.KERNEL for u in walk([source])):
                self.sums.as_text += 1
                continue
            self.sums.kernels += 1
            self.sums.accesses += result.accesses
            self.sums.by_solver += result.by_solver
            self.sums.assumed += result.assumed
            self.fail(f"{result.name}: {text}" for text in result.unproved)
        self.fail(out_of_bounds(program, self.operand_bytes))
        if program.prelude is not None:
            self.program(program.prelude, target, language)

    def fail(self, unproved: Iterable[str]) -> None:
        """Note what is not proved, with the present test."""
        test = os.environ.get("PYTEST_CURRENT_TEST", "collection").split(" (")[0]
        self.sums.unproved += [f"{test}: {text}" for text in unproved]

    # Hooks of pytest.

    def pytest_sessionstart(self) -> None:
        """Verify from here on: what is lowered, and what is found on disk, lowered again."""
        pipeline.lower = self.lower(pipeline.lower)
        pipeline._load_or_lower = self.make(pipeline._load_or_lower)
        pipeline._render_kernel = self.render(pipeline._render_kernel)
        find = program_cache.find

        def found(jaxpr: Jaxpr, target: Target, hoist: bool) -> Program | None:
            program = find(jaxpr, target, hoist)
            if program is not None:
                pipeline.with_bodies(program, target)
            return program

        program_cache.find = found

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add the sums of a worker that has ended."""
        self.sums.add(getattr(node, "workeroutput", {}).get(KEY, asdict(Sums())))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Send the sums to the main process; fail if an access is not proved."""
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[KEY] = asdict(self.sums)
        elif self.sums.unproved and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the sums, and what is not proved."""
        for text in self.sums.unproved:
            terminalreporter.write_line(f"out of bounds, or unproved: {text}", red=True)
        terminalreporter.write_line(str(self.sums))
