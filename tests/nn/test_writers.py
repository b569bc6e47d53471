"""Writers: CSV rows, and the records of event files as their format says."""

import struct

import pytest

from tfn import nn
from tfn import numpy as jnp
from tfn.errors import ArgumentError
from tfn.nn.writers import CsvWriter, TensorBoardWriter, crc32c


def test_a_csv_file_has_a_row_for_each_step(tmp_path):
    writer = CsvWriter(tmp_path / "a.csv")
    writer.write(1, loss=jnp.float32(0.5), accuracy=1)
    with pytest.raises(ArgumentError, match="same columns"):
        writer.write(2, loss=1.0)
    writer.write(3, accuracy=float("nan"), loss=2.0)
    writer.close()
    lines = (tmp_path / "a.csv").read_text().splitlines()
    assert lines == ["step,loss,accuracy", "1,0.5,1.0", "3,2.0,nan"]


@pytest.mark.parametrize(
    ("data", "want"),  # of RFC 3720, B.4
    [(b"\0" * 32, 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43), (bytes(range(32)), 0x46DD794E)],
)
def test_checksums_are_those_of_the_standard(data, want):
    assert crc32c(data) == want


def test_an_event_file_is_records_with_checksums(tmp_path):
    writer = TensorBoardWriter(tmp_path / "runs")
    writer.write(300, loss=0.25)
    writer.close()
    text, events = writer.path.read_bytes(), []
    while text:
        (length,) = struct.unpack("<Q", text[:8])
        data, rest = text[12 : 12 + length], text[12 + length :]
        for part, sum in ((text[:8], text[8:12]), (data, rest[:4])):
            value = crc32c(part)
            assert struct.unpack("<I", sum)[0] == (
                (value >> 15 | value << 17) + 0xA282EAD8 & 0xFFFFFFFF
            )
        events.append(data[9:])
        text = rest[4:]
    assert events[0] == b"\x1a\x0dbrain.Event:2"
    want = b"\x10\xac\x02\x2a\x0d\x0a\x0b\x0a\x04loss\x15" + struct.pack("<f", 0.25)
    assert events[1] == want


def test_a_training_loop_writes_every_few_steps_and_at_its_end(tmp_path, capsys):
    writer = CsvWriter(tmp_path / "a.csv")
    with nn.progress.Training(5, log_every=2, writers=[writer]) as training:
        for step in range(5):
            training.step(8, loss=step / 2)
    assert (tmp_path / "a.csv").read_text() == "step,loss\n2,0.5\n4,1.5\n5,2.0\n"
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines] == ["step 2 of 5", "step 4 of 5", "step 5 of 5"]
    assert "loss 0.5000" in lines[0]
    with nn.progress.Training(2, log_every=1, quiet=True) as training:
        training.step(1, loss=1.0)
    assert capsys.readouterr().out == ""
