"""WebGPU compiler: shaders are text until their buffers are known; the driver compiles them."""

from __future__ import annotations

from collections.abc import Sequence

from tfn.extend import Target, object_cache


class WebGpuCompiler:
    """Texts as they are: `queue` makes shaders of them.

    Attributes:
        counts: of texts.
    """

    def __init__(self) -> None:
        self.counts = object_cache.Counts()

    def compile(self, text: str, target: Target, level: int = 2) -> bytes:
        """The text."""
        self.counts.compiled += 1
        return text.encode()

    def compile_all(self, texts: Sequence[str], target: Target, level: int = 2) -> list[bytes]:
        """The texts."""
        return [self.compile(text, target, level) for text in texts]
