"""A function as a page runs it: a module of JavaScript, its types, its weights, and WebAssembly.

NAME.js           shaders, commands, and what runs them: `load`
NAME.d.ts         the types of inputs, outputs and options
NAME.safetensors  arrays that are embedded or captured
NAME.wasm         the same function for browsers without WebGPU
NAME.html         all of it in one file, with a form

WebAssembly that is exported alone has its arrays within, and the module that loads it beside it.
"""

from __future__ import annotations

import base64
import json
import tempfile
import warnings
from collections.abc import Collection, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from tfn.dtypes import DType
from tfn.errors import CompileError
from tfn.exporting.header import path_beside
from tfn.exporting.programs import ALONE, Made, Request, binary, compiled
from tfn.exporting.signature import Field, Signature, unique
from tfn.extend import host, requested
from tfn.hw.webgpu import page as webgpu
from tfn.nn import state

RUNTIME, FORM = (Path(__file__).with_name(f"page.{end}") for end in ("js", "html"))
TYPES = """\
/* {name}: a function exported by tfn as {file}. */

export interface Inputs {{
{inputs}
}}

export interface Outputs {{
{outputs}
}}

export interface Options {{
  /** "webgpu" or "wasm"; if left out, WebGPU where there is some, and WebAssembly elsewhere. */
  backend?: "webgpu" | "wasm";
  /** Outputs that are the inputs of the next run, by paths: {{"out[0]": "state"}}. */
  carry?: Record<string, string>;
  /** A device that the page has opened. */
  device?: unknown;
  /** Where the weights are, or their bytes; if left out, the file beside the module. */
  weights?: string | URL | ArrayBuffer | Uint8Array;
  /** Where the WebAssembly is, or its bytes. */
  wasm?: string | URL | ArrayBuffer | Uint8Array;
  /** Called while the weights are loaded, with numbers of bytes. */
  progress?: (loaded: number, total: number) => void;
}}

export interface Field {{
  readonly name: string;
  readonly path: string;
  readonly shape: readonly number[];
  readonly dtype: string;
}}

export interface Loaded {{
  readonly backend: "webgpu" | "wasm";
  /** Why it is not WebGPU; empty if it is, or if WebAssembly was asked for. */
  readonly reason: string;
  readonly inputs: readonly Field[];
  readonly outputs: readonly Field[];
  /** Run once.  An input that is left out keeps its value, unless it is donated and not carried. */
  run(inputs?: Partial<Inputs>): Promise<Outputs>;
  /** Run once and read these outputs alone; none if the list is empty. */
  run<K extends keyof Outputs>(
    inputs: Partial<Inputs>, names: readonly K[]): Promise<Pick<Outputs, K>>;
  /** Free the memory of the device. */
  destroy(): void;
}}

export function load(options?: Options): Promise<Loaded>;
"""


def array_type(dtype: DType) -> str:
    """The typed array of a dtype: of bits, where JavaScript has no such numbers.

    Example:
        >>> from tfn import dtypes
        >>> [array_type(dtypes.canonical(x)) for x in ("float32", "int8", "bfloat16", "complex64")]
        ['Float32Array', 'Int8Array', 'Uint16Array', 'Float32Array']
    """
    bits = 8 * dtype.itemsize // (2 if dtype.kind == "c" else 1)
    if dtype.kind in "iu":
        big = "Big" if bits == 64 else ""
        return f"{big}{'Int' if dtype.kind == 'i' else 'Uint'}{bits}Array"
    return f"Float{bits}Array" if dtype.kind in "fc" and bits > 16 else f"Uint{bits}Array"


def files(
    path: Path, request: Request, name: str, kind: str, unproved: str, on_gpu: bool
) -> tuple[Signature, dict[Path, bytes], list[Path]]:
    """The signature of a function in a page, its files, and those that are written already.

    Args:
        path: of the module, or of the page.
        request: the function.
        name: of the function.
        kind: js, or html for one file.
        unproved: as in `export`.
        on_gpu: whether it runs on WebGPU where a browser has it.
    """
    wasm = path.with_suffix(".wasm")
    made = compiled(request, requested("wasm32", host()), ALONE, name, unproved)
    written: dict[Path, bytes] = {}
    try:
        written[wasm] = binary("wasm", _with_weights(made, len(request.paths)))
    except CompileError as error:
        if not on_gpu:
            raise
        warnings.warn(f"the page runs on WebGPU alone: {error.what}", stacklevel=3)
    record: dict[str, Any] = {"name": name, "wasm": wasm.name if written else ""}
    if on_gpu:
        made = compiled(request, *webgpu.browser(), name, unproved)
    record |= _arrays(made, request.donated or (), on_gpu)
    weights = [path.with_suffix(".safetensors")] if record["constants"] else []
    if kind == "html":
        with tempfile.TemporaryDirectory() as folder:
            for file in weights:
                there = Path(folder) / file.name
                record |= {"weights": file.name, "digest": _weights(there, made)}
                written[file] = there.read_bytes()
        within = {file.name: data for file, data in written.items()}
        module = _module(name, path.name, record, within)
        page = FORM.read_text().replace("@NAME@", name).replace("@MODULE@", module)
        return made.signature, {path: page.encode()}, []
    if weights:
        record |= {"weights": weights[0].name, "digest": _weights(weights[0], made)}
    written |= _texts(path, path.name, made.signature, record)
    return made.signature, written, weights


