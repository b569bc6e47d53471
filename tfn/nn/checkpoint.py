"""Checkpoints of a training run: from each of them it goes on as if it had never stopped.

What has to be in one is whatever a step reads and writes: parameters, the state of the optimizer,
random keys, the position in the data.  They are one tree, so they are one file, and a file is
whole or not there.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tfn.errors import ArgumentError, StateError
from tfn.nn import state

T = TypeVar("T")
NAME = re.compile(r"step-(\d+)\.safetensors")
UNFINISHED = re.compile(r"\.step-\d+\.safetensors\.(\d+)\.tmp")


@dataclass(frozen=True)
class Checkpoints:
    """A folder of checkpoints, of which the newest are kept.

    Attributes:
        folder: made when it is first written to; no two runs may share it.
        keep: how many.

    Example:
        >>> import tempfile
        >>> checkpoints = Checkpoints(tempfile.mkdtemp(), keep=2)
        >>> checkpoints.resume({"w": 0.0})
        (0, {'w': 0.0})
        >>> for step in (10, 20, 30):
        ...     checkpoints.save(step, {"w": step / 10})
        >>> checkpoints.steps(), checkpoints.resume({"w": 0.0})
        ([20, 30], (30, {'w': 3.0}))
    """

    folder: str | os.PathLike[str]
    keep: int = 3

    def path(self, step: int) -> Path:
        """The file of a step."""
        return Path(self.folder) / f"step-{step:09}.safetensors"

    def steps(self) -> list[int]:
        """The steps of which there are checkpoints, the oldest first."""
        if not Path(self.folder).is_dir():
            return []
        matches = map(NAME.fullmatch, os.listdir(self.folder))
        return sorted(int(found[1]) for found in matches if found)

    def clear(self) -> None:
        """Delete them all, so that a run begins anew."""
        for step in self.steps():
            self.path(step).unlink()

    def save(self, step: int, pytree: Any) -> None:
        """Write the checkpoint of a step, then delete those that are too old.

        Raises:
            ArgumentError: if a later step is there already, or `keep` keeps nothing.
            OSError: if the system refuses; the checkpoints are then what they were.
        """
        there = self.steps()
        if (there and there[-1] > step) or self.keep < 1:
            raise ArgumentError(
                "a checkpoint is written after all others, and kept",
                got=f"step {step} after {there}, keep={self.keep}",
                hint="resume from the newest, or use another folder",
            )
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        state.save(self.path(step), pytree, metadata={"step": str(step)})
        for old in self.steps()[: -self.keep]:
            self.path(old).unlink()
        for name in os.listdir(self.folder):
            found = UNFINISHED.fullmatch(name)
            if found and int(found[1]) != os.getpid():  # of a process that was killed
                (Path(self.folder) / name).unlink(missing_ok=True)

    def resume(self, first: T) -> tuple[int, T]:
        """The newest step and its tree; step 0 and `first` if there is no checkpoint yet.

        Args:
            first: what the run begins with, whose structure, shapes and dtypes are expected.

        Raises:
            StateError: if the newest checkpoint is damaged, or of another run.
        """
        there = self.steps()
        if not there:
            return 0, first
        newest = self.path(there[-1])
        try:
            state.verify(newest)
            return there[-1], state.load(newest, first)
        except StateError as error:
            before = f"; the one before is of step {there[-2]}" if len(there) > 1 else ""
            error.add_note(f"delete {newest} to do without it{before}")
            raise
