"""Writers of numbers of a training loop: CSV files, and event files of TensorBoard.

An event file is a sequence of records: the length, its checksum, a message, its checksum.  The
checksums are CRC-32C, masked; the messages are of the format of protocol buffers.

Sources: ``tensorflow/core/lib/io/record_writer.h`` and ``tensorflow/core/util/event.proto``, which
document the formats; Castagnoli, Brauer, Herrmann 1993 (CRC-32C).
"""

from __future__ import annotations

import csv
import os
import socket
import struct
import time
from pathlib import Path
from typing import Any, Protocol

from tfn.errors import ArgumentError

_POLYNOMIAL = 0x82F63B78  # of CRC-32C, its bits reversed
_MASK = 0xA282EAD8


class Writer(Protocol):
    """A file of numbers by step."""

    def write(self, step: int, **numbers: Any) -> None:
        """Adds the numbers of a step: floats, or arrays of one element."""

    def close(self) -> None:
        """Closes the file."""


class CsvWriter:
    """A CSV file with a column for the step and one for each number.

    Args:
        path: file to write, from its beginning.

    Raises:
        OSError: if it cannot be written.

    Example:
        >>> writer = CsvWriter("/tmp/tfn-example.csv")
        >>> writer.write(1, loss=0.5)
        >>> writer.write(2, loss=0.25)
        >>> writer.close()
        >>> Path("/tmp/tfn-example.csv").read_text().splitlines()
        ['step,loss', '1,0.5', '2,0.25']
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = open(path, "w", newline="", encoding="utf-8")  # noqa: SIM115  (see close)
        self._rows = csv.writer(self._file, lineterminator="\n")
        self._names: tuple[str, ...] = ()

    def write(self, step: int, **numbers: Any) -> None:
        """Adds a row, and the head of the table before the first.

        Raises:
            ArgumentError: if the names are not those of the first row.
        """
        if not self._names:
            self._names = tuple(numbers)
            self._rows.writerow(("step", *numbers))
        if numbers.keys() != set(self._names):
            raise ArgumentError(
                "each row of a CSV file has the same columns",
                got=", ".join(numbers),
                hint="write " + ", ".join(self._names) + " each time, NaN for what there is not",
            )
        self._rows.writerow((step, *(float(numbers[name]) for name in self._names)))
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class TensorBoardWriter:
    """An event file for TensorBoard, with a curve for each number.

    Args:
        folder: where it is written, under a name of its own; made if it is missing.

    Attributes:
        path: of the file.

    Raises:
        OSError: if it cannot be written.

    Example:
        >>> writer = TensorBoardWriter("/tmp/tfn-example-runs")
        >>> writer.write(1, loss=0.5)
        >>> writer.close()
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        self.path = Path(folder) / name
        self._file = open(self.path, "wb")  # noqa: SIM115  (see close)
        self._event(_bytes(3, b"brain.Event:2"))

    def write(self, step: int, **numbers: Any) -> None:
        """Adds the numbers of a step."""
        values = [
            _bytes(1, _bytes(1, name.encode()) + b"\x15" + struct.pack("<f", float(value)))
            for name, value in numbers.items()
        ]
        self._event(b"\x10" + _varint(step) + _bytes(5, b"".join(values)))
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _event(self, fields: bytes) -> None:
        event = b"\x09" + struct.pack("<d", time.time()) + fields
        length = struct.pack("<Q", len(event))
        self._file.write(length + _masked(length) + event + _masked(event))


def _varint(value: int) -> bytes:
    """A number in groups of 7 bits, the lowest first."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _bytes(field: int, data: bytes) -> bytes:
    """A field of a message, of bytes, text or another message."""
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def crc32c(data: bytes) -> int:
    """The checksum CRC-32C of bytes.

    Example:
        >>> hex(crc32c(b"123456789"))
        '0xe3069283'
    """
    value = 0xFFFFFFFF
    for byte in data:
        value = value >> 8 ^ _TABLE[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF


def _step(value: int) -> int:
    for _ in range(8):
        value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
    return value


_TABLE = [_step(byte) for byte in range(256)]


def _masked(data: bytes) -> bytes:
    """The checksum of data as records have it, so that one of a checksum is not one of its data."""
    value = crc32c(data)
    return struct.pack("<I", ((value >> 15 | value << 17) + _MASK) & 0xFFFFFFFF)
