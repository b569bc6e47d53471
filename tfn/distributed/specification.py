"""Host specifications: which hosts take part, and how many devices each has.

    host1:CPU*4,host2:CPU*4   ->   (HostItem("host1", 4), HostItem("host2", 4))

    items = item ("," item)*        item = host [":" kind ["*" count]]

A specification is read and checked before any process starts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tfn.config import MOST_DEVICES
from tfn.errors import HostSpecificationError
from tfn.extend import frozen

LOCAL = "local"
"""The name of this process as a host: no other process is started for it."""
KINDS = ("CPU",)
"""The kinds of devices that messages between hosts reach."""
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_EXAMPLE = "hosts='host1:CPU*4,host2:CPU*4'"


@frozen
class HostItem:
    """A host that takes part.

    Attributes:
        host: its name or address.
        devices: the number of its devices.
        kind: of its devices.
    """

    host: str
    devices: int
    kind: str = "CPU"

    def __str__(self) -> str:
        return f"{self.host}:{self.kind}*{self.devices}"


def parse(text: str) -> tuple[HostItem, ...]:
    """The hosts of a specification.

    Raises:
        HostSpecificationError: naming the item that is no host.

    Example:
        >>> [str(item) for item in parse("host1:CPU*4, host2")]
        ['host1:CPU*4', 'host2:CPU*1']
    """
    items: list[HostItem] = []
    for number, part in enumerate(text.split(",") if isinstance(text, str) else [text], 1):
        item = _item(part, f"item {number} of the host specification")
        if item.host in {other.host for other in items}:
            raise HostSpecificationError(
                f"the host specification names {item.host} twice",
                got=text,
                hint=f"a host has one item; {item.host}:CPU*8 gives it more devices",
            )
        items.append(item)
    if len(items) > 1 and LOCAL in {item.host for item in items}:
        raise HostSpecificationError(
            f"{LOCAL} is this process, and cannot be one of several hosts",
            got=text,
            hint=f"name the host itself, or give hosts='{LOCAL}:CPU*8' alone",
        )
    return tuple(items)


def _item(part: object, what: str) -> HostItem:
    if not isinstance(part, str):
        raise HostSpecificationError(f"{what} is no text", got=repr(part), hint=_EXAMPLE)
    host, colon, devices = part.strip().partition(":")
    kind, star, count = devices.partition("*")
    if not _HOST.fullmatch(host):
        raise HostSpecificationError(f"{what} has no host name", got=repr(part), hint=_EXAMPLE)
    if colon and kind not in KINDS:
        raise HostSpecificationError(
            f"{what} asks for a kind of device that hosts do not have",
            got=repr(part),
            hint=f"the kinds are {', '.join(KINDS)}: {host}:CPU*4",
        )
    if star and not (count.isdecimal() and 1 <= int(count) <= MOST_DEVICES):
        raise HostSpecificationError(
            f"{what} has no number of devices",
            got=repr(part),
            hint=f"a number from 1 to {MOST_DEVICES} follows the star: {host}:CPU*4",
        )
    return HostItem(host, int(count) if star else 1)


def check(items: tuple[HostItem, ...], cores: Mapping[str, float]) -> None:
    """Check that a cluster has the hosts, and each of them enough cores for its devices.

    Args:
        items: the hosts asked for.
        cores: the number of cores of each host of the cluster, by name and by address.

    Raises:
        HostSpecificationError: naming the item.

    Example:
        >>> check(parse("host1:CPU*2"), {"host1": 2})
    """
    for item in items:
        if item.host not in cores:
            raise HostSpecificationError(
                f"the cluster has no host {item.host}",
                got=f"{item}; the cluster has {', '.join(sorted(cores)) or 'no hosts'}",
                hint="ray start --address=... on the host adds it; names are those it has itself",
            )
        if item.devices > cores[item.host]:
            raise HostSpecificationError(
                f"{item.host} has too few cores",
                got=f"{item}; it has {cores[item.host]:g}",
                hint=f"give it {cores[item.host]:g} devices, or start Ray there with --num-cpus",
            )
