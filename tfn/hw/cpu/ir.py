"""LLVM IR templates: the text of a `.ll` file of this folder, with its holes filled.

The files are LLVM IR but for two marks, which LLVM IR does not use::

    i64 $PLAN.run$            a hole: a number or a constant expression
    ?GUARDED  call void ...   a conditional line: kept, without the mark, if the condition is true

A hole is a layout (the offset of a field, the place of a word) that Python code reads too, and so
is written once, in Python; or a property of the machine.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

_FOLDER = os.path.dirname(__file__)
_NO_VALUES: dict[str, object] = {}


def read_ir(
    name: str,
    values: Mapping[str, object] = _NO_VALUES,
    conditions: Collection[str] = (),
    folder: str = "",
) -> str:
    """The text of ``name.ll``.

    Args:
        name: of a file of the folder, without its suffix.
        values: for each hole of the file; others are not used.
        conditions: those that are true.
        folder: with the file; that of the CPU device if "".

    Raises:
        KeyError: for a hole that has no value.

    Example:
        >>> values = {"FUTEX_CALL": 202, "FUTEX_WAIT": 128, "FUTEX_WAKE": 129, "JOB_NUMBER_AT": 4}
        >>> "i64 202, ptr %word, i32 129, i32 2147483647)" in read_ir("sleep_futex", values)
        True
    """
    with open(os.path.join(folder or _FOLDER, f"{name}.ll"), encoding="utf-8") as file:
        first, *others = file.read().split("\n?")
    parts = [first]
    for other in others:
        line, newline, rest = other.partition("\n")
        condition, _, statement = line.partition(" ")
        parts += [f"\n {statement}" * (condition in conditions), newline, rest]
    # Regular expressions would take longer to compile than these splits take.
    pieces = "".join(parts).split("$")
    pieces[1::2] = [str(values[hole]) for hole in pieces[1::2]]
    return "".join(pieces)
