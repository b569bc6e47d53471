"""Agreement of processes: the names of `jax.experimental.multihost_utils`."""

from __future__ import annotations

from tfn.distributed.multihost import assert_equal as assert_equal
from tfn.distributed.multihost import broadcast_one_to_all as broadcast_one_to_all
from tfn.distributed.multihost import (
    global_array_to_host_local_array as global_array_to_host_local_array,
)
from tfn.distributed.multihost import (
    host_local_array_to_global_array as host_local_array_to_global_array,
)
from tfn.distributed.multihost import process_allgather as process_allgather
from tfn.distributed.multihost import (
    reached_preemption_sync_point as reached_preemption_sync_point,
)
from tfn.distributed.multihost import sync_global_devices as sync_global_devices
