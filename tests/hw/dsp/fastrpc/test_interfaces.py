"""Interfaces: what each driver is asked for, decoded again."""

from __future__ import annotations

import ctypes
import os

import pytest

from tests.hw.dsp.fastrpc.simulation import SimulatedNode
from tfn.errors import DeviceError
from tfn.hw.dsp.fastrpc.interfaces import INTERFACES, Interface

PROGRAM = b"\x7fELF of a program"


@pytest.fixture(params=INTERFACES, ids=lambda interface: interface.path.split("/")[-1])
def interface(request: pytest.FixtureRequest) -> Interface:
    made: Interface = request.param
    return made


def created(interface: Interface) -> SimulatedNode:
    node = SimulatedNode(interface.path)
    program = ctypes.create_string_buffer(PROGRAM, len(PROGRAM))
    interface.create(node, ctypes.addressof(program), len(PROGRAM))
    return node


def test_a_program_arrives_whole(interface: Interface) -> None:
    assert created(interface).program == PROGRAM


def test_what_is_no_program_is_refused(interface: Interface) -> None:
    text = ctypes.create_string_buffer(b"text")
    with pytest.raises(DeviceError, match="no ELF program"):
        interface.create(SimulatedNode(interface.path), ctypes.addressof(text), 4)


def test_memory_is_mapped_and_unmapped(interface: Interface) -> None:
    node, file = created(interface), os.memfd_create("memory")
    os.ftruncate(file, 8192)
    with pytest.raises(DeviceError, match="shorter"):
        interface.map(node, file, 0x7000_0000_0000, 16384)
    address = interface.map(node, file, 0x7000_0000_0000, 8192)
    assert node.mappings == {address: (file, 8192)}
    with pytest.raises(DeviceError, match="not mapped"):
        interface.unmap(node, file, address, 4096)
    interface.unmap(node, file, address, 8192)
    assert not node.mappings
    os.close(file)


def test_another_handle_is_refused(interface: Interface) -> None:
    with pytest.raises(DeviceError, match="no such handle"):
        interface.invoke(created(interface), 1, 0, [], [])
