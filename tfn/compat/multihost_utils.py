"""Agreement of processes: the names of `jax.experimental.multihost_utils`."""

from __future__ import annotations

from tfn.distributed import assert_equal as assert_equal
from tfn.distributed import broadcast_one_to_all as broadcast_one_to_all
from tfn.distributed import global_array_to_host_local_array as global_array_to_host_local_array
from tfn.distributed import host_local_array_to_global_array as host_local_array_to_global_array
from tfn.distributed import process_allgather as process_allgather
from tfn.distributed import sync_global_devices as sync_global_devices
from tfn.distributed.multihost import reached_preemption_sync_point as reached_preemption_sync_point
