"""Programs to be written: functions are traced, lowered and proved, then C or binary code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np

from tfn import tree
from tfn.errors import ArgumentError, ExportError, MissingPackageError
from tfn.exporting.carry import Carried, carried, kept
from tfn.exporting.module import module
from tfn.exporting.signature import DIGEST, Field, Signature, named
from tfn.exporting.source import source
from tfn.exporting.weights import halved, stored
from tfn.extend import (
    LANGUAGES,
    Jaxpr,
    Jitted,
    Language,
    LlvmCompiler,
    Op,
    Program,
    ShapeDtypeStruct,
    Target,
    frozen,
    host,
    name_of,
    of_whole,
    pipeline,
    runtime,
)
from tfn.hw.compile.child import ChildCompiler
from tfn.hw.compile.link import link
from tfn.inspect.verify import report
from tfn.lax.linalg.lapack_programs import without_lapack
from tfn.lower import small
from tfn.lower.codegen.render import driver
from tfn.lower.codegen.render.c import driver as c_driver
from tfn.lower.codegen.render.c import kernel as c_kernel
from tfn.lower.languages import LLVM
from tfn.lower.memory.in_place import in_place_outputs
from tfn.lower.program import host_calls
from tfn.trace.inline import runnable
from tfn.transforms import arguments, specialize

ALONE = replace(
    LLVM,
    driver=partial(driver.driver_text, single_threaded=True),
    lacks=frozenset({Op.MMA, Op.HOST}),
)
C = Language(c_kernel.kernel_text, c_driver.driver_text, "", c_kernel.LACKS | {Op.HOST})
C_SMALL = replace(C, kernel=partial(c_kernel.kernel_text, with_dots=True), passes=small.SMALL)
C_TOGETHER = replace(C, driver=partial(c_driver.driver_text, threaded=True))
"""Output languages: LLVM IR without calls, C for one thread, for size, for several threads.

