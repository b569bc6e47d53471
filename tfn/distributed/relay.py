"""Starting a command on another host through its agent: what mpirun calls instead of ssh.

    python -m tfn.distributed.relay SOCKET HOST COMMAND...

The first agent listens at the socket, and asks the agent of the host to run the command.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Client, Listener

from tfn.distributed import wire

FAILED = 255
"""The status of ssh when it does not reach a host."""


def serve(path: str, run: Callable[[str, str], int]) -> Listener:
    """Answer requests in threads, until the listener is closed.

    Args:
        path: of the socket to make.
        run: runs a command of the shell on a host, and gives its status.
    """
    listener = Listener(path, "AF_UNIX", backlog=64)

    def answer(asked: object) -> None:
        with suppress(OSError, EOFError):
            host, words = wire.unpack(asked.recv_bytes())  # type: ignore[attr-defined]
            asked.send_bytes(wire.pack(run(host, words)))  # type: ignore[attr-defined]

    def accept() -> None:
        with suppress(OSError):  # it was closed
            while True:
                threading.Thread(target=answer, args=(listener.accept(),), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener


def main(arguments: Sequence[str]) -> int:
    """Ask for a command; its status."""
    path, host, *words = arguments
    try:
        with Client(path, "AF_UNIX") as agent:
            agent.send_bytes(wire.pack((host, " ".join(words))))
            return int(wire.unpack(agent.recv_bytes()))
    except (OSError, EOFError) as error:
        print(f"the agent of {host} cannot be reached: {error}", file=sys.stderr)
        return FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
