"""Pictures of shardings: which device has which part of an array."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

from tfn import tree
from tfn.eager.operands import array_of
from tfn.errors import ArgumentError
from tfn.transforms.callback import inspect

MAX_LISTED_DEVICES = 8
"""The devices that one cell of a picture lists; more would make it wider than a terminal."""


def sharding_table(shape: Sequence[int], sharding: Any) -> str:
    """The parts of an array of one or two axes as a table, with the devices that have each.

    Raises:
        ArgumentError: for another number of axes.

    Example:
        >>> import tfn
        >>> mesh = tfn.sharding.Mesh([tfn.Device("cpu", 0), tfn.Device("cpu", 1)], "x")
        >>> print(sharding_table((4, 6), tfn.NamedSharding(mesh, tfn.P("x"))))
        +-------+
        | cpu 0 |
        +-------+
        | cpu 1 |
        +-------+
    """
    if not 1 <= len(shape) <= 2:
        raise ArgumentError(
            "a picture of a sharding has one or two axes",
            got=f"shape {tuple(shape)}",
            hint="x.addressable_shards lists the parts of an array of any shape",
        )
    cells: dict[tuple[int, ...], list[Any]] = {}
    for device, index in sharding.devices_indices_map(shape).items():
        cells.setdefault(tuple([part.start or 0 for part in index]), []).append(device)
    rows = sorted({at[0] for at in cells}) if len(shape) == 2 else [0]
    columns = sorted({at[-1] for at in cells})
    text = [
        [_cell(cells[(row, column) if len(shape) == 2 else (column,)]) for column in columns]
        for row in rows
    ]
    widths = [max(len(row[i]) for row in text) for i in range(len(columns))]
    border = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    lines = [border]
    for row in text:
        padded = [f" {cell:^{width}} " for cell, width in zip(row, widths, strict=True)]
        lines += ["|" + "|".join(padded) + "|", border]
    return "\n".join(lines)


def _cell(devices: Sequence[Any]) -> str:
    """The devices of one part: ``cpu 0,1``."""
    numbers = [str(device.id) for device in devices[:MAX_LISTED_DEVICES]]
    numbers += ["..."] if len(devices) > MAX_LISTED_DEVICES else []
    return f"{devices[0].platform} {','.join(numbers)}"


def visualize_sharding(shape: Sequence[int], sharding: Any, **options: object) -> None:
    """Prints the parts of an array of one or two axes, with the devices that have each.

    Args:
        shape: of the whole array.
        sharding: its division.
        options: of JAX's colours, which a plain text has not.

    Raises:
        ArgumentError: for another number of axes.
    """
    builtins.print(sharding_table(tuple(shape), sharding))


def visualize_array_sharding(arr: Any, **options: object) -> None:
    """Prints the parts of an array of one or two axes, with the devices that have each.

    Raises:
        ArgumentError: for another number of axes.

    Example:
        >>> import tfn.numpy as tnp
        >>> visualize_array_sharding(tnp.ones((2, 3)))
        +-------+
        | cpu 0 |
        +-------+
    """
    x = array_of("visualize_array_sharding", arr)
    inspect_array_sharding(x, callback=lambda sharding: visualize_sharding(x.shape, sharding))


def inspect_array_sharding(value: Any, *, callback: Callable[[Any], object]) -> None:
    """Calls a function with the sharding of each array of a tree.

    That of a traced value is the compiler's to choose: then it is called once for each program,
    when that is divided among its devices.
    """
    for leaf in tree.leaves(value):
        x = array_of("inspect_array_sharding", leaf)
        if x.owner is not None and not x.known:
            inspect(callback, x)
        else:
            callback(x.concrete().sharding)