None uses matrix units: a process must request their registers first, which exported code cannot.
"""

ALONE_ON: dict[str, Language] = {
    "hexagon": replace(
        LANGUAGES["hexagon"](),
        driver=partial(driver.driver_text, single_threaded=True, pointer_bytes=4),
        lacks=frozenset({Op.HOST}),
    )
}
"""LLVM IR without calls, for architectures with a language of their own."""


@frozen
class Request:
    """A closed function to be exported.

    Attributes:
        jaxpr: the function.
        paths: expressions for its inputs in the user's program; captured arrays come last.
        results: expressions for its outputs.
        values: data of the embedded inputs, by position.
        constants: names of the embedded arguments.
        donated: positions of inputs that outputs may be written over; None for all.
        carried: the leaves of a state, whose next values are the first outputs.
    """

    jaxpr: Jaxpr
    paths: tuple[str, ...]
    results: tuple[str, ...]
    values: dict[int, bytes]
    constants: tuple[str, ...]
    donated: frozenset[int] | None
    carried: tuple[Carried, ...] = ()


@frozen
class Made:
    """A program to be written.

    Attributes:
        signature: of the function.
        program: lowered for its target.
        places: for each input of the program its field, or its data.
        paths: expressions for these inputs.
        texts: of kernels by name, where they are not their own: see `halved`.
    """

    signature: Signature
    program: Program
    places: tuple[Field | bytes, ...]
    paths: tuple[str, ...]
    texts: Mapping[str, str] = field(default_factory=dict)


def _require(program: Program, target: Target, language: Language) -> None:
    """Refuse a program that has accesses out of bounds, or accesses without a proof."""
    try:
        proofs = report(program, target, language)
    except MissingPackageError as error:
        error.add_note("unproved='allow' exports without proofs")
        raise
    if not proofs.proved:
        raise ExportError(
            f"{len(proofs.wrong)} access(es) cannot be proved to be in bounds; nothing is written",
            got="\n       ".join(proofs.wrong),
            hint="look at kernels written by hand first; unproved='allow' writes it all the same",
        )


def compiled(
    request: Request,
    target: Target,
    language: Language,
    name: str,
    unproved: str,
    threads: int = 1,
) -> Made:
    """The program of a function and its signature.

    Raises:
        ExportError: for calls back into Python, or accesses that cannot be proved to be in bounds.
    """
    if language is C_SMALL:
        jaxpr, values = stored(request.jaxpr, request.values)
        request = replace(request, jaxpr=jaxpr, values=values)
    program = lowered(request.jaxpr, target, language)
    request = _with_tables(request, program)
    if unproved != "allow":
        _require(program, target, language)
    texts: dict[str, str] = {}
    if language is C_SMALL:
        texts, values = halved(program, request.values, target, language)
        request = replace(request, values=values)
    signature, places = described(request, program, name, target, threads)
    return Made(signature, program, tuple(places), request.paths, texts)


def binary(kind: str, made: Made, head: str = "") -> bytes:
    """The text in C with its `head`, an object file, or the library or module linked from it.

    Raises:
        CompileError: if there is no linker for the target.
    """
    signature, target = made.signature, made.signature.target
    if kind == "c":
        text = source(signature, made.program, made.places, target, made.texts)
        return f'#include "{head}"\n{text}'.encode()
    architecture = target.triple.split("-")[0]
    text = module(signature, made.program, made.places, target.address_bits // 8)
    # LLVM aborts the process where a target lacks an instruction: other targets in a child.
    near = architecture == host().triple.split("-")[0]
    data = (LlvmCompiler() if near else ChildCompiler()).compile(text, target)
    if kind == "obj":
        return data
    linked = link(data, target, (signature.name, f"{signature.name}_manifest"))
    return linked if kind == "wasm" else linked + DIGEST + sha256(linked).digest()


def closed(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    embed: Any,
    carry: int | str | None = None,
) -> Request:
    """Trace a function on arguments, and name its inputs and outputs."""
    jitted = function if isinstance(function, Jitted) else Jitted(function)
    split = jitted.static.split(jitted.function, args, kwargs)
    leaves, structure = tree.flatten(split.dynamic)
    paths = arguments.argument_names(jitted.function, structure, split.positions)
    traced = jitted.trace(*args, **kwargs)
    if traced.cells:
        raise ExportError(
            f"{name_of(jitted.function)} has side effects, which an exported function cannot have",
            hint="leave out debug.print and callbacks, or guard them by a static argument",
        )
    positions = split.positions or range(structure.child(0).num_children)
    chosen = _chosen(jitted, [embed] if isinstance(embed, (str, int)) else embed, args, kwargs)
    owners = _owners(structure, positions)
    values = {i: _data(leaves[i], paths[i]) for i, owner in enumerate(owners) if owner in chosen}
    for i, value in enumerate(traced.captured, len(leaves)):
        values[i] = _data(value, "a captured array")
    captured = [f"captured[{i}]" for i in range(len(traced.captured))]
    results = tuple("out" + text for _, text in tree.places(traced.structure))
    names = arguments.parameter_names(jitted.function, len(args))
    constants = tuple(names[at] if isinstance(at, int) else at for at in chosen)
    state: tuple[Carried, ...] = ()
    if carry is not None:
        (owner,) = _chosen(jitted, [carry], args, kwargs)
        if owner in chosen:
            raise ArgumentError(f"{carry!r} is a state, and cannot be embedded", got=f"{embed=}")
        of_state = tree.structure(kwargs[owner] if isinstance(owner, str) else args[owner])
        at = [i for i, x in enumerate(owners) if x == owner]
        starts = [_data(leaves[i], paths[i]) for i in at]
        state = carried(
            traced.jaxpr, traced.structure, of_state, at, [paths[i] for i in at], starts
        )
    jaxpr, read = specialize.specialised(traced.jaxpr, values)
    places = [*paths, *captured]
    donated = frozenset(i for i, at in enumerate(read) if at in traced.takes.donated)
    values = {i: values[at] for i, at in enumerate(read) if at in values}
    chosen_paths = tuple(places[at] for at in read)
    state = tuple(replace(x, at=read.index(x.at) if x.at in read else None) for x in state)
    donated = donated.difference(values)
    return Request(jaxpr, chosen_paths, results, values, constants, donated, state)


def _owners(structure: tree.Structure, positions: Sequence[int]) -> list[int | str]:
    """The argument that each leaf belongs to: a position or a name."""
    owners: list[int | str] = []
    for (of_kwargs, which, *_), _ in tree.places(structure):
        owners.append(which if of_kwargs else positions[which])
    return owners


def _chosen(
    jitted: Jitted[..., object],
    embed: Sequence[int | str],
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> list[int | str]:
    """The arguments to embed: those by position as numbers, others as names."""
    names = arguments.parameter_names(jitted.function, len(args))
    chosen: list[int | str] = []
    for at in embed:
        if isinstance(at, str) and at in names:
            chosen.append(names.index(at))
        elif at in kwargs or (isinstance(at, int) and 0 <= at < len(args)):
            chosen.append(at)
        else:
            raise ArgumentError(
                f"export cannot embed {at!r}: there is no such argument",
                hint="arguments are " + ", ".join([*names, *kwargs]),
            )
    return chosen


def _data(leaf: object, path: str) -> bytes:
    """The bytes of an array that is embedded."""
    if isinstance(leaf, ShapeDtypeStruct):
        raise ArgumentError(
            f"{path} is embedded, and has no value",
            hint="pass an array instead of a ShapeDtypeStruct",
        )
    return np.ascontiguousarray(runtime.installed().asarray(leaf)).tobytes()


def lowered(jaxpr: Jaxpr, target: Target, language: Language) -> Program:
    """The program of a function that makes no calls.

    Raises:
        ExportError: naming the calls back into Python.
    """
    jaxpr = Jaxpr(runnable(without_lapack(of_whole(jaxpr)).function)[0])
    reduced, tables = pipeline.without_tables(jaxpr, target, language)
    plan = pipeline.scheduled(reduced, target, language)
    calls = [str(call.host.run) for call in host_calls(plan.routine.steps)]
    if calls:
        raise ExportError(
            "a function that calls back into Python cannot run without it",
            got=f"calls of {', '.join(dict.fromkeys(calls))}",
            hint="callbacks and debug.print run on the host",
        )
    return pipeline.program(jaxpr, plan, language, reduced, tables)


def _with_tables(request: Request, program: Program) -> Request:
    """The request with the program's tables, which become part of the code."""
    if program.tables is None:
        return request
    tables = runtime.installed().call(Jaxpr(program.tables), [])
    first = len(program.inputs) - len(tables)
    values = {first + i: _data(x, "a table") for i, x in enumerate(tables)}
    paths = tuple(f"table[{i}]" for i in range(len(tables)))
    return replace(request, paths=request.paths + paths, values=request.values | values)


