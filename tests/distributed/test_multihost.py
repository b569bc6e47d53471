"""Values of all processes, where there is one; with several see `job_api.py`."""

from __future__ import annotations

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn import distributed
from tfn.compat import multihost_utils
from tfn.distributed import multihost
from tfn.errors import DistributedError
from tfn.sharding import NamedSharding
from tfn.sharding import PartitionSpec as P


def test_one_process_has_all_values() -> None:
    x = {"a": tnp.arange(3), "b": 2.0}
    assert multihost.process_allgather(x)["a"].tolist() == [[0, 1, 2]]
    assert multihost.process_allgather(x, tiled=True)["a"].tolist() == [0, 1, 2]
    assert multihost.process_allgather(x)["b"].shape == (1,)
    assert multihost.broadcast_one_to_all(x)["a"].tolist() == [0, 1, 2]
    with pytest.raises(DistributedError, match="one source"):
        multihost.broadcast_one_to_all(x, is_source=False)
    multihost.assert_equal(x)
    multihost.sync_global_devices("here")
    assert not multihost.reached_preemption_sync_point(3)


@pytest.mark.usefixtures("eight_devices")
def test_arrays_of_this_process_over_a_mesh() -> None:
    mesh, x = tfn.make_mesh((8,), "d", tfn.sharding.AxisType.Auto), np.arange(16.0, dtype="float32")
    whole = multihost.host_local_array_to_global_array({"x": x}, mesh, P("d"))
    assert whole["x"].sharding == NamedSharding(mesh, P("d"))
    back = multihost.global_array_to_host_local_array(whole, mesh, P("d"))
    assert np.array_equal(back["x"], x)


def test_jax_names() -> None:
    for name in ("process_allgather", "broadcast_one_to_all", "sync_global_devices"):
        assert getattr(multihost_utils, name) is getattr(distributed, name)
