"""Compile server: a child process that compiles text after text, which LLVM may abort.

It is started at the first text and after each death; with the caches of `LlvmCompiler` before it,
most texts never reach it.  `ChildCompiler` starts a process for each text instead.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Sequence
from typing import IO, Any

from tfn.errors import CompileError
from tfn.hw.compile.child import command
from tfn.hw.compile.llvm import LlvmCompiler, assembly
from tfn.lower.target.target import Target

_MAX_MESSAGE_LINES = 3
HEAD_BYTES = 5
"""The head of an answer: whether it is an object, and its length in 32 bits."""


class CompileServer:
    """Translates LLVM IR in a child process.

    Attributes:
        timeout_seconds: for one request, after which the child is killed.
    """

    def __init__(self, timeout_seconds: float = 60.0) -> None:
        self.timeout_seconds = timeout_seconds
        self._child: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._end: Callable[[], Any] = int

    def translate(self, texts: Sequence[str], target: Target, level: int) -> bytes:
        """An object of several texts.

        Raises:
            CompileError: with LLVM's message, also where LLVM aborts the process or takes too long.
        """
        return self._ask(list(texts), target, {"level": level})

    def assembly(self, text: str, target: Target) -> str:
        """The assembly code of a text, with comments that name basic blocks.

        Raises:
            CompileError: as `translate`.
        """
        return self._ask([text], target, {"assembly": True}).decode()

    def _ask(self, texts: Sequence[str], target: Target, options: dict[str, Any]) -> bytes:
        fields = {"triple": target.triple, "cpu": target.cpu, "features": target.features}
        request = json.dumps({"texts": texts, "target": fields, **options})
        child = self._child or self._start()
        assert child.stdin
        try:
            child.stdin.write(request.encode() + b"\n")
            head = self._read(child, HEAD_BYTES)
            data = self._read(child, int.from_bytes(head[1:], "little"))
        except TimeoutError:  # an OSError, too
            self._end()
            self._child = None
            raise CompileError(
                f"compiling for {target.triple} took more than {self.timeout_seconds:g} seconds",
                got=f"{len(request):,} characters of LLVM IR",
                hint="make the kernel smaller",
            ) from None
        except OSError:
            raise self._death(target) from None
        except BaseException:  # an interrupt leaves an answer in the pipe
            self._end()
            self._child = None
            raise
        if head[0]:
            return data
        raise CompileError(
            f"LLVM does not accept a text for {target.triple}",
            got=data.decode(errors="replace"),
            hint="this is a fault of tfn, or of a kernel written by hand",
        )

    def close(self) -> None:
        """End the child; the next text starts another."""
        self._end()
        self._child = None

    def _start(self) -> subprocess.Popen[bytes]:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (open as long as the process)
        self._child = subprocess.Popen(
            command(__name__),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,
        )
        self._end = weakref.finalize(self, _end, self._child, self._errors)
        return self._child

    def _read(self, child: subprocess.Popen[bytes], count: int) -> bytes:
        """Bytes of the answer.  Raises OSError if the child has died, TimeoutError if it hangs."""
        assert child.stdout
        data, deadline = b"", time.monotonic() + self.timeout_seconds
        while len(data) < count:
            if not select.select([child.stdout], [], [], max(deadline - time.monotonic(), 0))[0]:
                raise TimeoutError
            part = child.stdout.read(count - len(data))
            if not part:
                raise BrokenPipeError
            data += part
        return data

    def _death(self, target: Target) -> CompileError:
        assert self._child and self._errors
        self._child.kill()
        status = self._child.wait()
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").splitlines()
        self._end()
        self._child = None
        lines = [line for line in said if line.strip()][:_MAX_MESSAGE_LINES]
        return CompileError(
            f"LLVM cannot compile a text for {target.triple}",
            got="\n       ".join(lines) or f"exit status {status}",
            hint="the text may need a feature that the target lacks",
        )


def _end(child: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
    """Kill a child, and close its files."""
    child.kill()
    child.wait()
    for file in (child.stdin, child.stdout, errors):
        if file is not None:
            file.close()


def main() -> int:
    """The child: requests as lines of JSON on standard input, answers on standard output."""
    compiler = LlvmCompiler(verify=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            target = Target(**request["target"])
            if request.get("assembly"):
                data = assembly(request["texts"][0], target, annotated=True).encode()
            else:
                data = compiler.translate(request["texts"], target, request["level"])
            ok = 1
        except CompileError as error:
            data, ok = error.got.encode(), 0
        sys.stdout.buffer.write(bytes([ok]) + len(data).to_bytes(HEAD_BYTES - 1, "little") + data)
        sys.stdout.buffer.flush()
    return 0
