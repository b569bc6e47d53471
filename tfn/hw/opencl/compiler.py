"""OpenCL compiler: OpenCL C to the binaries of a driver, kept in memory and on disk.

The driver is the compiler, so binaries are made where they run.  Kernels that are in no cache are
built as one program: to start a build takes the driver longer than most kernels do.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

from tfn._support.cache import Cache
from tfn.config import config
from tfn.errors import CompileError
from tfn.extend import Target, object_cache
from tfn.hw.opencl.driver import Driver

PART = "opencl"  # of the cache on disk
OPTIONS = "-cl-std=CL1.2", "-cl-fp32-correctly-rounded-divide-sqrt"
"""Results are the same on all drivers: nothing is rounded otherwise than IEEE 754 says."""
MAX_MESSAGE_LINES = 12


def joined(texts: Sequence[str]) -> str:
    """The kernels of several texts as one; their common parts, between empty lines, come once.

    Example:
        >>> joined(["types;\\n\\nf();\\n", "types;\\n\\ng();\\n"])
        'types;\\n\\nf();\\n\\ng();\\n'
    """
    parts = dict.fromkeys(part.strip() for text in texts for part in text.split("\n\n"))
    return "\n\n".join(parts) + "\n"


class OpenClCompiler:
    """Compiles kernels once for the device of a driver.

    Attributes:
        options: of the driver's compiler.
        counts: of texts compiled, and of binaries from either cache.
    """

    def __init__(self, driver: Driver, options: Sequence[str] = OPTIONS) -> None:
        self.driver, self.options, self.counts = driver, tuple(options), object_cache.Counts()
        self._memory: Cache[bytes] = Cache("binaries", len)
        self._built: dict[bytes, Any] = {}

    def key(self, text: str) -> str:
        """The digest of everything that determines a binary."""
        parts = (*self.driver.identity, *self.options, text)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def compile(self, text: str, target: Target, level: int = 2) -> bytes:
        """A binary that holds the kernel of a text; `level` is the driver's own.

        Raises:
            CompileError: with the driver's message.
        """
        return self.compile_all([text], target, level)[0]

    def compile_all(self, texts: Sequence[str], target: Target, level: int = 2) -> list[bytes]:
        """For each text a binary that holds its kernel, and others perhaps.

        Raises:
            CompileError: with the driver's message.
        """
        keys = [self.key(text) for text in texts]
        find = partial(self.counts.find, self._memory, PART)
        binaries = {key: data for key in keys if (data := find(key)) is not None}
        missing = {k: t for k, t in zip(keys, texts, strict=True) if k not in binaries}
        if missing:
            data = self._translate(list(missing.values()))
            self.counts.compiled += len(missing)
            for key in missing:
                object_cache.store(PART, key, data)
                binaries[key] = self._memory.keep(key, data)
        return [binaries[key] for key in keys]

    def program(self, binary: bytes) -> Any:
        """The program of a binary, built for the device.

        Raises:
            CompileError: if the driver does not take it, which may happen after an update.
        """
        digest = hashlib.sha256(binary).digest()
        if digest not in self._built:  # it comes from the disk
            cl = self.driver.cl
            program = cl.Program(self.driver.context, [self.driver.device], [binary])
            self._built[digest] = self._build(program)
        return self._built[digest]

    def _translate(self, texts: Sequence[str]) -> bytes:
        """The binary of several texts; their source, if nothing is to be kept on disk.

        For a binary some drivers compile each kernel once more, for groups of any size.
        """
        source = joined(texts)
        program = self._build(self.driver.cl.Program(self.driver.context, source))
        binary = source.encode()
        if config.disk_cache:
            (data,) = program.get_info(self.driver.cl.program_info.BINARIES)
            binary = bytes(data)
        self._built[hashlib.sha256(binary).digest()] = program
        return binary

    def _build(self, program: Any) -> Any:
        cl = self.driver.cl
        try:
            with warnings.catch_warnings():  # a log without an error is of no interest
                warnings.simplefilter("ignore")
                return program.build(options=list(self.options), cache_dir=False)
        except cl.Error as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            raise CompileError(
                f"the OpenCL driver of {self.driver.device.name} does not accept a kernel",
                got="\n       ".join(lines[:MAX_MESSAGE_LINES]),
                hint="this is a fault of tfn, or of the driver",
            ) from None
