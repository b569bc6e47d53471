"""The command that starts a job: mpirun, with the switches that jobs of many hosts need.

Source: "Open MPI documentation", version 5.0, chapters 10 and 11; notes of `tfn.distributed.mpi`
on ULFM.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Mapping, Sequence

from tfn import config
from tfn.errors import MissingPackageError

FAULT_TOLERANT = ("--with-ft", "ulfm", "--mca", "pml", "ob1", "--mca", "btl")
"""So that a process which dies is an error in the others, instead of their end.  The carriers are
named because looking for those of other networks takes a second at each start, of 1.2 s."""
MANY_HOSTS = ("self,sm,tcp",)
ONE_MACHINE = ("self,sm", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1")
"""So that processes do not listen for others, and may outnumber the cores: those which wait leave
them to others.  mpirun itself listens, for its daemons; Open MPI 5.0.11 cannot bind it to lo."""
AS_ROOT = {
    f"{name}_ALLOW_RUN_AS_ROOT{end}": "1" for name in ("OMPI", "PRTE") for end in ("", "_CONFIRM")
}
"""In containers the user is often root, which mpirun refuses without these."""


def mpirun() -> str:
    """The path of mpirun: that of this environment, or else of the machine.

    Raises:
        MissingPackageError: if there is none.
    """
    scripts = sysconfig.get_path("scripts")
    path = config.launcher_variables(["PATH"]).get("PATH", "")
    found = shutil.which("mpirun", path=f"{scripts}{os.pathsep}{path}")
    if found is None:
        raise MissingPackageError(
            "a job of several processes needs mpirun", hint="pip install 'tfn[mpi]'"
        )
    return found


def command(
    program: Sequence[str],
    processes: int,
    hosts: Sequence[str] = (),
    launcher: str = "",
    network: str = "",
    exported: Sequence[str] = (),
    under: Sequence[str] = (),
) -> list[str]:
    """The command that runs a Python program in several processes.

    Args:
        program: the arguments of Python.
        processes: the number of processes.
        hosts: one for each process; none for processes of this machine.
        launcher: a command that runs another one on a host: ``launcher host command ...``; that of
            mpirun, ssh, if left out.
        network: the range of addresses to which MPI is bound.
        exported: variables of the environment that go to all hosts.
        under: a command that runs another one, and has its status.

    Example:
        >>> words = command(["train.py"], 2, ["a", "b"], network="10.0.0.0/24")
        >>> words[words.index("--host") + 1]
        'a:1,b:1'
    """
    words = [mpirun(), "-n", str(processes), "--bind-to", "none", *FAULT_TOLERANT]
    if hosts:
        words += [*MANY_HOSTS, "--host", ",".join([f"{host}:1" for host in hosts])]
        words += ["--prefix", os.path.dirname(os.path.dirname(mpirun()))]
    else:
        words += ONE_MACHINE
    if launcher:
        words += ["--prtemca", "plm_ssh_agent", launcher]
    if network:
        words += ["--mca", "btl_tcp_if_include", network, "--prtemca", "prte_if_include", network]
    for name in exported:
        words += ["-x", name]
    return [*words, *under, sys.executable, *program]


def environment(**variables: str) -> Mapping[str, str]:
    """The environment of mpirun."""
    return config.child_environment(**(AS_ROOT if os.getuid() == 0 else {}) | variables)
