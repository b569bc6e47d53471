"""Compiler in a child process, which LLVM may abort.

An instruction that a target lacks, or a feature that LLVM supports in part, makes LLVM abort the
process.  Where that may happen (rare targets, texts of a search) the text goes to a child process
with a timeout, whose death is an error like any other.
"""

from __future__ import annotations

import json
import subprocess
import sys

from tfn.errors import CompileError
from tfn.hw.compile.llvm import CAREFUL, LlvmCompiler
from tfn.lower.target.target import Target

_MAX_MESSAGE_LINES = 3


def command(module: str) -> list[str]:
    """The command line that runs ``main()`` of a module of tfn in another process.

    It imports from the folders that this process imports from.  With ``-m`` it would search the
    working folder first, where another user may have put a ``json.py``.

    Example:
        >>> python, option, text = command("tfn.hw.compile.child")
        >>> text.endswith("from tfn.hw.compile.child import main; sys.exit(main())")
        True
    """
    folders = [str(folder) for folder in sys.path]
    start = f"import sys; sys.path[:] = {folders}; from {module} import main; sys.exit(main())"
    return [sys.executable, "-c", start]


class ChildCompiler:
    """A compiler that starts a process for each call; they share the cache on disk.

    Attributes:
        timeout_seconds: after which the child is killed.
    """

    def __init__(self, timeout_seconds: float = 60.0) -> None:
        self.timeout_seconds = timeout_seconds

    def compile(self, text: str, target: Target, level: int = CAREFUL) -> bytes:
        """An object file from LLVM IR; `level` is LLVM's, 0 to 3.

        Raises:
            CompileError: with LLVM's message, also where LLVM aborted the process.
        """
        fields = {"triple": target.triple, "cpu": target.cpu, "features": target.features}
        request = json.dumps({"text": text, "level": level, "target": fields})
        try:
            process = subprocess.run(
                command(__name__),
                input=request.encode(),
                capture_output=True,
                timeout=self.timeout_seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise CompileError(
                f"compiling for {target.triple} took more than {self.timeout_seconds:g} seconds",
                got=f"{len(text):,} characters of LLVM IR",
                hint="make the kernel smaller",
            ) from None
        if process.returncode == 0:
            return process.stdout
        text = process.stderr.decode(errors="replace")
        lines = [line for line in text.splitlines() if line.strip()]
        raise CompileError(
            f"LLVM cannot compile a text for {target.triple}",
            got="\n       ".join(lines[:_MAX_MESSAGE_LINES]) or f"exit status {process.returncode}",
            hint="the text may need a feature that the target lacks",
        )


def main() -> int:
    """The child: a request as JSON on standard input, the object on standard output."""
    request = json.load(sys.stdin)
    compiler = LlvmCompiler(verify=True)
    try:
        data = compiler.compile(request["text"], Target(**request["target"]), request["level"])
    except CompileError as error:
        sys.stderr.write(error.got)
        return 1
    sys.stdout.buffer.write(data)
    return 0
