"""Rank and size of a process, as the launcher that started it says them in the environment."""

from __future__ import annotations

from typing import NamedTuple

from tfn import config
from tfn.errors import DistributedError


class Launch(NamedTuple):
    """A process as its launcher names it.

    Attributes:
        launcher: its name.
        rank: the number of the process.
        size: the number of processes.
    """

    launcher: str
    rank: int
    size: int


LAUNCHERS: dict[str, tuple[str, str]] = {
    "Open MPI": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    "MPICH": ("PMI_RANK", "PMI_SIZE"),
    "Slurm": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
}
"""The variables of each launcher: rank, size.  Those of MPI come first: mpirun within an allocation
of Slurm numbers its own processes.

Source: "Open MPI documentation", section 11.5 "Environment variables"; "srun manual", "Output
environment variables"."""


def launch() -> Launch | None:
    """Rank and size of this process; None for one that was started alone.

    Raises:
        DistributedError: if a variable is no number.
    """
    variables = config.launcher_variables(name for pair in LAUNCHERS.values() for name in pair)
    for launcher, (rank, size) in LAUNCHERS.items():
        if rank in variables and size in variables:
            texts = variables[rank], variables[size]
            if not all(text.isdecimal() for text in texts):
                raise DistributedError(
                    f"{launcher} does not say which process this is",
                    got=f"{rank}={texts[0]!r}, {size}={texts[1]!r}",
                    hint="both are numbers; unset them to run one process alone",
                )
            return Launch(launcher, int(texts[0]), int(texts[1]))
    return None
