"""Coverage: how often each step ran with each dtype and inside each transform.

A cell that stays empty needs a reason: the step does not take the dtype, or `excuse` says why.
"""

from __future__ import annotations

from collections import Counter

from rich.table import Table

from tests.fuzz.checks import CHECKS
from tests.fuzz.programs import Program
from tests.fuzz.steps import STEPS
from tests.fuzz.transforms import FORWARD, TRANSFORMS
from tests.fuzz.values import DTYPES

Counts = Counter[tuple[str, str]]

RUN = [name for name, check in CHECKS.items() if check.share]
COLUMNS = (*DTYPES, *RUN, *(name for name in TRANSFORMS if name not in CHECKS))
SHORT = {"bfloat16": "bf16", "complex64": "c64", "complex128": "c128", "checkpoint": "ckpt"}


def counted(program: Program, checks: tuple[str, ...]) -> Counts:
    """What a program adds, once each."""
    cells = set()
    for step, dtype, inside in program.uses:
        cells |= {(step, column) for column in (dtype, *inside, *checks)}
    return Counter(cells)


def kinds(program: Program) -> set[str]:
    """Dtypes and transforms that are in a program, those that its functions are written for too."""
    found = {dtype for _, dtype, _ in program.uses}
    for step, _, inside in program.uses:
        found |= {*inside, *({step} & TRANSFORMS.keys())}
    return found


def excuse(step: str, column: str) -> str | None:
    """Why a cell is empty for ever; None if it is to be filled."""
    row = STEPS.get(step) or TRANSFORMS[step]
    if column in DTYPES and column not in row.takes:
        return "takes no such dtype"
    if column == "associative_scan":
        return "its function is one of three, not written"
    if step == "custom_vjp" and column in (*FORWARD, "gradient", "adjoint"):
        return "it has no forward mode, which the program could ask for"
    if step in ("pure_callback", "io_callback") and column == "export":
        return "bytes hold no functions of Python"
    return None


def table(counts: Counts) -> Table:
    """A row per step; cells that stay empty with a reason are dots, those without are 0.

    The reasons are below the table, with the number of cells that each is for.
    """
    grid = Table(title="programs by step, and dtype or transform", show_lines=False, padding=0)
    grid.add_column("step")
    for column in COLUMNS:
        grid.add_column(_head(column), justify="right")
    for step in (*STEPS, *TRANSFORMS):
        cells = []
        for column in COLUMNS:
            n = counts[step, column]
            cells.append(str(n) if n else "·" if excuse(step, column) else "[red]0[/red]")
        grid.add_row(step, *cells)
    reasons = Counter(
        excuse(step, column)
        for step in (*STEPS, *TRANSFORMS)
        for column in COLUMNS
        if not counts[step, column]
    )
    grid.caption = "\n".join(f"· {n} cells: {why}" for why, n in reasons.most_common() if why)
    return grid


def _head(column: str) -> str:
    short = SHORT.get(column, column)
    for long, brief in (("uint", "u"), ("int", "i"), ("float", "f"), ("_loop", ""), ("_scan", "")):
        short = short.replace(long, brief)
    return short[:5]


def empty(counts: Counts) -> list[tuple[str, str]]:
    """Cells that are empty without a reason."""
    rows = (*STEPS, *TRANSFORMS)
    return [(s, c) for s in rows for c in COLUMNS if not counts[s, c] and not excuse(s, c)]