def loader(file: Path, made: Made) -> dict[Path, bytes]:
    """The module of JavaScript that loads an exported file of WebAssembly, and its types."""
    name = made.signature.name
    places = tuple(x for x in made.places if isinstance(x, Field))
    record = {
        "name": name,
        "wasm": file.name,
        **_arrays(replace(made, places=places), (), False),
    }
    path = path_beside(file, name, ".js")
    return _texts(path, file.name, made.signature, record)


def _texts(
    path: Path, file: str, signature: Signature, record: Mapping[str, Any]
) -> dict[Path, bytes]:
    """A module and its types, which belong to a file."""
    file = file.replace("*/", "* /")
    types = TYPES.format(name=signature.name, file=file, **_types(signature))
    return {
        path: _module(signature.name, file, record, {}).encode(),
        path.with_suffix(".d.ts"): types.encode(),
    }


def _module(name: str, file: str, record: Mapping[str, Any], files: Mapping[str, bytes]) -> str:
    """The text of NAME.js, which belongs to a file, with files that it has in itself."""
    texts = {file: base64.b64encode(data).decode() for file, data in files.items()}
    words = [json.dumps(x, separators=(",", ":")).replace("</", "<\\/") for x in (record, texts)]
    head = f"/* {name}: a function exported by tfn as {file}. */\n\n"
    return f"{head}const PROGRAM = {words[0]};\nconst FILES = {words[1]};\n\n{RUNTIME.read_text()}"


def _with_weights(made: Made, count: int) -> Made:
    """The same, of which the first `count` inputs are fields: constants come from a file."""
    data = [i for i, x in enumerate(made.places[:count]) if isinstance(x, bytes)]
    names = unique([f"weight{i}" for i in data], [f.name for f in made.signature.fields])
    fields = {
        i: Field(name, made.paths[i], *made.program.inputs[i])
        for i, name in zip(data, names, strict=True)
    }
    places = tuple(fields.get(i, place) for i, place in enumerate(made.places))
    inputs = made.signature.inputs + tuple(fields.values())
    return replace(made, signature=replace(made.signature, inputs=inputs), places=places)


def _arrays(made: Made, donated: Collection[int], on_gpu: bool) -> dict[str, Any]:
    """Inputs, outputs and constants, and the program if it is one of WebGPU."""
    fields = {i: x for i, x in enumerate(made.places) if isinstance(x, Field)}
    inputs = {f.name: i for i, f in fields.items()}
    constants = [i for i, x in enumerate(made.places) if isinstance(x, bytes)]
    outputs = made.signature.outputs
    records = {
        "inputs": [f.record | {"donated": i in donated} for i, f in fields.items()],
        "outputs": [f.record for f in outputs],
        "constants": [{"path": made.paths[i]} for i in constants],
    }
    if not on_gpu:
        return records
    shared = {i: inputs[f.same] for i, f in enumerate(outputs) if f.same}
    program, layout = webgpu.recorded(made.program, constants, shared)
    at = [*fields, *range(len(made.places), len(layout.places) - 1), *constants]
    each = (record for kind in records.values() for record in kind)
    for record, i in zip(each, at, strict=True):
        record["place"] = layout.places[i]
    return {**records, **program}


def _weights(path: Path, made: Made) -> str:
    """Write the constants; returns a digest of them all."""
    digest = sha256()
    arrays = {}
    for name, place, (shape, dtype) in zip(made.paths, made.places, made.program.inputs):
        if isinstance(place, bytes):
            digest.update(name.encode() + b"\0" + place)
            arrays[name] = np.frombuffer(place, dtype).reshape(shape)
    found = digest.hexdigest()
    state.save(path, arrays, metadata={"program": found})
    return found


def _types(signature: Signature) -> dict[str, str]:
    """The members of the types in NAME.d.ts."""
    return {
        kind: "\n".join(
            f"  /** {f.dtype.name}[{', '.join(map(str, f.shape))}]: {f.path} */\n"
            f"  {f.name}: {array_type(f.dtype)};"
            for f in fields
        )
        for kind, fields in (("inputs", signature.inputs), ("outputs", signature.outputs))
    }
