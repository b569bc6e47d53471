"""Tests of programs that failed once: written by the fuzzer, run with all tests."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

from tests.fuzz.programs import Program

FOUND = Path(__file__).parent / "found"

_TEMPLATE = '''"""Found by the fuzzer, check {check}.

{message}
"""

# ruff: noqa
# fmt: off

from numpy import inf, nan

from tests.fuzz.checks import check
from tests.fuzz.programs import Input, Line, Program

PROGRAM = {program}
"""
{source}"""


def test_{check}_{digest}() -> None:
    check("{check}", PROGRAM)
'''


def kept(folder: Path, check: str, program: Program, message: str) -> Path:
    """Writes a test of a program, and returns its path."""
    digest = blake2b((check + repr(program)).encode(), digest_size=4).hexdigest()
    text = _TEMPLATE.format(
        check=check,
        message=message.replace("\\", "\\\\").replace('"""', "'''"),
        program=_lines(program),
        source=program.source(),
        digest=digest,
    )
    path = folder / f"test_{check}_{digest}.py"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _lines(program: Program) -> str:
    """A program as source, one input and one line of it per line."""
    inputs = "".join(f"        {name!r}: {x!r},\n" for name, x in program.inputs.items())
    lines = "".join(f"        {line!r},\n" for line in program.lines)
    return (
        f"Program(\n    {{\n{inputs}    }},\n    (\n{lines}    ),\n"
        f"    {program.outputs!r},\n    {program.smooth!r},\n)"
    )
