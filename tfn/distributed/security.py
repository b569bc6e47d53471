"""Access to a job over several hosts: for processes with its token, at an address of its range.

MPI has no authentication and no encryption.  So a job over several hosts does not start without a
token that all processes share, and a range of addresses to which the traffic of MPI is bound.  The
token keeps a process of another job, or of a forgotten script, out of this one.  It does not
protect what MPI sends: a peer that reaches a port of MPI within the range can read it and alter
it.  The range belongs behind a firewall, or on an encrypted network.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import socket
from pathlib import Path
from typing import NamedTuple

from tfn import config
from tfn.errors import SecurityError

MIN_TOKEN_CHARACTERS = 16
"""A token of 16 random characters has 80 bits and more: too many to try."""
TOKEN, TOKEN_FILE, RANGE = "TFN_CLUSTER_TOKEN", "TFN_CLUSTER_TOKEN_FILE", "TFN_CLUSTER_CIDR"
INTERFACES = "OMPI_MCA_btl_tcp_if_include"
"""The variable by which mpirun tells its processes ``--mca btl_tcp_if_include``."""


class Membership(NamedTuple):
    """The right of a process to take part.

    Attributes:
        token: the secret of the job.
        network: the range of addresses.
        address: of this host in it.
    """

    token: bytes
    network: str
    address: str

    def proof(self, nonce: str, rank: int) -> str:
        """The proof that a process has the token, for a number that the job has drawn.

        Source: RFC 2104, "HMAC: Keyed-Hashing for Message Authentication".
        """
        return hmac.new(self.token, f"tfn {nonce} {rank}".encode(), hashlib.sha256).hexdigest()


def check_variables(who: str = "") -> tuple[str, ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """The token and the range of addresses of a job, from the environment.

    Args:
        who: the process that asks, for errors.

    Raises:
        SecurityError: if one is missing, or is none.
    """
    found = config.launcher_variables([TOKEN, TOKEN_FILE, RANGE])
    token, network = found.get(TOKEN, ""), found.get(RANGE, "")
    if not token and TOKEN_FILE in found:
        try:
            token = Path(found[TOKEN_FILE]).read_text().strip()
        except OSError as error:
            raise SecurityError(
                f"the token of the job cannot be read{who}", got=str(error)
            ) from None
    if len(token) < MIN_TOKEN_CHARACTERS:
        raise SecurityError(
            f"a job over several hosts needs a token{who}",
            got=f"{TOKEN} has {len(token)} characters",
            hint=f"python -c 'import secrets; print(secrets.token_hex())' makes one; {TOKEN_FILE} "
            "names a file that holds it, the same on all hosts",
        )
    try:
        return token, ipaddress.ip_network(network)
    except ValueError:
        raise SecurityError(
            f"a job over several hosts needs the range of their addresses{who}",
            got=f"{RANGE}={network!r}",
            hint=f"{RANGE}=10.0.0.0/24, for example",
        ) from None


def membership(launcher: str, host: str, rank: int) -> Membership:
    """The token, the range and the address of this process.

    Raises:
        SecurityError: if one is missing, or does not fit.
    """
    who = f" (host {host}, rank {rank})"
    token, subnet = check_variables(who)
    network = config.launcher_variables([RANGE])[RANGE]
    bound = config.launcher_variables([INTERFACES]).get(INTERFACES)
    address = own_address(subnet)
    if ipaddress.ip_address(address or "0.0.0.0") not in subnet:
        raise SecurityError(
            f"this host has no address in the range of the job{who}",
            got=f"{RANGE}={network}, address {address or 'none'}",
            hint="give the network of the hosts as the range",
        )
    if launcher == "Open MPI" and bound != network:
        raise SecurityError(
            f"MPI is not bound to the range of the job{who}",
            got=f"{RANGE}={network}, btl_tcp_if_include={bound}",
            hint=f"mpirun --mca btl_tcp_if_include {network} --prtemca prte_if_include {network}",
        )
    return Membership(token.encode(), network, address)


def own_address(subnet: ipaddress.IPv4Network | ipaddress.IPv6Network) -> str:
    """The address from which this host would reach a network; empty if it cannot.

    Nothing is sent: connecting a socket for datagrams only asks for the route.
    """
    family = socket.AF_INET if subnet.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((str(next(iter(subnet.hosts()))), 9))
        except OSError:
            return ""
        return str(probe.getsockname()[0])


def check_proofs(own: Membership, nonce: str, proofs: list[str], hosts: list[str]) -> None:
    """Check that all processes have the token of this one.

    Raises:
        SecurityError: naming the first that has not.
    """
    for rank, (proof, host) in enumerate(zip(proofs, hosts, strict=True)):
        if not hmac.compare_digest(proof, own.proof(nonce, rank)):
            raise SecurityError(
                "a process has another token than this one",
                host=host,
                rank=rank,
                hint=f"{TOKEN} is the same on all hosts of a job",
            )
