"""What processes agree on, in one process."""

from __future__ import annotations

import numpy as np
import pytest

import tfn
from tfn.compat import multihost_utils


def test_one_process_agrees_with_itself() -> None:
    multihost_utils.sync_global_devices("start")
    multihost_utils.assert_equal({"a": 1})
    assert multihost_utils.reached_preemption_sync_point(3) is False
    sent = multihost_utils.broadcast_one_to_all({"a": tfn.numpy.arange(3)})
    assert isinstance(sent["a"], np.ndarray) and sent["a"].tolist() == [0, 1, 2]
    assert multihost_utils.process_allgather([np.ones(2)])[0].shape == (1, 2)
    assert multihost_utils.process_allgather(np.ones(2), tiled=True).shape == (2,)


@pytest.mark.usefixtures("eight_devices")
def test_arrays_of_a_host_over_a_mesh_and_back() -> None:
    mesh = tfn.make_mesh((8,), ("x",), tfn.sharding.AxisType.Auto)
    values = {"a": np.arange(16.0), "b": np.ones((3, 8))}
    specs = {"a": tfn.P("x"), "b": tfn.P(None, "x")}
    divided = multihost_utils.host_local_array_to_global_array(values, mesh, specs)
    assert divided["b"].sharding == tfn.NamedSharding(mesh, specs["b"])
    back = multihost_utils.global_array_to_host_local_array(divided, mesh, specs)
    assert back["a"].tolist() == values["a"].tolist() and back["b"].shape == (3, 8)
