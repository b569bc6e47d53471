"""AMD's GPUs as targets: their code is assembled as their own architecture says."""

from __future__ import annotations

import pytest

from tests.lower.graphs import jaxpr, p
from tfn.errors import DeviceError
from tfn.hw.amd.code_object import linked
from tfn.hw.amd.compiler import AmdCompiler
from tfn.hw.amd.target import TARGETS, of_architecture
from tfn.lower import pipeline


@pytest.mark.parametrize("name", TARGETS)
def test_a_kernel_is_compiled_for_each_architecture(name: str) -> None:
    target = of_architecture(name)
    (kernel,) = pipeline.lower(jaxpr([p(0, 300) * 2.0]), target).kernels
    image = linked(AmdCompiler().compile(kernel.text, target, 0))
    assert image.architecture == name
    found = image.kernels[kernel.name]
    assert target.grid is not None and found.waves_of == target.grid.warp_threads
    assert found.kernarg_bytes == 16 and found.private_bytes == 0  # two addresses, no spills


def test_other_architectures_are_refused() -> None:
    with pytest.raises(
        DeviceError, match="makes no code for AMD GPUs of the architecture 'gfx803'"
    ):
        of_architecture("gfx803")
