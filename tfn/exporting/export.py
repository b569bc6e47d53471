"""`tfn.export`: ahead-of-time compilation of a function to files that need neither Python nor tfn.

    tfn.export(step, network, images, path="model.c")

writes `model.c` and `model.h`.  The function is traced as `jit` traces it; a whole training step
is a function like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from tfn.errors import ArgumentError, ExportError
from tfn.exporting import page
from tfn.exporting.figures import Figures, figures
from tfn.exporting.folders import FOLDERS, texts
from tfn.exporting.header import header, path_beside
from tfn.exporting.microcontrollers import MICROCONTROLLERS
from tfn.exporting.programs import ALONE, ALONE_ON, C_SMALL, C_TOGETHER, C, binary, closed, compiled
from tfn.exporting.signature import Signature, identifier
from tfn.extend import (
    Target,
    a_function,
    file_path,
    frozen,
    host,
    integer,
    one_of,
    passes_of,
    replacing,
    requested,
    source_lines,
)

SUFFIXES = {"c": ".c", "obj": ".o", "so": ".so", "wasm": ".wasm", "js": ".js", "html": ".html"}
"""Kinds of files, and the suffixes of their names."""


@frozen
class Exported:
    """The result of an export; it prints as a table by layer, if it is made for size.

    Attributes:
        signature: of the exported function.
        files: the paths of all files that were written.
        figures: of C for size: code, memory, stack, multiply-adds and cycles; None of others.
    """

    signature: Signature
    files: tuple[Path, ...]
    figures: Figures | None = None

    def __str__(self) -> str:
        files = ", ".join(file.name for file in self.files)
        whole = f"{self.signature.name}: {files}; arena: {self.signature.arena_bytes:,} bytes"
        return whole if self.figures is None else f"{whole}\n{self.figures}"


def export(
    function: Callable[..., Any],
    *args: object,
    path: str | Path,
    kind: str = "",
    name: str = "",
    target: Target | str | None = None,
    embed: object = (),
    carry: str | int | None = None,
    threads: int = 1,
    optimize: str = "",
    unproved: str = "refuse",
    **kwargs: object,
) -> Exported:
    """Write a function to files that need neither Python nor tfn.

    Args:
        function: jitted or not.
        args, kwargs: example arguments; a `ShapeDtypeStruct` may stand for an array.
        path: of the file to write.  The header is written beside it, as NAME.h; if that is the
            header of another file, as the name of the file and .h: model.so.h beside model.h.
            So is the loader of WebAssembly, NAME.js, with its types, NAME.d.ts.
        kind: c, obj, so, wasm, js or html: source, object, shared library, WebAssembly, a module
            for pages, on WebGPU, or a page in one file.  If "", the suffix of the path decides.
            cmake or arduino: the path is a folder, which becomes a library of C of these.
        name: of the function; if "", that of the file.
        target: the machine to compile for: a `Target` or the name of one, such as x86-64-v3,
            hexagon or cortex-m4; if None, this machine, wasm32 for WebAssembly, and for pages
            webgpu, with WebAssembly for browsers that have none; wasm32 makes pages without WebGPU.
        embed: names or positions of arguments whose values become part of the code.
        carry: name or position of an argument that is a state: the function returns the next one,
            alone or first in a tuple.  The caller keeps it in a struct; NAME_init writes the value
            of the argument, and NAME_step replaces it.  In C only.
        threads: number of threads, with the caller: POSIX threads, in C only.
        optimize: "speed", or "size" for the least code and memory; if "", size for
            microcontrollers.  Both have the same results, but that sums of floats may be added in
            another order.
        unproved: "allow" writes even a program whose accesses cannot be proved to be in bounds;
            see `tfn.verify`.

    Raises:
        ExportError: if the function calls back into Python, cannot be written as this kind, does
            not return the state that it is to carry, or has an access that cannot be proved to be
            in bounds.
        MissingPackageError: if the proof needs z3, which is not installed.
        ArgumentError: for an unknown kind, or an argument to embed that does not exist.
        OSError: if the system refuses; the files are then unchanged.

    Example:
        >>> import tempfile, tfn
        >>> x = tfn.ShapeDtypeStruct((8,), "float32")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made = tfn.export(lambda x: x * 2, x, path=f"{folder}/twice.c")
        >>> [file.name for file in made.files], made.signature.inputs[0].name
        (['twice.c', 'twice.h'], 'x')
    """
    a_function("export", "function", function)
    path = file_path("export", "path", path)
    kind = kind or {end: kind for kind, end in SUFFIXES.items()}.get(path.suffix, path.suffix)
    folder, of_folder = (path, kind) if kind in FOLDERS else (None, "")
    if folder is not None:
        name, kind = name or path.stem, "c"
        path = folder / FOLDERS[of_folder] / identifier(name)
    if kind not in SUFFIXES:
        raise ArgumentError(
            f"export knows no kind {kind!r}",
            got=f"kind={kind!r}, path={str(path)!r}",
            hint=f"kinds are {', '.join((*SUFFIXES, *FOLDERS))}; suffixes of the path say most",
        )
    is_page = kind in ("js", "html")
    of_web, on_gpu = kind == "wasm" or is_page, is_page and target in (None, "webgpu")
    own = "wasm32" if of_web else "host"
    microcontroller = MICROCONTROLLERS.get(target) if isinstance(target, str) else None
    try:
        target = microcontroller or requested(own if on_gpu else target or own, host())
    except ArgumentError as error:
        names = ", ".join(MICROCONTROLLERS)
        hint = f"{error.hint}, and microcontrollers: {names}"
        raise ArgumentError(error.what, got=error.got, hint=hint) from None
    if of_web != target.triple.startswith("wasm") and kind != "c":
        raise ArgumentError(
            f"{kind} cannot be made for {target.triple}",
            got=f"kind={kind!r}, target={target.triple}",
            hint="leave the target out, or take kind='c'",
        )
    if microcontroller is not None and kind != "c":
        raise ArgumentError(
            f"{kind} cannot be made for {target.cpu}: microcontrollers get C",
            got=f"kind={kind!r}",
            hint="take kind='c', and compile it with the project that it is for",
        )
    one_of("export", "optimize", optimize, ("", "speed", "size"))
    is_small = optimize == "size" or (microcontroller is not None and not optimize)
    one_of("export", "unproved", unproved, ("refuse", "allow"))
    if integer("export", "threads", threads, 1) > 1 and kind != "c":
        raise ArgumentError(
            "export makes programs for several threads in C only",
            got=f"threads={threads}, kind={kind!r}",
            hint="take kind='c', or threads=1",
        )
    if carry is not None and kind != "c":
        raise ArgumentError(
            "a state is carried by programs in C only",
            got=f"carry={carry!r}, kind={kind!r}",
            hint="take kind='c'; of other kinds, pass the output as the next input",
        )
    has_figures = is_small and kind == "c"
    alone = ALONE_ON.get(target.triple.split("-")[0], ALONE)
    language = C_TOGETHER if threads > 1 else C if kind == "c" else alone
    if is_small and language is C:
        language = C_SMALL
    else:
        language = replace(language, passes=C_SMALL.passes if is_small else passes_of(target))
    name = identifier(name or path.stem)
    measured: Figures | None = None
    try:
        with source_lines.tracking() if has_figures else nullcontext():
            request = closed(function, args, kwargs, embed, carry)
            if is_page:
                signature, files, done = page.files(path, request, name, kind, unproved, on_gpu)
            else:
                request = replace(request, donated=None)
                made = compiled(request, target, language, name, unproved, threads)
                signature, file = made.signature, path.with_suffix(SUFFIXES[kind])
                head = path_beside(file, name, ".h")
                files, done = {file: binary(kind, made, head.name)}, []
                if has_figures:
                    both = files[file].decode(), header(signature, file.name)
                    measured = figures(signature, made.program, made.places, language, *both)
                files[head] = header(signature, file.name, measured).encode()
                files |= page.loader(file, made) if kind == "wasm" else {}
                if folder is not None:
                    files |= texts(of_folder, folder, signature)
                    folder.mkdir(exist_ok=True)
                    for file in files:
                        file.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:  # none is replaced before all are written
            for file, data in files.items():
                stack.enter_context(replacing(file)).write(data)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ExportError(
            f"{(folder or path).parent} is no folder to write to",
            got=str(error),
            hint="make the folder first, or take another path",
        ) from None
    return Exported(signature, (*files, *done), measured)
