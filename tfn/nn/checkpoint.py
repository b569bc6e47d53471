"""Checkpoints of a training run, each of which continues the run as if it had never stopped.

What has to be in one is whatever a step reads and writes: parameters, the state of the optimizer,
random keys, the position in the data.  They are one tree, so they are one file, and a file is
whole or not there.
"""

from __future__ import annotations

import operator
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tfn._support.files import unfinished
from tfn.errors import ArgumentError, StateError
from tfn.nn import state

T = TypeVar("T")
NAME = re.compile(r"step-([0-9]{9}|[1-9][0-9]{9,})\.safetensors")


@dataclass(frozen=True)
class Checkpoints:
    """A folder of checkpoints, of which the newest are kept.

    Attributes:
        folder: created when it is first written to; no two runs may share it.
        keep: number of checkpoints to keep, at least 1.

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
        """Returns the file of a step.

        Raises:
            ArgumentError: if the step is no integer, or negative.
        """
        number = _count(step)
        if number is None:
            raise ArgumentError(
                "steps are counted from 0",
                got=f"step {step!r}",
                hint="give how many steps were made, an int",
            )
        return Path(self.folder) / f"step-{number:09}.safetensors"

    def steps(self) -> list[int]:
        """Returns the steps that have a checkpoint, the oldest first."""
        if not Path(self.folder).is_dir():
            return []
        matches = map(NAME.fullmatch, os.listdir(self.folder))
        return sorted(int(match[1]) for match in matches if match)

    def clear(self) -> None:
        """Deletes all checkpoints, so that a run begins anew."""
        for step in self.steps():
            self.path(step).unlink()

    def save(self, step: int, pytree: object) -> None:
        """Writes the checkpoint of a step, then deletes those that are too old.

        Args:
            step: number of steps made, not below that of the newest checkpoint.
            pytree: the state of the run, as `nn.state.save` takes it.

        Raises:
            ArgumentError: if the step is no number of one, a later one is there already, `keep`
                keeps nothing, or a leaf of the tree cannot be saved.
            OSError: if the system refuses; the checkpoints are then what they were.
        """
        path, steps, keep = self.path(step), self.steps(), _count(self.keep)
        if (steps and steps[-1] > step) or not keep:
            raise ArgumentError(
                "a checkpoint is written after all others, and kept",
                got=f"step {step} after {steps}, keep={self.keep}",
                hint="resume from the newest, or use another folder",
            )
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        state.save(path, pytree, metadata={"step": str(_count(step))})
        for old in self.steps()[:-keep]:
            self.path(old).unlink()
        for file in unfinished(self.folder, NAME):  # by a process that was killed
            file.unlink(missing_ok=True)

    def resume(self, first: T) -> tuple[int, T]:
        """Returns the newest step and its tree; step 0 and `first` if there is no checkpoint yet.

        Args:
            first: what the run begins with, whose structure, shapes and dtypes are expected.

        Raises:
            StateError: if the newest checkpoint is damaged, of another run, or of another step than
                its name says.
        """
        steps = self.steps()
        if not steps:
            return 0, first
        newest = self.path(steps[-1])
        try:
            written = state.metadata(newest).get("step", str(steps[-1]))
            if written != str(steps[-1]):
                raise StateError(
                    f"{newest} is of another step", got=f"step {written} in its header"
                )
            return steps[-1], state.load(newest, first)
        except StateError as error:
            before = f"; the one before is of step {steps[-2]}" if len(steps) > 1 else ""
            error.add_note(f"delete {newest} to do without it{before}")
            raise


def _count(value: Any) -> int | None:
    """Returns a number of steps as an int; None for anything but a non-negative integer."""
    try:
        number = operator.index(value)
    except TypeError:
        return None
    return None if number < 0 or isinstance(value, bool) else number
