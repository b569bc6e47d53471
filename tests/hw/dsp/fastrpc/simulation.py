"""A device node that is simulated: it decodes the ioctls of FastRPC, and qemu-hexagon is the DSP.

It does what the kernel's driver does with a structure: follows its pointers, checks numbers and
flags, and answers by changing it or by an error number.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from tfn.hw.dsp.fastrpc import structures
from tfn.hw.dsp.fastrpc.structures import LAYOUTS, NUMBERS, request
from tfn.hw.dsp.fastrpc.transport import ANSWER, HANDLE, START, TAKE, WAKE

FIRST_BASE = 0x4800_0000
STEP_BYTES = 0x0100_0000
PATH = "/dev/simulated"


class SimulatedNode:
    """A node whose process on the DSP is one of qemu-hexagon.

    Attributes:
        opened: the nodes that were opened with this one's numbers: each maps memory elsewhere.
        calls: names of ioctls, in order.
        mappings: files and sizes, by the DSP's address.
        process: the emulator, once the monitor was started.
        fails: an error number that an ioctl of a name gives.
    """

    opened = 0

    def __init__(self, path: str) -> None:
        SimulatedNode.opened += 1
        self.path, self.base = path, FIRST_BASE + SimulatedNode.opened % 8 * STEP_BYTES
        self.calls: list[str] = []
        self.mappings: dict[int, tuple[int, int]] = {}
        self.program = b""
        self.process: subprocess.Popen[bytes] | None = None
        self.fails: dict[str, int] = {}
        self.is_closed = False
        prefix = "ADSPRPC" if "adsprpc" in path else "FASTRPC"
        self._names = {request(name): name for name in NUMBERS if name.startswith(prefix)}
        self._handlers: dict[str, Callable[[str, bytearray], None]] = {
            "FASTRPC_IOCTL_INIT_CREATE": self._create,
            "ADSPRPC_IOCTL_INIT_ATTRS": self._create,
            "ADSPRPC_IOCTL_GETINFO": self._info,
            "FASTRPC_IOCTL_MEM_MAP": self._map,
            "ADSPRPC_IOCTL_MMAP_64": self._map,
            "FASTRPC_IOCTL_MEM_UNMAP": self._unmap,
            "ADSPRPC_IOCTL_MUNMAP_64": self._unmap,
            "FASTRPC_IOCTL_INVOKE": self._invoke,
            "ADSPRPC_IOCTL_INVOKE": self._invoke,
        }

    def ioctl(self, number: int, data: bytearray) -> None:
        """What the driver does."""
        if self.is_closed:
            raise OSError(errno.EBADF, "the node is closed")
        name = self._names.get(number)
        if name is None:
            raise OSError(errno.ENOTTY, f"{number:#x} is no ioctl of {self.path}")
        assert len(data) == number >> 16 & 0x3FFF, "the size is a part of the number"
        self.calls.append(name)
        if name in self.fails:
            raise OSError(self.fails[name], os.strerror(self.fails[name]))
        self._handlers[name](name, data)

    def close(self) -> None:
        """The driver ends the process."""
        self.is_closed = True
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for file in (self.process.stdin, self.process.stdout):
                assert file is not None
                file.close()

    def _info(self, name: str, data: bytearray) -> None:
        if LAYOUTS["fastrpc_getinfo"].get(data, "domain") != structures.COMPUTE_DOMAIN:
            raise OSError(errno.ECHRNG, "no such domain")

    def _create(self, name: str, data: bytearray) -> None:
        layout = LAYOUTS[NUMBERS[name][2]]
        address, size = layout.get(data, "file"), layout.get(data, "filelen")
        if layout.get(data, "attrs") != structures.UNSIGNED_MODULE:
            raise OSError(errno.EPERM, "the program is not signed")
        self.program = ctypes.string_at(address, size)
        if self.program[:4] != b"\x7fELF":
            raise OSError(errno.ENOEXEC, "no ELF program")

    def _map(self, name: str, data: bytearray) -> None:
        layout = LAYOUTS[NUMBERS[name][2]]
        file = layout.get(data, "fd")
        size = layout.get(data, "length" if "length" in layout.fields else "size")
        if not self.program:
            raise OSError(errno.EINVAL, "there is no process")
        if os.fstat(file).st_size < size:
            raise OSError(errno.ENOMEM, "the file is shorter")
        layout.put(data, "vaddrout", self.base)
        self.mappings[self.base] = (file, size)

    def _unmap(self, name: str, data: bytearray) -> None:
        layout = LAYOUTS[NUMBERS[name][2]]
        address = layout.get(data, "vaddr" if "vaddr" in layout.fields else "vaddrout")
        size = layout.get(data, "length" if "length" in layout.fields else "size")
        if self.mappings.get(address, (0, 0))[1] != size:
            raise OSError(errno.EINVAL, "that is not mapped")
        del self.mappings[address]

    def _invoke(self, name: str, data: bytearray) -> None:
        layout = LAYOUTS[NUMBERS[name][2]]
        if layout.get(data, "handle") != HANDLE:
            raise OSError(errno.EINVAL, "no such handle")
        method, inputs, outputs = structures.divided(layout.get(data, "sc"))
        linux = name.startswith("FASTRPC")
        one = LAYOUTS["fastrpc_invoke_args" if linux else "remote_buf"]
        at = layout.get(data, "args" if linux else "pra")
        table = ctypes.string_at(at, one.size_bytes * (inputs + outputs))
        rows = [
            (
                one.get(table[i:], "ptr" if linux else "pv"),
                one.get(table[i:], "length" if linux else "len"),
            )
            for i in range(0, len(table), one.size_bytes)
        ]
        source = ctypes.string_at(*rows[0])
        if method == START:
            self._start(*struct.unpack("<III", source))
        else:
            self._send(source)
        assert (outputs == 0) == (method == WAKE)
        assert method in (START, TAKE, ANSWER, WAKE)
        if outputs:
            ctypes.memmove(rows[1][0], self._receive(), 4)

    def _start(self, file: int, size: int, base: int) -> None:
        if self.mappings.get(base) != (file, size):
            raise OSError(errno.EFAULT, "that is not mapped")
        emulator = shutil.which("qemu-hexagon")
        assert emulator is not None
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder, "monitor")
            program.write_bytes(self.program)
            program.chmod(0o700)
            self.process = subprocess.Popen(
                [emulator, str(program)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=(file,),
                bufsize=0,
            )
            self._send(struct.pack("<III", file, size, base))
            # The program is read before its file goes away: it answers once it has mapped memory.
            self._first = self._read()

    def _send(self, data: bytes) -> None:
        assert self.process and self.process.stdin
        try:
            self.process.stdin.write(data)
        except (OSError, ValueError):
            raise OSError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)) from None

    def _receive(self) -> bytes:
        first, self._first = self._first, b""
        return first or self._read()

    def _read(self) -> bytes:
        assert self.process and self.process.stdout
        data = b""
        with contextlib.suppress(OSError, ValueError):
            while len(data) < 4:
                part = self.process.stdout.read(4 - len(data))
                if not part:
                    break
                data += part
        if len(data) < 4:  # as the driver says after a crash of the DSP
            raise OSError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        return data
