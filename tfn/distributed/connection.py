"""Connecting: the script runs once, in this process, and the devices are those of a cluster.

    cluster = tfn.distributed.connect("ray", hosts="a:CPU*2,b:CPU*2")
    mesh = tfn.make_mesh((4,), ("data",))          devices of both hosts

Without an address the devices are those of this process: no server, no package.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tfn.config import config, launcher_variables
from tfn.distributed import security
from tfn.distributed.controller import Controller
from tfn.distributed.gang import Gang, RayGang
from tfn.distributed.session import DEADLINE_S, is_initialized
from tfn.distributed.specification import LOCAL, HostItem, parse
from tfn.errors import ArgumentError, DistributedError, HostSpecificationError
from tfn.extend import devices

T = TypeVar("T")
RESTARTS = 3
_CONNECTED: list[Cluster] = []


class Cluster:
    """Hosts whose devices are those of this process, until it is closed; usable as a context.

    Attributes:
        hosts: their names; one, "local", without a cluster.
        restarts: how often the workers were started again.
    """

    def __init__(self, items: tuple[HostItem, ...], controller: Controller | None) -> None:
        self._items, self.controller, self.restarts = items, controller, 0
        self._before = config.devices

    @property
    def items(self) -> tuple[HostItem, ...]:
        """The hosts that take part now, with their devices."""
        return self.controller.gang.items if self.controller else self._items

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of the hosts."""
        return tuple([item.host for item in self.items])

    @property
    def devices(self) -> list[Any]:
        """The devices of all hosts, host by host: `tfn.devices()` while it is connected."""
        return devices.devices()

    @property
    def dispatches(self) -> int:
        """The number of times that commands were sent to the hosts."""
        return self.controller.dispatches if self.controller else 0

    def synchronize(self) -> None:
        """Wait until the hosts have done all that was called.

        Raises:
            TfnError: the first error of a host.
        """
        if self.controller:
            self.controller.flush(wait=True)

    def progress(self, step: int, committed: int | None = None) -> None:
        """Tell the step that begins, and that of the last whole checkpoint, for errors."""
        if self.controller:
            self.controller.progress(step, committed)

    def restart(self) -> None:
        """End what is left of the workers, and start all anew; arrays of the cluster are lost.

        Raises:
            DistributedError: if they cannot be started.
        """
        if self.controller:
            self.controller.restart()
            self.restarts += 1

    def run(self, train: Callable[[], T], restarts: int = RESTARTS) -> T:
        """The result of a function, which is called anew after each fault of the job.

        The function begins with loading the newest checkpoint that is whole, as
        `nn.checkpoint.Checkpoints.resume` does, and makes its arrays itself: those of an earlier
        call are lost.

        Args:
            train: the function.
            restarts: how often, at most.

        Raises:
            DistributedError: the fault after the last restart.

        Example:
            >>> with connect() as cluster:
            ...     cluster.run(lambda: 7)
            7
        """
        for left in range(restarts, -1, -1):
            try:
                if self.controller is not None and self.controller.fault is not None:
                    self.restart()
                return train()
            except DistributedError:
                if not left or self.controller is None or self.controller.fault is None:
                    raise
        raise AssertionError("the last call has returned or raised")

    def close(self) -> None:
        """End the workers; this process has its own devices again."""
        if self in _CONNECTED:
            _CONNECTED.remove(self)
            if self.controller is None:
                config.devices = self._before
            else:
                self.controller.uninstall()
                self.controller.gang.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<a cluster of {', '.join(map(str, self.items))}>"


