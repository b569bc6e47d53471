"""Compilation ahead: kernels are compiled in a thread while the next ones are lowered.

    lowering   |k1|k2|k3|k4|k5|k6|...|load: the rest, and the driver|
    LLVM          |k1|k2 k3 k4|k5 k6 ...|

LLVM runs without Python's lock, so both make progress on two cores.  Results are found where all
objects are: in the compiler's memory.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from contextlib import suppress

from tfn.errors import CompileError
from tfn.hw.compile.llvm import CAREFUL, LlvmCompiler
from tfn.lower.target.target import Target


class Ahead:
    """Texts that a thread compiles, in the order in which they come.

    The thread ends when none is left.  Who needs an object calls the compiler, which waits for the
    texts that LLVM is at, and compiles those that were not begun: nothing here is waited for.
    """

    def __init__(self, compiler: LlvmCompiler) -> None:
        self._compiler = compiler
        self._texts: deque[tuple[str, str, Target]] = deque()
        self._thread: threading.Thread | None = None

    def begin(self, text: str, target: Target) -> None:
        """Compile a text soon, with care, if its object is in no cache."""
        key = self._compiler.key(text, target)
        if self._compiler.find(key) is not None:
            return
        self._texts.append((key, text, target))
        # That of a parent process is not alive in its child.
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="tfn-compile", daemon=True)
            with suppress(RuntimeError):  # the process ends: texts are compiled where they are used
                self._thread.start()

    def _run(self) -> None:
        while batch := self._next():
            texts = {key: text for key, text, _ in batch}
            try:
                self._compiler.make(texts, batch[0][2], CAREFUL)
            except CompileError:
                return  # who needs the object compiles the text again, and has the error

    def _next(self) -> list[tuple[str, str, Target]]:
        """The texts that wait, with their keys, up to one for another target."""
        batch: list[tuple[str, str, Target]] = []
        try:
            while not batch or self._texts[0][2] == batch[0][2]:
                batch.append(self._texts.popleft())
        except IndexError:  # there are no more
            return batch
        return batch


def pays() -> bool:
    """Whether there is a second core for the thread."""
    return len(os.sched_getaffinity(0)) > 1
