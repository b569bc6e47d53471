"""Commands on other hosts, through their agents."""

from __future__ import annotations

from pathlib import Path

from tfn.distributed import relay


def test_a_command_goes_to_its_host_and_its_status_comes_back(tmp_path: Path) -> None:
    asked: list[tuple[str, str]] = []
    path = str(tmp_path / "relay.sock")
    listener = relay.serve(path, lambda host, text: asked.append((host, text)) or len(asked))
    assert [relay.main([path, "b", "prted", "--leave"]), relay.main([path, "c", "true"])] == [1, 2]
    assert asked == [("b", "prted --leave"), ("c", "true")]
    listener.close()
    assert relay.main([path, "b", "true"]) == relay.FAILED
