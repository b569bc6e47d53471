"""A program as data for a browser: shaders, memories and commands, which a page runs by itself.

    Program                               what a page gets
      inputs, outputs, the arena           memories: a buffer each; constants share a few
      kernels                              shaders: WGSL, for operands in certain buffers
      Launch, Loop, Branch                 commands, with the offsets of their operands

Made for what every browser guarantees: 8 storage buffers a kernel, groups of 256 threads, and no
numbers of 64 bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from tfn.extend import LANGUAGES, Language, Program, Space, Target, commands, frozen
from tfn.hw.webgpu.binding import bindings, bound
from tfn.hw.webgpu.device import add_languages
from tfn.hw.webgpu.driver import target_of
from tfn.hw.webgpu.wgsl import shared_bytes

GUARANTEED = {
    "max-storage-buffers-per-shader-stage": 8,
    "max-storage-buffer-binding-size": 1 << 27,
    "max-compute-workgroup-storage-size": 1 << 14,
    "max-compute-invocations-per-workgroup": 256,
    "max-compute-workgroup-size-x": 256,
}
"""Limits that every adapter of a browser has at least."""

ALIGNMENT = 256
"""Bytes: arrays of one memory begin at multiples of it."""

Place = tuple[int, int]
"""The number of a memory, and the offset of an array there in bytes."""


def browser() -> tuple[Target, Language]:
    """The target of a page, and its language."""
    add_languages()
    return target_of("a browser", GUARANTEED, wide=False, fuses=True), LANGUAGES["webgpu"]()


@frozen
class Layout:
    """The places of arrays.

    Attributes:
        memories: bytes of each.
        places: of the inputs, the outputs and the arena.
    """

    memories: tuple[int, ...]
    places: tuple[Place, ...]


def layout(
    program: Program,
    todo: Sequence[commands.Command],
    constants: Sequence[int],
    shared: Mapping[int, int],
) -> Layout:
    """A memory for each array, as long as no kernel has more of them than a browser binds.

    Args:
        program: of the page.
        todo: its commands.
        constants: numbers of inputs that never change: they share memories.
        shared: outputs that are written over an input, and which.
    """
    inputs, outputs = len(program.inputs), len(program.outputs)
    sizes = [prod(shape) * dtype.itemsize for shape, dtype in program.inputs + program.outputs]
    sizes.append(program.arena_bytes)
    arena = inputs + outputs
    same = {inputs + output: at for output, at in shared.items()}
    for output, slot in program.aliases:
        source = slot.at + (0 if slot.space is Space.INPUT else inputs)
        same[inputs + output] = same.get(source, source)
    group = {i: i for i in range(len(sizes)) if i not in same}
    last, room = -1, 0
    for i in constants:
        if last < 0 or room + sizes[i] > GUARANTEED["max-storage-buffer-binding-size"]:
            last, room = i, 0
        group[i], room = last, room + _aligned(sizes[i])
    most = GUARANTEED["max-storage-buffers-per-shader-stage"]
    for command in commands.every(todo):
        if isinstance(command, commands.Launch):
            bases = {same.get(a.base, a.base) for a in command.operands}
            if len({group[b] for b in bases}) > most:
                moved = {group[b] for b in bases.difference(constants)}
                group = {b: arena if g in moved else g for b, g in group.items()}
    memories: dict[int, int] = {}
    places: dict[int, Place] = {}
    numbers = {g: n for n, g in enumerate(dict.fromkeys(group.values()))}
    for b, g in group.items():
        places[b] = (numbers[g], memories.get(g, 0))
        memories[g] = memories.get(g, 0) + _aligned(sizes[b])
    return Layout(
        tuple(memories[g] for g in numbers),
        tuple(places[same.get(b, b)] for b in range(len(sizes))),
    )


def _aligned(size_bytes: int) -> int:
    return -(-max(size_bytes, 1) // ALIGNMENT) * ALIGNMENT


def recorded(program: Program, constants: Sequence[int], shared: Mapping[int, int]) -> Any:
    """The memories, shaders and commands of a program, as values of JSON, and its layout.

    A group's memory, of the shader that has most, is asked of the adapter: sorts need 26 KiB.

    Args:
        program: made for `browser`.
        constants: numbers of inputs that never change.
        shared: outputs that are written over an input, and which.
    """
    todo = commands.record(program)
    found = layout(program, todo, constants, shared)
    recorder = _Recorder({k.name: k.text for k in program.kernels}, found)
    steps = recorder.steps(todo)
    shaders = [
        {"text": bound(text, places), "writes": list(bindings(text, places).values())}
        for text, places in recorder.shaders
    ]
    most = max((shared_bytes(text) for text, _ in recorder.shaders), default=0)
    record = {"memories": list(found.memories), "shared": most}
    return record | {"shaders": shaders, "commands": steps}, found


class _Recorder:
    """Writes commands, and collects the shaders that they need."""

    def __init__(self, texts: Mapping[str, str], layout: Layout) -> None:
        self.texts, self.layout = texts, layout
        self.shaders: dict[tuple[str, tuple[int, ...]], int] = {}

    def steps(self, todo: Sequence[commands.Command]) -> list[dict[str, Any]]:
        """Commands as records."""
        return [self.step(command) for command in todo]

    def step(self, command: commands.Command) -> dict[str, Any]:
        """A command as a record."""
        if isinstance(command, commands.Launch):
            return self.launch(command)
        if isinstance(command, commands.Repeat):
            condition = command.condition and self.address(command.condition)
            return {
                "loop": command.number,
                "trips": command.trips,
                "head": self.steps(command.head),
                "condition": condition,
                "body": self.steps(command.body),
            }
        assert isinstance(command, commands.Choose), "exported programs call no host"
        branches = [self.steps(branch) for branch in command.branches]
        return {"index": self.address(command.index), "branches": branches}

    def launch(self, command: commands.Launch) -> dict[str, Any]:
        """A launch: its shader is one for operands that share memories as these do."""
        addresses = [self.address(a) for a in command.operands]
        memories = list(dict.fromkeys(a["memory"] for a in addresses))
        places = tuple(memories.index(a["memory"]) for a in addresses)
        used = list(bindings(self.texts[command.kernel], places))
        key = (
            self.texts[command.kernel],
            tuple(used.index(p) if p in used else -1 for p in places),
        )
        return {
            "shader": self.shaders.setdefault(key, len(self.shaders)),
            "groups": command.groups,
            "memories": [memories[at] for at in used],
            "at": [[a["at"], *a["strides"]] if a["strides"] else a["at"] for a in addresses],
        }

    def address(self, address: commands.Address) -> dict[str, Any]:
        """A memory, an offset there, and the steps of loops."""
        memory, offset = self.layout.places[address.base]
        return {"memory": memory, "at": offset + address.offset, "strides": address.strides}
