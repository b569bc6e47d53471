"""Hosts in one machine: network namespaces on a bridge, each with its own name and its own link.

    with hosts(3) as launcher: ...        host1, host2, host3, at 10.77.0.1 to 10.77.0.3

It needs root.  A host whose link is down refuses commands, as a host that is not there does.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

NETWORK = "10.77.0.0/24"
TAG = f"{os.getpid():x}"
"""Names of this process's namespaces contain it, so that those of two do not meet."""
BRIDGE = f"tfnb{TAG}"
LAUNCHER = f"""#!/bin/sh
host=$1; shift
ip -n tfn-{TAG}-$host link show eth0 2>/dev/null | grep -q 'state UP' || exit 255
exec ip netns exec tfn-{TAG}-$host unshare --uts sh -c 'hostname '$host'; exec sh -c "$0"' "$*"
"""


def allowed() -> str:
    """The reason why there cannot be namespaces here; empty if there can."""
    if os.getuid() != 0 or shutil.which("ip") is None or shutil.which("unshare") is None:
        return "network namespaces need root, ip and unshare"
    made = subprocess.run(["ip", "netns", "add", f"tfn-{TAG}"], capture_output=True, text=True)
    if made.returncode:
        return f"network namespaces are not allowed here: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", f"tfn-{TAG}"], check=True)
    return ""


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def hosts(count: int) -> Iterator[str]:
    """Namespaces as hosts; the command that runs another one on a host."""
    names = [f"host{i}" for i in range(1, count + 1)]
    table = "127.0.0.1 localhost\n" + "".join(
        [f"10.77.0.{i} {name}\n" for i, name in enumerate(names, 1)]
    )
    folder = Path(tempfile.mkdtemp(prefix="tfn-hosts-"))
    launcher = folder / "on"
    launcher.write_text(LAUNCHER)
    launcher.chmod(0o755)
    try:
        _ip("link", "add", BRIDGE, "type", "bridge")
        _ip("link", "set", BRIDGE, "up")
        for i, name in enumerate(names, 1):
            Path(f"/etc/netns/tfn-{TAG}-{name}").mkdir(parents=True, exist_ok=True)
            Path(f"/etc/netns/tfn-{TAG}-{name}/hosts").write_text(table)
            _ip("netns", "add", f"tfn-{TAG}-{name}")
            _ip(
                "link",
                "add",
                f"tfv{TAG}{i}",
                "type",
                "veth",
                "peer",
                "eth0",
                "netns",
                f"tfn-{TAG}-{name}",
            )
            _ip("link", "set", f"tfv{TAG}{i}", "master", BRIDGE, "up")
            _ip("-n", f"tfn-{TAG}-{name}", "addr", "add", f"10.77.0.{i}/24", "dev", "eth0")
            up(name)
            _ip("-n", f"tfn-{TAG}-{name}", "link", "set", "lo", "up")
        yield str(launcher)
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", f"tfn-{TAG}-{name}"], capture_output=True)
            shutil.rmtree(f"/etc/netns/tfn-{TAG}-{name}", ignore_errors=True)
        subprocess.run(["ip", "link", "del", BRIDGE], capture_output=True)
        shutil.rmtree(folder)


def up(host: str) -> None:
    """Set the link of a host up."""
    _ip("-n", f"tfn-{TAG}-{host}", "link", "set", "eth0", "up")


def received_bytes(host: str) -> int:
    """The bytes that have come to a host by its link."""
    words = ["ip", "-n", f"tfn-{TAG}-{host}", "-s", "-j", "link", "show", "eth0"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return int(json.loads(done.stdout)[0]["stats64"]["rx"]["bytes"])


def on(host: str, launcher: str, words: Sequence[str]) -> list[str]:
    """The command that runs another one on a host."""
    return [launcher, host, shlex.join(words)]
