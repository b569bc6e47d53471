"""The process that runs templates of chats; see `template`.

It loads jinja2 once, and then has a child for each question, which begins without what other
templates left and ends with its own bounds of time and memory.  Questions and answers are lines of
JSON.  It imports nothing of tfn.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from contextlib import suppress
from typing import Any

CPU_SECONDS, MEMORY_BYTES = 4, 1 << 30


class Refused(Exception):
    """An error that a template raises itself, about the messages."""


def main(limit: int) -> None:
    """Answers questions until there are no more.

    Args:
        limit: the most characters of a text.
    """
    sys.path[:] = json.loads(sys.stdin.buffer.readline() or b"[]")
    with suppress(ImportError):
        import jinja2.sandbox  # noqa: F401  (loaded before children are made)
    while question := sys.stdin.buffer.readline():
        child = os.fork()
        if not child:
            said = json.dumps(answered(json.loads(question), limit))
            with open(1, "wb") as out:
                out.write(said.encode())
            os._exit(0)
        os.waitpid(child, 0)
        os.write(1, b"\n")


def answered(question: dict[str, Any], limit: int) -> dict[str, str]:
    """The answer to a question, within bounds that this process then has for ever."""
    try:
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        return {"kind": "missing", "text": ""}
    for kind, most in ((resource.RLIMIT_CPU, CPU_SECONDS), (resource.RLIMIT_AS, MEMORY_BYTES)):
        resource.setrlimit(kind, (most, most))
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 * limit + 1000, 4 * limit + 1000))
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _as_json
    environment.globals |= {"raise_exception": _refuse, "strftime_now": time.strftime}
    try:
        parts, length = [], 0
        for part in environment.from_string(question["template"]).generate(**question["names"]):
            length += len(part)
            if length > limit:
                return {"kind": "hostile", "text": f"it writes more than {limit:,} characters"}
            parts.append(part)
        return {"kind": "text", "text": "".join(parts)}
    except Refused as error:
        return {"kind": "refused", "text": str(error)}
    except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        return {"kind": "hostile", "text": f"{type(error).__name__}: {error}"[:1000]}
    except (MemoryError, RecursionError, AttributeError, OSError) as error:
        return {"kind": "hostile", "text": f"it ends with {type(error).__name__}"}


def _refuse(message: Any) -> str:
    raise Refused(str(message)[:1000])


def _as_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


if __name__ == "__main__":
    main(int(sys.argv[1]))
