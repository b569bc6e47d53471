"""FastRPC's structures against the headers of the kernels: sizes, offsets, numbers of ioctls."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pytest

from tfn.hw.dsp.fastrpc import structures
from tfn.hw.dsp.fastrpc.structures import LAYOUTS, NUMBERS, STRUCTURES

HEADERS = (Path("/usr/include/misc/fastrpc.h"), Path("/usr/include/linux/dma-heap.h"))
DECLARATIONS = Path(__file__).parents[3] / "data" / "adsprpc_structures.txt"
C_TYPES: dict[str, type[ctypes._SimpleCData]] = {  # type: ignore[type-arg]
    "__u32": ctypes.c_uint32,
    "__s32": ctypes.c_int32,
    "__u64": ctypes.c_uint64,
    "uint32_t": ctypes.c_uint32,
    "int32_t": ctypes.c_int32,
    "uint64_t": ctypes.c_uint64,
    "int": ctypes.c_int,
    "unsigned int": ctypes.c_uint,
    "uintptr_t": ctypes.c_size_t,
    "size_t": ctypes.c_size_t,
    "pointer": ctypes.c_void_p,
}
has_headers = pytest.mark.skipif(
    not all(path.exists() for path in HEADERS),
    reason="the headers of Linux are not installed: apt install linux-libc-dev",
)


def as_c_has_it(members: list[tuple[str, str, int]]) -> tuple[int, dict[str, tuple[int, int]]]:
    """Size of a structure, offset and size of each member, by ctypes: C's rules of this machine."""
    fields = [
        (name, C_TYPES[kind] * count if count else C_TYPES[kind]) for name, kind, count in members
    ]
    made = type("Made", (ctypes.Structure,), {"_fields_": fields})
    places = {
        name: (getattr(made, name).offset, getattr(made, name).size) for name, _, _ in members
    }
    return ctypes.sizeof(made), places


def check(name: str, members: list[tuple[str, str, int]]) -> None:
    size, places = as_c_has_it(members)
    layout = LAYOUTS[name]
    ours = {
        member: (
            field.offset,
            ctypes.sizeof(
                {"I": ctypes.c_uint32, "i": ctypes.c_int32, "Q": ctypes.c_uint64}[field.form]
            )
            * field.count,
        )
        for member, field in layout.fields.items()
    }
    assert layout.size_bytes == size
    assert ours == places


def declared(text: str) -> dict[str, list[tuple[str, str, int]]]:
    """The structures of a header: names, types, and lengths of arrays."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    out = {}
    for name, body in re.findall(r"struct (\w+) \{(.*?)\};", text, re.DOTALL):
        rows = re.findall(r"(__\w+)\s+(\w+)(?:\[(\d+)\])?;", body)
        out[name] = [(member, kind, int(count or 0)) for kind, member, count in rows]
    return out


@has_headers
def test_structures_of_linux() -> None:
    found = declared("".join(path.read_text() for path in HEADERS))
    names = [name for name in STRUCTURES if name in found]
    assert len(names) == 6
    for name in names:
        check(name, found[name])


@has_headers
def test_numbers_of_linux() -> None:
    text = "".join(path.read_text() for path in HEADERS)
    rows = re.findall(r"#define\s+(\w+)\s+_IOWR\((\S+), (\w+),[\s\\]*struct (\w+)\)", text)
    types = {"'R'": "R", "DMA_HEAP_IOC_MAGIC": "H"}
    ours = {name: row for name, row in NUMBERS.items() if not name.startswith("ADSPRPC")}
    found = {name: (types[kind], int(n, 0), of) for name, kind, n, of in rows if name in ours}
    assert re.search(r"DMA_HEAP_IOC_MAGIC\s+'H'", text)
    assert found == ours
    flags = dict(re.findall(r"(FASTRPC_M\w+)\s*=\s*([^,]+),", text))
    assert eval(flags["FASTRPC_MODE_UNSIGNED_MODULE"]) == structures.UNSIGNED_MODULE
    assert int(flags["FASTRPC_MAP_STATIC"]) == structures.MAP_STATIC


def test_structures_and_numbers_of_qualcomm() -> None:
    """A table of what `adsprpc_shared.h` declares."""
    members: dict[str, list[tuple[str, str, int]]] = {}
    numbers, constants = {}, {}
    for line in DECLARATIONS.read_text().splitlines():
        words = line.split(" | ")
        if words[0] == "member":
            members.setdefault(words[1], []).append((words[3], words[2], 0))
        elif words[0] == "ioctl":
            numbers["ADSPRPC" + words[1].removeprefix("FASTRPC")] = ("R", int(words[2]), words[3])
        elif words[0] == "constant":
            constants[words[1]] = int(words[2], 0)
    assert numbers == {name: row for name, row in NUMBERS.items() if name.startswith("ADSPRPC")}
    assert len(members) == 6
    for name, rows in members.items():
        check(name, rows)
    assert constants == {
        "FASTRPC_INIT_CREATE": structures.INIT_CREATE,
        "ADSP_MMAP_DMA_BUFFER": structures.DMA_BUFFER,
        "CDSP_DOMAIN_ID": structures.COMPUTE_DOMAIN,
    }


def test_scalars() -> None:
    for method, inputs, outputs in ((0, 0, 0), (31, 255, 255), (3, 1, 2)):
        word = structures.scalars(method, inputs, outputs)
        assert structures.divided(word) == (method, inputs, outputs)
    # Method, inputs and outputs are where REMOTE_SCALARS_MAKEX has them.
    assert structures.scalars(5, 3, 2) == 5 << 24 | 3 << 16 | 2 << 8


def test_requests_hold_the_size() -> None:
    for name, (letter, number, structure) in NUMBERS.items():
        word = structures.request(name)
        assert (word & 0xFF, chr(word >> 8 & 0xFF)) == (number, letter)
        assert word >> 16 & 0x3FFF == LAYOUTS[structure].size_bytes
        assert word >> 30 == 3