def described(
    request: Request, program: Program, name: str, target: Target, threads: int
) -> tuple[Signature, list[Field | bytes]]:
    """The signature, and for each input of the program its field, or its data."""
    pairs = {o: x.at for o, x in enumerate(request.carried) if x.at is not None}
    own = in_place_outputs(program, list(pairs.values()), pairs)
    state, arena_bytes = kept(program, request.carried, own)
    pairs_of_state = zip(request.carried, state, strict=True)
    of_state = {x.at: member.field for x, member in pairs_of_state if x.at is not None}
    passed = [
        i for i in range(len(program.inputs)) if i not in request.values and i not in of_state
    ]
    inputs = named([request.paths[i] for i in passed], [program.inputs[i] for i in passed])
    fields = dict(zip(passed, inputs, strict=True))
    donated = passed if request.donated is None else request.donated
    in_place = {
        output: i
        for output, i in in_place_outputs(program, donated).items()
        if program.inputs[i] == program.outputs[output] and output >= len(state)
    }
    shared = {
        output: fields[i].name for output, i in in_place.items() if not _crossed(output, in_place)
    }
    input_names = [field.name for field in inputs]
    first = len(state)
    shared = {output - first: name for output, name in shared.items()}
    outputs = named(request.results[first:], program.outputs[first:], input_names, shared)
    known: dict[int, Field | bytes] = {**fields, **of_state, **request.values}
    signature = Signature(
        name, inputs, outputs, request.constants, arena_bytes, threads, target, state
    )
    return signature, [known[i] for i in range(len(program.inputs))]


def _crossed(output: int, in_place: Mapping[int, int]) -> bool:
    """Whether an in-place pair crosses another: outputs and inputs are in a different order.

    Of two states of equal shape, a caller expects the first output in the first input.
    """
    return any(
        (output < other) != (in_place[output] < at)
        for other, at in in_place.items()
        if other != output
    )
