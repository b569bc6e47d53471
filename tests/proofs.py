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
from collections.abc import Callable, Iterable
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
from tfn.trace.uop import walk

KEY = "bounds_proofs"
"""The name of a worker's sums among what it sends to the main process."""


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
    """

    def __init__(self) -> None:
        self.sums = Sums()
        self.operand_bytes: dict[Kernel, dict[int, int]] = {}

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
            return program

        return lowered

    def program(self, program: Program, target: Target, language: Language | None) -> None:
        """Verify the kernels that are new, and where each launch has its operands."""
        for launch in program.launches:
            if launch.kernel in self.operand_bytes:
                continue
            result, self.operand_bytes[launch.kernel] = verify.checked(0, launch, target, language)
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

    def fail(self, unproved: Iterable[str]) -> None:
        """Note what is not proved, with the present test."""
        test = os.environ.get("PYTEST_CURRENT_TEST", "collection").split(" (")[0]
        self.sums.unproved += [f"{test}: {text}" for text in unproved]

    # Hooks of pytest.

    def pytest_sessionstart(self) -> None:
        """Verify from here on: what is lowered, and what is found on disk, lowered again."""
        pipeline.lower = self.lower(pipeline.lower)
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
