"""Specifications of hosts: what is read, and what is refused with which words."""

from __future__ import annotations

import pytest

from tests.conftest import Golden
from tfn.distributed.specification import HostItem, check, parse
from tfn.errors import HostSpecificationError

WRONG = (
    "",
    "host1,,host2",
    "host1:CPU*4,host1:CPU*2",
    "host1:TPU*4",
    "host1:CPU*0",
    "host1:CPU*four",
    "host1:CPU*",
    "-rf:CPU*1",
    "host1;reboot:CPU*1",
    "local:CPU*2,host1:CPU*2",
)


def shown(text: str, error: HostSpecificationError) -> str:
    return f"{text!r}\n{error.what}\n  got: {error.got}\n  hint: {error.hint}"


def test_items_of_hosts() -> None:
    assert parse("host1:CPU*4, 10.0.0.2:CPU ,c") == (
        HostItem("host1", 4),
        HostItem("10.0.0.2", 1),
        HostItem("c", 1),
    )


def test_wrong_specifications(golden: Golden) -> None:
    rows = []
    for text in WRONG:
        with pytest.raises(HostSpecificationError) as found:
            parse(text)
        rows.append(
            f"{text!r}\n{found.value.what}\n  got: {found.value.got}\n  hint: {found.value.hint}"
        )
    cores = {"host1": 4.0, "host2": 2.0}
    for text in ("host3:CPU*1", "host2:CPU*4"):
        with pytest.raises(HostSpecificationError) as found:
            check(parse(text), cores)
        rows.append(
            f"{text!r}\n{found.value.what}\n  got: {found.value.got}\n  hint: {found.value.hint}"
        )
    golden("host_specifications.txt", "\n\n".join(rows) + "\n")


def test_no_text_is_refused() -> None:
    with pytest.raises(HostSpecificationError, match="is no text"):
        parse(4)  # type: ignore[arg-type]
