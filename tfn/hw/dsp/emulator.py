"""Emulator transport: the monitor as a process of qemu-hexagon, with pipes for bells.

The process inherits the descriptor of the shared memory.  It ends when its input is closed, so it
does not outlive this process.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import weakref
from pathlib import Path
from typing import IO, Any

from tfn.errors import DeviceError
from tfn.hw.dsp.commands import READY
from tfn.hw.dsp.memory import SharedMemory

COMMAND = "qemu-hexagon"
START_SECONDS = 30.0
"""For the start, which may take seconds on a busy machine."""
_MAX_MESSAGE_LINES = 3


def emulator() -> str:
    """The path of the emulator.

    Raises:
        DeviceError: if it is not installed.
    """
    path = shutil.which(COMMAND)
    if path is None:
        raise DeviceError(
            "the device dsp needs the emulator qemu-hexagon, which is not installed",
            got="no qemu-hexagon on the PATH",
            hint="apt-get install qemu-user; or take the device cpu",
        )
    return path


class Emulator:
    """A process of qemu-hexagon that runs the monitor; a `Transport`.

    Attributes:
        process: the emulator, or None.
    """

    def __init__(self, shared: SharedMemory, monitor: bytes) -> None:
        self.path = emulator()
        self.process: subprocess.Popen[bytes] | None = None
        self._shared, self._monitor = shared, monitor
        self._errors: IO[bytes] | None = None
        self._end: weakref.finalize[Any, Any] | None = None

    @property
    def is_running(self) -> bool:
        """Whether it has been started and has not been stopped."""
        return self.process is not None

    def start(self) -> None:
        """Start the process, and wait until it has mapped the memory.

        Raises:
            DeviceError: if it does not start.
        """
        self.stop()
        with tempfile.TemporaryDirectory(prefix="tfn-dsp-") as folder:
            program = Path(folder, "monitor")
            program.write_bytes(self._monitor)
            program.chmod(0o700)
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (open as long as the process)
            self.process = subprocess.Popen(
                [self.path, str(program)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                pass_fds=(self._shared.file,),
                bufsize=0,
            )
            self._end = weakref.finalize(self, _end, self.process, self._errors)
            shared = self._shared
            self._write(struct.pack("<III", shared.file, shared.size_bytes, shared.base))
            word = self.answer(START_SECONDS)
        if word != READY:
            self.stop()
            raise DeviceError(
                "the monitor of the DSP does not start",
                got="no answer" if word is None else f"the word {word:#x}",
                hint=f"look at {self.path} --version: 7.2 and later know the v67 processor",
            )

    def ring(self, word: int) -> None:
        """Tell the process of new commands, or that a call of the host has returned.

        Raises:
            DeviceError: if it has died.
        """
        self._write(struct.pack("<I", word))

    def _write(self, data: bytes) -> None:
        assert self.process and self.process.stdin
        try:
            self.process.stdin.write(data)
        except OSError:
            raise self._death() from None

    def answer(self, timeout_seconds: float) -> int | None:
        """The next word that the process writes; None if none comes in time.

        Raises:
            DeviceError: if it has died, with what it said; or if it has written no whole word.
        """
        assert self.process and self.process.stdout
        file, data = self.process.stdout.fileno(), b""
        deadline = time.monotonic() + timeout_seconds
        while len(data) < 4:
            rest = max(deadline - time.monotonic(), 0)
            if not select.select([file], [], [], rest)[0]:
                return None
            part = os.read(file, 4 - len(data))
            if not part:
                raise self._death()
            data += part
        return int.from_bytes(data, "little")

    def _death(self) -> DeviceError:
        """The error for a process that has ended, with its status and its last words."""
        assert self.process and self._errors
        self.process.kill()
        status = self.process.wait()
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip().splitlines()
        self.stop()
        ended = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
        return DeviceError(
            "the DSP has died",
            got="\n       ".join([f"qemu-hexagon ended with {ended}", *said[-_MAX_MESSAGE_LINES:]]),
            hint="arrays are not lost, and the next call starts it again",
        )

    def stop(self) -> None:
        """End the process, whatever it is doing; it may be started again."""
        if self._end is not None:
            self._end()
        self.process = self._errors = self._end = None


def _end(process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
    """Kill a process, and close its files."""
    process.kill()
    process.wait()
    for file in (process.stdin, process.stdout, errors):
        if file is not None:
            file.close()
