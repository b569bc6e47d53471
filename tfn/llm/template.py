"""Templates of chats: messages as the text that a model was trained on.

A template is a program in a file of unknown origin.  It runs in a process of its own, which has
little time and memory and only jinja's sandbox, and whose answer has a bounded length; so a
template that loops, or that finds a way out of the sandbox to eat memory, ends in an error of tfn.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
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
            question = json.dumps({"template": self.source, "names": names, "path": sys.path})
        except (TypeError, ValueError) as error:
            raise ArgumentError("messages are dicts of texts", got=str(error)) from None
        try:
            ran = subprocess.run(
                [sys.executable, "-I", "-S", str(WORKER), str(LENGTH)],
                input=question.encode(),
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise _hostile(f"it runs for more than {SECONDS:g} s") from None
        try:
            answer = json.loads(ran.stdout)
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


def _hostile(what: str) -> StateError:
    return StateError(
        "the model's template of chats cannot be used",
        got=what,
        hint="write the text for the model yourself, and generate from it",
    )
