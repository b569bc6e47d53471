"""Bounds proofs (`tfn.verify`): every load and store of a program is in bounds.

    print(tfn.verify(step, network, images))

For each kernel it is proved of the instructions, from which its text is written, that each access
stays within its operand, for all values of loops, lanes and predicates (`lower.report.verify`).
For each launch it is proved that its operands stay within the inputs, the outputs and the arena,
for all values of the loops around it.

Both are about memory, not about values: that results are right is what tests are for.  And both are
about instructions: that compilers and writers of text do as these say is believed, and tested under
sanitizers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tfn.errors import CompileError
from tfn.extend import (
    Jitted,
    Kernel,
    Language,
    Op,
    Program,
    Space,
    Target,
    UOp,
    frozen,
    of_whole,
    pipeline,
    requested,
    run,
)
from tfn.lower.codegen.sort import sort
from tfn.lower.program import Launch
from tfn.lower.report.verify import accesses
from tfn.lower.report.verify.operands import out_of_bounds


@frozen
class Checked:
    """The proofs of the accesses of a kernel.

    Attributes:
        number: as `tfn.show` counts them.
        name: of the function.
        by_intervals, by_solver: loads and stores that were proved so.
        assumed: those that were proved under an assumption.
        unproved: what was not proved, in words.
        assumption: what is believed of this kernel, "" if nothing is.
    """

    number: int
    name: str
    by_intervals: int
    by_solver: int
    assumed: int
    unproved: tuple[str, ...]
    assumption: str

    @property
    def accesses(self) -> int:
        """The number of loads and stores."""
        return self.by_intervals + self.by_solver + self.assumed + len(self.unproved)


@frozen
class Report:
    """The proofs of a program; it prints as a table.

    Attributes:
        kernels: in order of first use; one text may serve arrays of several sizes, and is then
            checked for each.
        launches: steps whose operands have been placed in memory.
        misplaced: operands that leave it, in words.
    """

    kernels: tuple[Checked, ...]
    launches: int
    misplaced: tuple[str, ...]

    @property
    def proved(self) -> bool:
        """Whether all is in bounds, given what is assumed."""
        return not self.wrong

    @property
    def wrong(self) -> tuple[str, ...]:
        """All that could not be proved, in words."""
        return self.misplaced + tuple(
            f"kernel {kernel.number}, {kernel.name}: {text}"
            for kernel in self.kernels
            for text in kernel.unproved
        )

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions that proofs rest on."""
        texts = (k.assumption for k in self.kernels if k.assumed or k.unproved)
        return tuple(dict.fromkeys(text for text in texts if text))

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [
            ("kernel", "accesses", "by intervals", "by z3", "assumed", "unproved")
        ]
        for k in self.kernels:
            numbers = k.accesses, k.by_intervals, k.by_solver, k.assumed, len(k.unproved)
            rows.append((f"{k.number} {k.name}", *map(str, numbers)))
        sums = [sum(int(row[i]) for row in rows[1:]) for i in range(1, 6)]
        rows.append(("all", *map(str, sums)))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in rows
        ]
        lines.append(f"{self.launches} launches within inputs, outputs and arena")
        lines += [f"assumed: {text}" for text in self.assumptions]
        lines += [f"unproved: {text}" for text in self.wrong]
        return "\n".join(lines)


def verify(
    function: Callable[..., Any],
    *args: object,
    target: Target | str | None = None,
    **kwargs: object,
) -> Report:
    """Proves that every load and store of a function's program is in bounds.

    Args:
        function: a function of arrays, jitted or not.
        args, kwargs: arguments of the function; `ShapeDtypeStruct` will do for an array.
        target: the machine that code is generated for, a `Target` or the name of one, such as
            x86-64-v3; that of the default device if None.

    Returns:
        A report of the accesses that are proved, assumed, and not proved.

    Raises:
        ArgumentError: for a target that there is not.
        MissingPackageError: if there is need of z3, and it is not installed.

    Example:
        >>> import tfn
        >>> report = verify(lambda x: x[1:] + x[:-1], tfn.ShapeDtypeStruct((9,), "float32"))
        >>> report.proved, report.launches, [kernel.by_intervals for kernel in report.kernels]
        (True, 1, [3])
    """
    jitted = function if isinstance(function, Jitted) else Jitted(function)
    machine = requested(target, run.device().target)
    return report(pipeline.lower(of_whole(jitted.trace(*args, **kwargs).jaxpr), machine), machine)


def report(program: Program, target: Target, language: Language | None = None) -> Report:
    """Returns the proofs of a lowered program.

    Args:
        program: the lowered program.
        target: the machine that it is compiled for.
        language: the language of its kernels; None for the target's own.
    """
    kernels: list[Checked] = []
    operands: dict[Kernel, dict[int, int]] = {}
    numbers = {kernel.name: i for i, kernel in enumerate(program.kernels)}
    for launch in program.launches:
        if launch.kernel not in operands:
            number = numbers[launch.kernel.name]
            proof, operands[launch.kernel] = checked(number, launch, target, language)
            kernels.append(proof)
    return Report(tuple(kernels), len(program.launches), tuple(out_of_bounds(program, operands)))


def checked(
    number: int,
    launch: Launch,
    target: Target,
    language: Language | None,
    items: Sequence[UOp] | None = None,
) -> tuple[Checked, dict[int, int]]:
    """Returns the proofs of a kernel at its first launch, and the bytes that its operands need.

    Args:
        number: position of the kernel in the program.
        launch: the first launch.
        target: the machine that the kernel is compiled for.
        language: the language of the kernel; None for the target's own.
        items: the instructions of the kernel, where they are known.
    """
    kernel, body = launch.kernel, launch.kernel.source
    assert body is not None, "a kernel that `pipeline.kernel` has made"
    of_hand = body.src[0].src[0] if body.op is Op.TUPLE else None
    try:
        items = items or pipeline.instructions(kernel, target, language)
    except CompileError as error:
        sizes = _declared(of_hand) if of_hand is not None and of_hand.op is Op.KERNEL else {}
        return Checked(number, kernel.name, 0, 0, 0, (error.what,), ""), sizes
    assumed = sort.assumed(body, items) if of_hand is not None else {}
    proofs = accesses.check(items, kernel.tiles, assumed, target.grid is not None)
    unproved = tuple(u.text(_named(launch, u.buffer)) for u in proofs.unproved)
    summary = Checked(
        number,
        kernel.name,
        proofs.by_intervals,
        proofs.by_solver,
        proofs.assumed,
        unproved,
        sort.ASSUMPTION if of_hand is not None else "",
    )
    return summary, proofs.operands


def _named(launch: Launch, number: int) -> str:
    """Returns the name of an operand: ``input 2``, or a part of the arena, or local memory."""
    if number < 0:
        return accesses.buffer_name(number)
    slot = launch.operands[number]
    if slot.space is Space.ARENA:
        return f"the arena's value at byte {slot.at:,}"
    return f"{slot.space.value} {slot.at}"


def _declared(kernel: UOp) -> dict[int, int]:
    """The bytes of the operands of a kernel that is text of its author, by what they say."""
    types = (*kernel.arg.results, *kernel.arg.takes)
    return {i: prod(shape) * dtype.itemsize for i, (shape, dtype) in enumerate(types)}
