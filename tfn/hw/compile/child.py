"""Compiling in another process, which LLVM may end.

An instruction that a target lacks, or a feature that LLVM half knows, makes LLVM call abort().
Where that may happen (targets nobody compiles for daily, a search that tries what comes) the text
goes to a child with a deadline; its end is an error like any other.
"""

from __future__ import annotations

import json
import subprocess
import sys

from tfn.errors import CompileError
from tfn.hw.compile.llvm import CAREFUL, LlvmCompiler
from tfn.lower.target.target import Target

_MESSAGE_LINES = 3


def command(module: str) -> list[str]:
    """What runs ``main()`` of a module of ours in another process.

    It imports from where this process does.  With ``-m`` it would begin with the working folder,
    in which anybody may have put a ``json.py``.

    Example:
        >>> python, option, text = command("tfn.hw.compile.child")
        >>> text.endswith("from tfn.hw.compile.child import main; sys.exit(main())")
        True
    """
    folders = [str(folder) for folder in sys.path]
    start = f"import sys; sys.path[:] = {folders}; from {module} import main; sys.exit(main())"
    return [sys.executable, "-c", start]


class ChildCompiler:
    """A compiler whose every call is a process of its own, sharing the cache on disk.

    Attributes:
        timeout_seconds: after which the child is ended.
    """

    def __init__(self, timeout_seconds: float = 60.0) -> None:
        self.timeout_seconds = timeout_seconds

    def compile(self, text: str, target: Target, level: int = CAREFUL) -> bytes:
        """An object file from LLVM IR, at one of LLVM's levels, 0 to 3.

        Raises:
            CompileError: with what LLVM said, also where it ended the process.
        """
        asked = {"triple": target.triple, "cpu": target.cpu, "features": target.features}
        request = json.dumps({"text": text, "level": level, "target": asked})
        try:
            done = subprocess.run(
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
        if done.returncode == 0:
            return done.stdout
        said = [line for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
        raise CompileError(
            f"LLVM cannot compile a text for {target.triple}",
            got="\n       ".join(said[:_MESSAGE_LINES]) or f"exit status {done.returncode}",
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
