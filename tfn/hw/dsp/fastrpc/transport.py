"""FastRPC transport: a process on the DSP that runs the monitor, by ioctls of a device node.

A bell of the host is a call of a method of the monitor; the call returns when the DSP rings back,
with the word in an output buffer.  A call takes as long as the program, so a thread waits for it.

    start   open the node, create the process, map shared memory, call START with its address
    ring    call TAKE or ANSWER in a thread; call WAKE if another is under way
    answer  wait for the thread
    stop    unmap, close the node: the driver ends the process
"""

from __future__ import annotations

import ctypes
import os
import queue
import struct
import threading
from collections.abc import Callable

from tfn.errors import DeviceError
from tfn.hw.dsp.commands import COMMANDED, READY
from tfn.hw.dsp.fastrpc.interfaces import INTERFACES, Interface
from tfn.hw.dsp.fastrpc.node import FileNode, Node
from tfn.hw.dsp.memory import SharedMemory

START, TAKE, ANSWER, WAKE = range(4)
"""Methods of the monitor: each but the last returns the word that the DSP rings with."""
HANDLE = 16
"""The monitor's, above those that the firmware keeps for itself."""
START_SECONDS = 30.0
"""For the start, as under the emulator."""


class FastRpc:
    """A process on a DSP behind a device node; a `Transport`.

    Attributes:
        node: the open node, or None.
    """

    def __init__(
        self,
        shared: SharedMemory,
        monitor: bytes,
        interface: Interface,
        opened: Callable[[str], Node] = FileNode,
    ) -> None:
        self.node: Node | None = None
        self._shared, self._monitor = shared, monitor
        self._interface, self._opened = interface, opened
        self._words: queue.SimpleQueue[int | DeviceError] = queue.SimpleQueue()
        self._under_way = threading.Semaphore(1)
        self._is_mapped = False

    @property
    def is_running(self) -> bool:
        """Whether it has been started and has not been stopped."""
        return self.node is not None

    def start(self) -> None:
        """Create the process and map the memory.

        Raises:
            DeviceError: if the node cannot be opened, or the driver or the DSP refuses.
        """
        self.stop()
        path, shared = self._interface.path, self._shared
        try:
            self.node = self._opened(path)
        except OSError as error:
            raise DeviceError(
                "the node of the DSP's driver cannot be opened",
                got=f"{path}: {error.strerror}",
                hint="the device dsp runs programs under an emulator",
            ) from error
        # What a call of an earlier node that hangs may still say is not heard.
        self._words, self._under_way = queue.SimpleQueue(), threading.Semaphore(1)
        try:
            program = ctypes.create_string_buffer(self._monitor, len(self._monitor))
            self._interface.create(self.node, ctypes.addressof(program), len(self._monitor))
            shared.base = self._interface.map(
                self.node, shared.file, shared.address, shared.size_bytes
            )
            self._is_mapped = True
            self._call(START, struct.pack("<III", shared.file, shared.size_bytes, shared.base))
            word = self.answer(START_SECONDS)
        except DeviceError:
            self.stop()
            raise
        if word != READY:
            self.stop()
            raise DeviceError(
                "the monitor of the DSP does not start",
                got="no answer" if word is None else f"the word {word:#x}",
                hint=f"look at dmesg for what the driver of {path} says",
            )

    def ring(self, word: int) -> None:
        """Tell the process of new commands, or that a call of the host has returned.

        Raises:
            DeviceError: if the driver refuses at once.
        """
        if word == COMMANDED and not self._under_way.acquire(blocking=False):
            assert self.node is not None
            self._invoke(self.node, WAKE, struct.pack("<I", word), 0)
            return
        if word == COMMANDED:
            self._under_way.release()
        self._call(TAKE if word == COMMANDED else ANSWER, struct.pack("<I", word))

    def _call(self, method: int, data: bytes) -> None:
        """Call a method in a thread, which puts the word that it returns into the queue."""
        node, words, under_way = self.node, self._words, self._under_way
        assert node is not None
        under_way.acquire()

        def wait() -> None:
            try:
                words.put(self._invoke(node, method, data, 4))
            except DeviceError as error:
                words.put(error)

        # A call that hangs ends when the node is closed, or with this process.
        threading.Thread(target=wait, name="tfn-fastrpc", daemon=True).start()

    def _invoke(self, node: Node, method: int, data: bytes, result_bytes: int) -> int:
        source = ctypes.create_string_buffer(data, len(data))
        result = ctypes.create_string_buffer(4)
        outputs = [(ctypes.addressof(result), result_bytes)] if result_bytes else []
        self._interface.invoke(
            node, HANDLE, method, [(ctypes.addressof(source), len(data))], outputs
        )
        return int.from_bytes(result.raw, "little")

    def answer(self, timeout_seconds: float) -> int | None:
        """The next word that the DSP rings with; None if none comes in time.

        Raises:
            DeviceError: if the driver says that the DSP has died.
        """
        try:
            word = self._words.get(timeout=max(timeout_seconds, 0))
        except queue.Empty:
            return None
        self._under_way.release()
        if isinstance(word, DeviceError):
            self.stop()
            raise DeviceError("the DSP has died", got=word.got, hint=word.hint) from word
        return word

    def stop(self) -> None:
        """End the process, whatever it is doing; it may be started again."""
        node, self.node = self.node, None
        if node is None:
            return
        if self._is_mapped and self._under_way.acquire(blocking=False):
            shared = self._shared
            try:
                self._interface.unmap(node, shared.file, shared.base, shared.size_bytes)
            except DeviceError:
                # The process is gone already: closing the node frees what it had.
                self._is_mapped = False
        self._is_mapped = False
        node.close()


def present() -> Interface:
    """The interface whose node this machine has.

    Raises:
        DeviceError: if it has none.
    """
    for interface in INTERFACES:
        if os.path.exists(interface.path):
            return interface
    raise DeviceError(
        "this machine has no DSP that FastRPC reaches",
        got="neither " + " nor ".join(interface.path for interface in INTERFACES),
        hint="the device dsp runs programs under an emulator",
    )
