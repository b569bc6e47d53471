"""Connecting to a cluster, and to this process."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tfn
from tests.distributed.jobs import ROOT
from tfn import distributed
from tfn.errors import ArgumentError, DistributedError, HostSpecificationError, SecurityError
from tfn.sharding import NamedSharding
from tfn.sharding import PartitionSpec as P


def test_without_a_cluster_the_devices_are_those_of_this_process() -> None:
    before = tfn.config.devices
    with distributed.connect(hosts="local:CPU*4") as cluster:
        assert len(tfn.devices()) == 4 and cluster.hosts == ("local",)
        mesh = tfn.make_mesh((4,), ("d",))
        x = tfn.device_put(np.arange(8), NamedSharding(mesh, P("d")))
        assert x.sum().item() == 28 and cluster.dispatches == 0
        cluster.progress(1)
        cluster.synchronize()
        cluster.restart()
        assert cluster.restarts == 0
        with pytest.raises(DistributedError, match="already"):
            distributed.connect()
    assert tfn.config.devices == before
    cluster.close()


def test_nothing_listens_and_nothing_is_loaded_in_this_process() -> None:
    script = (
        "import os, sys, tfn\n"
        "with tfn.distributed.connect(hosts='local:CPU*2'):\n"
        "    assert len(tfn.devices()) == 2\n"
        "    fds = [os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd')"
        " if os.path.exists(f'/proc/self/fd/{n}')]\n"
        "    assert not [x for x in fds if x.startswith('socket')], fds\n"
        "assert not {'ray', 'mpi4py', 'mpi4py.MPI'} & set(sys.modules)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True, timeout=60)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"hosts": "host1:CPU*2"}, HostSpecificationError, "there is no cluster"),
        ({"address": "ray"}, HostSpecificationError, "needs the hosts"),
        ({"address": "ray", "hosts": "local:CPU*2"}, HostSpecificationError, "needs the hosts"),
        ({"address": "tcp://x", "hosts": "a,b"}, ArgumentError, "no address of a cluster"),
        ({"steps_per_dispatch": 0}, ArgumentError, "at least one step"),
        ({"steps_per_dispatch": "10"}, ArgumentError, "at least one step"),
        ({"deadline_s": 0.0}, ArgumentError, "a deadline is a time"),
        ({"address": "ray", "hosts": "a,b", "spares": "b"}, HostSpecificationError, "a spare too"),
        ({"address": "ray", "hosts": "a,b", "elastic": (3, 4)}, HostSpecificationError, "limits"),
        ({"address": "ray", "hosts": "a,b", "elastic": 2}, HostSpecificationError, "limits"),
        ({"address": "ray://10.0.0.1:6379", "hosts": "a,b"}, SecurityError, "needs a token"),
    ],
)
def test_what_is_refused_before_anything_starts(
    arguments: dict[str, Any], error: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TFN_CLUSTER_TOKEN", raising=False)
    monkeypatch.delenv("TFN_CLUSTER_TOKEN_FILE", raising=False)
    with pytest.raises(error, match=words):
        distributed.connect(**arguments)


def test_an_error_of_the_user_is_not_tried_again() -> None:
    calls: list[int] = []

    def train() -> None:
        calls.append(1)
        raise DistributedError("not of the cluster")

    with distributed.connect() as cluster, pytest.raises(DistributedError, match="not of the"):
        cluster.run(train)
    assert calls == [1]
