"""Who may take part in a job: token and addresses."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest

from tfn.distributed import security
from tfn.distributed.security import INTERFACES, RANGE, TOKEN, TOKEN_FILE
from tfn.errors import SecurityError

GOOD = "0123456789abcdef0123"
HERE = "127.0.0.0/8"


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_FILE, raising=False)
    for name, value in ((TOKEN, GOOD), (RANGE, HERE), (INTERFACES, HERE)):
        monkeypatch.setenv(name, value)


def test_a_process_with_all_that_is_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = security.membership("Open MPI", "a", 1)
    assert own.token == GOOD.encode() and own.address.startswith("127.")
    monkeypatch.delenv(TOKEN)
    (tmp_path / "token").write_text(GOOD + "\n")
    monkeypatch.setenv(TOKEN_FILE, str(tmp_path / "token"))
    assert security.membership("Open MPI", "a", 1) == own
    monkeypatch.delenv(INTERFACES)
    assert security.membership("Slurm", "a", 1) == own


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (TOKEN, "", "needs a token"),
        (TOKEN, "short", "needs a token"),
        (RANGE, "", "needs the range"),
        (RANGE, "here", "needs the range"),
        (RANGE, "203.0.113.0/24", "no address in the range"),
        (INTERFACES, "", "MPI is not bound"),
        (INTERFACES, "10.0.0.0/8", "MPI is not bound"),
    ],
)
def test_what_is_missing_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SecurityError, match=rf"{message}.*host b, rank 3") as caught:
        security.membership("Open MPI", "b", 3)
    assert GOOD not in str(caught.value)  # an error is printed, logged, sent


def test_a_token_file_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(TOKEN)
    monkeypatch.setenv(TOKEN_FILE, str(tmp_path / "none"))
    with pytest.raises(SecurityError, match="cannot be read"):
        security.membership("Open MPI", "b", 0)


def test_proofs_of_a_token() -> None:
    own = security.membership("Open MPI", "a", 0)
    proofs = [own.proof("n", 0), own.proof("n", 1)]
    security.check_proofs(own, "n", proofs, ["a", "b"])
    wrong = [
        [proofs[0], own._replace(token=b"another").proof("n", 1)],
        [proofs[0], own.proof("m", 1)],  # of another job
        [proofs[0], proofs[0]],  # of another process
        [proofs[0], ""],
    ]
    for proofs in wrong:
        with pytest.raises(SecurityError, match="another token") as caught:
            security.check_proofs(own, "n", proofs, ["a", "b"])
        assert (caught.value.host, caught.value.rank) == ("b", 1)


def test_addresses_of_this_host() -> None:
    assert security.own_address(ipaddress.ip_network("127.0.0.0/8")).startswith("127.")