def connect(
    address: str | None = None,
    hosts: str | None = None,
    *,
    steps_per_dispatch: int = 1,
    deadline_s: float = DEADLINE_S,
    spares: str | None = None,
    elastic: tuple[int, int] | None = None,
    variables: Mapping[str, str] | None = None,
) -> Cluster:
    """Makes the devices of many hosts those of this process.

    Functions are traced here and run there.  Arrays stay on the hosts: those that this process
    holds are handles, of which `np.asarray` fetches the data.

    Args:
        address: "ray://HOST:PORT", a cluster that `ray start` has made; "ray", a cluster on this
            machine, which ends with this process; None for the devices of this process.
        hosts: which hosts take part, and the number of devices of each:
            ``"host1:CPU*4,host2:CPU*4"``.  On this machine the names are free.
        steps_per_dispatch: how many jitted calls and operations go to the hosts together.  A value
            that is asked for is waited for at once.
        deadline_s: seconds for which a message between hosts is waited for, at most.
        spares: hosts that take the places of those that are lost, after a fault.
        elastic: the least and the largest number of hosts with which a restart goes on: all that
            are there, spares among them; as many as at the beginning if left out.
        variables: for the environment of the workers.

    Raises:
        HostSpecificationError: for a specification that is not one, or that the cluster does not
            fulfil; nothing has been started then.
        SecurityError: for several hosts without a token and a range of addresses.
        MissingPackageError: if ray or mpi4py is needed, and not installed.
        DistributedError: if a cluster is connected, or cannot be reached.

    Example:
        >>> with connect(hosts="local:CPU*4") as cluster:
        ...     len(cluster.devices)
        4
    """
    if _CONNECTED or is_initialized():
        raise DistributedError(
            "this process has its devices from a cluster already",
            got=repr(_CONNECTED[0]) if _CONNECTED else "initialize() was called",
            hint="cluster.close() gives them back",
        )
    if type(steps_per_dispatch) is not int or steps_per_dispatch < 1:
        raise ArgumentError(
            "a dispatch has at least one step", got=f"steps_per_dispatch={steps_per_dispatch!r}"
        )
    if not deadline_s > 0:
        raise ArgumentError("a deadline is a time", got=f"deadline_s={deadline_s!r}")
    items = parse(hosts) if hosts is not None else (HostItem(LOCAL, config.devices),)
    if address is None:
        return _embedded(items)
    if hosts is None or items[0].host == LOCAL:
        raise HostSpecificationError(
            "a cluster needs the hosts that take part",
            got=f"hosts={hosts!r}",
            hint="connect(address, hosts='host1:CPU*4,host2:CPU*4')",
        )
    if address != "ray" and not address.startswith("ray://"):
        raise ArgumentError(
            "this is no address of a cluster",
            got=repr(address),
            hint="'ray://10.0.0.1:6379', or 'ray' for one on this machine",
        )
    if address != "ray" and len(items) > 1:
        security.check_variables()
    others = parse(spares) if spares else ()
    twice = {item.host for item in items} & {item.host for item in others}
    if twice or LOCAL in {item.host for item in others}:
        raise HostSpecificationError(
            f"{min(twice or {LOCAL})} takes part, and cannot be a spare too",
            got=f"hosts={hosts!r}, spares={spares!r}",
        )
    _check_elastic(elastic, len(items))
    gang = RayGang(
        address,
        items,
        deadline_s,
        _variables(items, address == "ray", variables),
        others,
        elastic,
    )
    return started(items, gang, steps_per_dispatch, deadline_s)


def started(
    items: tuple[HostItem, ...], gang: Gang, steps_per_dispatch: int, deadline_s: float
) -> Cluster:
    """The cluster of a gang, which is started."""
    try:
        gang.start()
    except BaseException:
        gang.close()
        raise
    controller = Controller(gang, items, steps_per_dispatch, deadline_s)
    controller.install()
    return _connected(Cluster(items, controller))


def _check_elastic(elastic: object, count: int) -> None:
    pair = elastic if isinstance(elastic, tuple) and len(elastic) == 2 else (0, 0)
    if elastic is not None and not (
        all(type(n) is int for n in pair) and 1 <= pair[0] <= count <= pair[1]
    ):
        raise HostSpecificationError(
            "the limits of an elastic cluster are two numbers around that of its hosts",
            got=f"elastic={elastic!r}, {count} hosts",
            hint=f"elastic=(1, {count})",
        )


def _embedded(items: tuple[HostItem, ...]) -> Cluster:
    if items[0].host != LOCAL:
        raise HostSpecificationError(
            f"{items[0].host} is another host, and there is no cluster",
            got=", ".join(map(str, items)),
            hint=f"connect('ray://...', hosts=...), or hosts='{LOCAL}:CPU*4' for this process",
        )
    cluster = Cluster(items, None)
    config.devices = items[0].devices
    return _connected(cluster)


def _connected(cluster: Cluster) -> Cluster:
    _CONNECTED.append(cluster)
    atexit.register(cluster.close)
    return cluster


def _variables(
    items: tuple[HostItem, ...], one_machine: bool, given: Mapping[str, str] | None
) -> dict[str, str]:
    """The environment of workers: those that share a machine share its cores."""
    known = launcher_variables(["PYTHONPATH", "TFN_THREADS"])
    own = {"PYTHONPATH": os.pathsep.join([known.get("PYTHONPATH", ""), os.getcwd()])}
    if one_machine and "TFN_THREADS" not in known:
        own["TFN_THREADS"] = str(max(1, (os.cpu_count() or 1) // len(items)))
    if not one_machine:
        own |= launcher_variables([security.TOKEN, security.TOKEN_FILE, security.RANGE])
    return own | dict(given or {})
