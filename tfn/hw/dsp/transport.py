"""Transport: how a bell rings between the host and the DSP, and how the DSP is started.

Commands, memory and faults are the same whatever the transport; see `queue`.
"""

from __future__ import annotations

from typing import Protocol


class Transport(Protocol):
    """A DSP that runs the monitor on shared memory."""

    @property
    def is_running(self) -> bool:
        """Whether it has been started and has not been stopped."""

    def start(self) -> None:
        """Start the monitor, and wait until it has mapped the memory.

        Raises:
            DeviceError: if it does not start.
        """

    def ring(self, word: int) -> None:
        """Tell the DSP of new commands, or that a call of the host has returned.

        Args:
            word: `COMMANDED` or `ANSWERED` of `tfn.hw.dsp.commands`.

        Raises:
            DeviceError: if it is not there.
        """

    def answer(self, timeout_seconds: float) -> int | None:
        """The next word that the DSP rings with; None if none comes in time.

        Raises:
            DeviceError: if the DSP has died, with what it said.
        """

    def stop(self) -> None:
        """End the monitor, whatever it is doing; it may be started again."""
