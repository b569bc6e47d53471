"""A network as a function: a shared library that tfn exported, called by ctypes."""

from __future__ import annotations

import ctypes
import json
import struct
from collections.abc import Sequence
from pathlib import Path

_LIBRARY = ctypes.CDLL(str(Path(__file__).with_name("network.so")))
# The library says of itself what its header says: "tfn-export:", a length, a hash, and JSON.
_TEXT = ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(_LIBRARY, "network_manifest")))
_SELF = json.loads(_TEXT.decode().split(":", 3)[3])
FEATURES: int = _SELF["inputs"][0]["shape"][0]
CLASSES: int = _SELF["outputs"][0]["shape"][0]


def probabilities(x: Sequence[float]) -> list[float]:
    """Returns the probabilities of the classes for the features of an example.

    Raises:
        ValueError: for another number of features.
    """
    if len(x) != FEATURES:
        raise ValueError(f"the network takes {FEATURES} features, got {len(x)}")
    features, out = (ctypes.c_float * FEATURES)(*x), (ctypes.c_float * CLASSES)()
    size, alignment = _SELF["arena_bytes"], _SELF["arena_alignment"]
    arena = ctypes.create_string_buffer(size + alignment)  # of each call: threads may call at once
    start = -(-ctypes.addressof(arena) // alignment) * alignment
    pointers = ctypes.addressof(features), ctypes.addressof(out)
    # The fields of network_args: two numbers of 32 bits, one of 64 bits, pointers.
    args = struct.pack("IIQPP", _SELF["abi"], _SELF["program"], size, *pointers)
    if error := _LIBRARY.network(args, ctypes.c_void_p(start)):
        raise RuntimeError(f"network failed with {error}; network.h says what that means")
    return list(out)
