"""Templates of chats: messages as the text that a model was trained on.

A template is a program in a file of unknown origin.  It runs in a process of its own, a child of
one that has loaded jinja, with little time and memory and only jinja's sandbox, and its answer has
a bounded length; so a template that loops, or that finds a way out of the sandbox to eat memory,
ends in an error of tfn.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tfn.errors import ArgumentError, MissingPackageError, StateError
from tfn.extend import frozen

WORKER = Path(__file__).with_name("template_worker.py")

SECONDS = 10.0
"""The time of a template by the clock; its processor time is bounded in the process."""

LENGTH = 8_000_000
"""The most characters of a text."""

Message = Mapping[str, Any]


@frozen
class Template:
    """A template of chats.

    Attributes:
        source: in the language of jinja.
        bos: the text of the token that begins a text.
        eos: that of the one which ends it.
    """

    source: str
    bos: str = ""
    eos: str = ""

    def render(self, messages: Sequence[Message], **values: Any) -> str:
        """The text of a chat, up to where the answer begins.

        Args:
            messages: each with "role" and "content".
            values: other names that the template uses, such as `tools`.

        Raises:
            ArgumentError: if the template refuses the messages.
            StateError: if it is no template, or takes too much time, memory or text.
            MissingPackageError: without jinja2.
        """
        names = {"messages": [*messages], "add_generation_prompt": True}
        names |= {"bos_token": self.bos, "eos_token": self.eos} | values
        try:
            question = json.dumps({"template": self.source, "names": names})
        except (TypeError, ValueError) as error:
            raise ArgumentError("messages are dicts of texts", got=str(error)) from None
        raw = _worker.ask(question)
        if raw is None:
            raise _hostile(f"it runs for more than {SECONDS:g} s")
        try:
            answer = json.loads(raw)
            kind, text = str(answer["kind"]), str(answer["text"])
        except (ValueError, KeyError, TypeError):
            raise _hostile("it takes more time or memory than a template may") from None
        if kind == "text":
            return text
        if kind == "missing":
            raise MissingPackageError(
                "templates of chats need jinja2", hint="pip install 'tfn[llm]'"
            )
        if kind == "refused":
            raise ArgumentError("the model's template refuses these messages", got=text)
        raise _hostile(text)


class _Worker:
    """The process that runs templates, started when it is first asked, and again after each end."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None
        self.path: list[str] = []

    def ask(self, question: str) -> bytes | None:
        """The line that answers a question; None if it takes too long."""
        with self.lock:
            process = self._running()
            begin = time.monotonic()
            timer = threading.Timer(SECONDS, self._kill, [process])
            timer.start()
            answer = b""
            try:
                assert process.stdin is not None and process.stdout is not None
                with suppress(OSError):  # the process has ended
                    process.stdin.write(question.encode() + b"\n")
                    process.stdin.flush()
                    answer = process.stdout.readline()
            finally:  # after Ctrl-C too: an answer that comes late is not that of the next question
                timer.cancel()
                timer.join()
                if not answer.endswith(b"\n"):
                    self.end()
            return None if not answer and time.monotonic() - begin >= SECONDS else answer

    def _running(self) -> subprocess.Popen[bytes]:
        if self.process is None or self.process.poll() is not None or self.path != sys.path:
            self.end()
            self.path = [*sys.path]
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(WORKER), str(LENGTH)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            assert self.process.stdin is not None
            self.process.stdin.write(json.dumps(self.path).encode() + b"\n")
        return self.process

    def end(self) -> None:
        """Ends the process, if there is one."""
        if self.process is not None:
            self._kill(self.process)
            with suppress(BrokenPipeError), self.process:
                self.process = None

    @staticmethod
    def _kill(process: subprocess.Popen[bytes]) -> None:
        """Kills the process and the child that it has made."""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


_worker = _Worker()
atexit.register(_worker.end)


def _hostile(what: str) -> StateError:
    return StateError(
        "the model's template of chats cannot be used",
        got=what,
        hint="write the text for the model yourself, and generate from it",
    )
