"""AMD queue: launches the kernels of a program in order, on whatever GPU there is."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from functools import partial

from tfn.extend import Learn, Program, commands, driven
from tfn.hw.amd.bus import Gpu
from tfn.hw.amd.code_object import Image, linked


class AmdQueue:
    """Runs programs in the order in which they are called."""

    def __init__(self, gpu: Gpu, memory: driven.DriverMemory) -> None:
        self.gpu, self.memory = gpu, memory
        self.lock = threading.RLock()  # a function of the host may call programs itself
        self._images: dict[bytes, Image] = {}

    def serve(self, array: type, learn: Learn | None = None) -> None:
        """Nothing: there are no native entries."""

    def load(self, program: Program, objects: Mapping[str, bytes]) -> driven.DriverExecutable:
        """The program, with its kernels.

        Raises:
            CompileError: for an object that is not understood.
        """
        images = {k.name: self._image(objects[k.name]) for k in program.kernels}
        begun = partial(self._launch, images), _nothing
        return driven.DriverExecutable(program, self.memory, self.lock, lambda: begun)

    def _launch(
        self, images: Mapping[str, Image], run: driven.DriverRun, command: commands.Launch
    ) -> None:
        """Enqueue a kernel."""
        places = map(run.place, command.operands)
        arguments = [self.gpu.address(memory) + offset for memory, offset in places]
        name, groups, threads = command.kernel, command.groups, command.threads
        self.gpu.launch(images[name], name, groups, threads, arguments)

    def _image(self, data: bytes) -> Image:
        key = hashlib.sha256(data).digest()
        if key not in self._images:
            self._images[key] = linked(data)
        return self._images[key]

    def synchronize(self) -> None:
        """Wait until all commands have run."""
        self.gpu.synchronize()


def _nothing() -> None:
    """Nothing: each launch has been enqueued."""
