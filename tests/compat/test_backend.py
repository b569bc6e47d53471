"""Backends, and devices as JAX's users ask for them."""

import pytest

from tests.compat.test_install import run
from tfn.compat import backend
from tfn.errors import DeviceError

EIGHT = "--xla_force_host_platform_device_count=8"


def test_a_backend_counts_the_devices_of_its_platform():
    found = backend.get_backend()
    assert found == backend.get_backend("cpu") == backend.backends()["cpu"]
    assert found.device_count() == found.local_device_count() == len(found.devices())
    assert found.process_index() == 0 and found.runtime_type == "tfn"
    assert backend.get_default_device() in found.local_devices()
    with pytest.raises(DeviceError):
        backend.get_backend("gpu3")


ASK = {
    "in the program": f'import os; os.environ["XLA_FLAGS"] = "--a=1 {EIGHT}"; import jax',
    "after the import": f'import os, jax; os.environ["XLA_FLAGS"] = "{EIGHT}"',
    "by a setting": 'import jax; jax.config.update("jax_num_cpu_devices", 8)',
    "the last counts": f"""import os
os.environ["XLA_FLAGS"] = "{EIGHT[:-1]}2 {EIGHT}"; import jax""",
}


@pytest.mark.parametrize("way", ASK)
def test_eight_devices_in_every_way_that_jax_has(way):
    out = run(
        "from tfn.compat import install_as_jax; install_as_jax()\n"
        + ASK[way]
        + "\nmesh = jax.make_mesh((8,), ('x',)); print(jax.device_count(), mesh.size)"
    )
    assert out == "8 8\n"
