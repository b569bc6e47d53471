"""Weights as a program reads them: those of bytes with the axis first along which it adds up.

x (rows, k) @ w (k, columns)        stored as (columns, k): both are read from end to end

Those of 4 bits at most are then two in a byte, where kernels read them one by one or in products.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tfn.dtypes import DType
from tfn.extend import (
    Jaxpr,
    Kernel,
    Language,
    Op,
    Program,
    Space,
    Target,
    UOp,
    build,
    function,
    inline,
    launch_runs,
    param,
    pipeline,
    walk,
)
from tfn.lower.codegen.legalize import legalized
from tfn.lower.program import routines

MIN_HALVED = 64
"""The fewest weights of which two are put into a byte: code that reads them takes some bytes."""


def stored(jaxpr: Jaxpr, values: Mapping[int, bytes]) -> tuple[Jaxpr, dict[int, bytes]]:
    """The function whose embedded weights of int8 lie so that products read them in order."""
    readers: dict[UOp, list[UOp]] = {}
    for u in walk(jaxpr.outputs):
        for s in u.src:
            readers.setdefault(s, []).append(u)
    params, operands, data = list(jaxpr.params), [param(p) for p in jaxpr.params], dict(values)
    for i, p in enumerate(jaxpr.params):
        found = readers.get(param(p), [])
        axes = _axes(param(p), found[0]) if len(found) == 1 and i in values else None
        if axes is None or p.dtype != np.int8:
            continue
        array = np.frombuffer(values[i], p.dtype).reshape(p.shape).transpose(axes)
        data[i] = array.tobytes()
        params[i] = type(p)(p.index, array.shape, p.dtype)
        operands[i] = build.permute(param(params[i]), np.argsort(axes).tolist())
    return Jaxpr(function(inline(jaxpr, operands), tuple(params))), data


def _axes(weight: UOp, reader: UOp) -> tuple[int, ...] | None:
    """The order of the axes of weights: those of the results, then those that are added up."""
    if reader.src[1:] != (weight,) or reader.src[0] is weight:
        return None
    rest = range(weight.ndim)
    if reader.op is Op.DOT and not reader.arg.batch_b:
        summed = reader.arg.contract_b
        return (*(i for i in rest if i not in summed), *summed)
    if reader.op is Op.CONV and reader.arg.groups == reader.arg.batch_groups == 1:
        return (weight.ndim - 1, *rest[:-1])
    return None


def halved(
    program: Program, values: Mapping[int, bytes], target: Target, language: Language
) -> tuple[dict[str, str], dict[int, bytes]]:
    """Texts of kernels that read weights of 4 bits, by name, and the data with those halved."""
    kernels = {launch.kernel.name: launch.kernel for launch, _ in launch_runs(program.steps)}
    fitting = {i for i, data in values.items() if _fits(data, program.inputs[i][1])}
    fitting = set() if routines(program.steps) else fitting  # inputs have other numbers there
    fitting -= {slot.at for _, slot in program.aliases if slot.space is Space.INPUT}
    uses = list(_uses(program))
    readers = dict.fromkeys(name for name, _, at in uses if at in fitting)
    whole = {name: _read_singly(kernels[name], target, language) for name in readers}
    while True:  # an operand of a kernel is halved in all its calls, and a weight in all kernels
        others = {(x, j) for x, j, at in uses if at not in fitting or j not in whole[x]}
        left = fitting - {at for name, j, at in uses if (name, j) in others}
        if left == fitting:
            break
        fitting = left
    operands: dict[str, set[int]] = {}
    for name, j, at in uses:
        if at in fitting:
            operands.setdefault(name, set()).add(j)
    texts = {}
    for name, halves in operands.items():
        items = legalized(pipeline.instructions(kernels[name], target, language))
        texts[name] = language.kernel(name, items, halves=frozenset(halves))
    return texts, {i: halves_of(x) if i in fitting else x for i, x in values.items()}


def _uses(program: Program) -> Iterator[tuple[str, int, int]]:
    """Each operand that is an input: the kernel, its position, the input; -1 for a part of one."""
    for launch, _ in launch_runs(program.steps):
        for j, slot in enumerate(launch.operands):
            if slot.space is Space.INPUT:
                is_whole = not slot.offset and not slot.strides
                yield launch.kernel.name, j, slot.at
                yield from [] if is_whole else [(launch.kernel.name, j, -1)]


def _fits(data: bytes, dtype: DType) -> bool:
    numbers = np.frombuffer(data, np.int8)
    return dtype == np.int8 and len(data) >= MIN_HALVED and bool((abs(numbers + 0.5) < 8).all())


def _read_singly(kernel: Kernel, target: Target, language: Language) -> set[int]:
    """The operands of a kernel that it only loads from, an element at a time."""
    uses: dict[int, bool] = {}
    for u in pipeline.instructions(kernel, target, language):
        for s in u.src:
            if s.op is Op.PARAM:
                single = u.op is Op.LOAD and not u.shape
                uses[s.arg.index] = uses.get(s.arg.index, True) and single
    return {j for j, single in uses.items() if single}


def halves_of(data: bytes) -> bytes:
    """Numbers of 4 bits, two in a byte: of each 8, the first 4 in the lower halves.

    Example:
        >>> halves_of(bytes([1, 2, 3, 4, 5, 6, 7, 255])).hex()
        '516273f4'
    """
    numbers = np.zeros((-(-len(data) // 8), 2, 4), np.uint8)
    numbers.reshape(-1)[: len(data)] = np.frombuffer(data, np.uint8) & 15
    found: np.ndarray[Any, Any] = numbers[:, 0] | numbers[:, 1] << 4
    return found.tobytes()
