"""C header of an exported function: its contract, in words and in types."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from tfn.dtypes import NARROW
from tfn.exporting import carry
from tfn.exporting.figures import Figures
from tfn.exporting.signature import ABI, ALIGNMENT, Field, Signature, c_type

VECTOR_BYTES = 128
"""The width of a vector of HVX, which masked ends of arrays are loaded and stored by."""
ERRORS = (
    ("OK", "all outputs are written"),
    ("WRONG_VERSION", "the struct was filled for another version or another program"),
    ("NULL_POINTER", "a pointer of the struct, the struct or the arena is null"),
    ("MISALIGNED", "an address is no multiple of what is asked for"),
    ("SMALL_ARENA", "arena_bytes is less than what is asked for"),
)
"""Results of a call, by number; unless it is OK, nothing has been read or written."""


_OWNER = re.compile(r"/\* \w+: a function exported by tfn as (.+)\.(?: \*/)?\n")


def path_beside(path: Path, name: str, suffix: str) -> Path:
    """The path of a header or loader of an exported file: NAME.h, unless another file has that.

    Then it is the whole name of the file with the suffix: model.so.h beside model.c and model.h.
    """
    beside = path.with_name(f"{name}{suffix}")
    with suppress(OSError, UnicodeDecodeError), beside.open() as text:
        owner = _OWNER.match(text.readline())
        if owner and owner[1] != path.name and path.with_name(owner[1]).exists():
            return path.with_name(f"{path.name}{suffix}")
    return beside


def header(signature: Signature, file: str, figures: Figures | None = None) -> str:
    """The text of the header of a file."""
    name, capital = signature.name, signature.name.upper()
    errors = "\n".join(
        f"  {capital}_{error} = {i},{' ' * (14 - len(error))}/* {meaning} */"
        for i, (error, meaning) in enumerate(ERRORS)
    )
    members = "\n".join(
        [f"  const {c_type(field.dtype)} *{field.name};" for field in signature.inputs]
        + [f"  {c_type(field.dtype)} *{field.name};" for field in signature.outputs]
    )
    return f"""\
/* {name}: a function exported by tfn as {file.replace("*/", "* /")}.

{carry.prototypes(signature, "   ")}

   It reads the inputs and writes the outputs that `args` points to, arrays in row-major order, and
   uses the arena for what lives only meanwhile.  {_threading(signature)}

{_table("inputs", signature.inputs)}
{_table("outputs", signature.outputs)}
{_state(signature)}{_rest(signature)}
{_layers(figures)}
   Example:
     {name}_args args = {capital}_ARGS;
{_example(signature)}
     int error = {carry.call(signature)};   with `arena` aligned to {ALIGNMENT} bytes
*/
#ifndef {capital}_H
#define {capital}_H
#include <stdint.h>

#define {capital}_ABI {ABI}u
#define {capital}_PROGRAM {signature.program:#010x}u
#define {capital}_ARENA_BYTES {signature.arena_bytes}ull
#define {capital}_ARENA_ALIGNMENT {ALIGNMENT}
#define {capital}_THREADS {signature.threads}
{_stack(capital, figures)}
enum {{
{errors}
}};

typedef struct {name}_args {{
  uint32_t abi;         /* {capital}_ABI */
  uint32_t program;     /* {capital}_PROGRAM */
  uint64_t arena_bytes; /* how large the arena is: at least {capital}_ARENA_BYTES */
{members}
}} {name}_args;

{_struct(signature)}/* What a struct begins with; all pointers are null. */
#define {capital}_ARGS {{{_start(signature)}}}

/* The pointers in order, for those who want them all: of what type, and to how many elements. */
{_fields(f"{capital}_INPUTS", signature.inputs)}
{_fields(f"{capital}_OUTPUTS", signature.outputs)}

#ifdef __cplusplus
extern "C" {{
#endif
{carry.prototypes(signature)}
extern const char {name}_manifest[];
#ifdef __cplusplus
}}
#endif
#endif
"""


def _state(signature: Signature) -> str:
    """The table of the state, if there is one, and by whom it is written."""
    if not signature.state:
        return ""
    return f"{_table('state', tuple(x.field for x in signature.state))}\n{carry.words(signature)}"


def _struct(signature: Signature) -> str:
    """The struct of the state, if there is one, and its members in order."""
    if not signature.state:
        return ""
    fields = _fields(f"{signature.name.upper()}_STATE", tuple(x.field for x in signature.state))
    return f"{carry.struct(signature)}{fields}\n\n"


def _start(signature: Signature) -> str:
    capital = signature.name.upper()
    start = [f"{capital}_ABI", f"{capital}_PROGRAM", f"{capital}_ARENA_BYTES"]
    return ", ".join([*start, *["0"] * len(signature.fields)])


def _threading(signature: Signature) -> str:
    """Sentences on threads and concurrent calls."""
    if signature.target.triple.startswith("hexagon"):
        return f"""It allocates nothing, keeps nothing between calls,
   and calls memcpy and memset alone, where the compiler puts them.
   It loads and stores whole vectors: {VECTOR_BYTES} bytes before and after
   each array must be memory, which is stored again as it was; no other thread may write it."""
    if signature.threads == 1:
        return """It allocates nothing, keeps nothing between calls,
   and calls memcpy, memset and fma alone, where the compiler puts them.
   Two calls may run at once if they share neither outputs nor arena."""
    return f"""Up to {signature.threads} threads share the work; all but
   the caller are started by the first call, and wait for the next.  Only one call runs at a time,
   others wait.  Beside memcpy, memset and fma it calls POSIX threads:
   compile and link with -pthread."""


def _fields(name: str, fields: tuple[Field, ...]) -> str:
    """An X macro: it applies the macro FIELD to every field."""
    lines = [f"  FIELD({c_type(f.dtype)}, {f.name}, {f.size_bytes // f.alignment})" for f in fields]
    return " \\\n".join([f"#define {name}(FIELD)", *lines])


def _table(title: str, fields: tuple[Field, ...]) -> str:
    """Names, types, alignments and paths in columns."""
    rows = []
    for field in fields:
        shape = ", ".join(map(str, field.shape))
        notes = [field.path] if field.path != field.name else []
        if field.dtype.kind == "c":
            notes.append("real and imaginary parts in turn")
        elif field.dtype.name in ("float16", "bfloat16") or field.dtype in NARROW:
            notes.append("as bits")
        if field.same:
            notes.append(f"may be the memory of {field.same}")
        rows.append(
            (field.name, f"{field.dtype.name}[{shape}]", f"align {field.alignment}", *notes)
        )
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
    lines = [
        "     "
        + "  ".join(
            [*(cell.ljust(width) for cell, width in zip(row, widths)), "; ".join(row[3:])]
        ).rstrip()
        for row in rows
    ]
    return "\n".join([f"   {title}:", *(line.replace("*/", "* /") for line in lines)])


def _rest(signature: Signature) -> str:
    target = signature.target
    lines = [
        f"   arena: {signature.arena_bytes} bytes, aligned to {ALIGNMENT}",
        f"   threads: {signature.threads if signature.threads > 1 else 'the caller alone'}",
        f"   target: {target.triple} {target.cpu}".rstrip(),
    ]
    if signature.constants:
        lines.append(f"   embedded: {', '.join(signature.constants)}")
    return "\n".join(lines)


def _layers(figures: Figures | None) -> str:
    """The table by layer, if there is one, as lines of a comment."""
    if figures is None:
        return ""
    text = str(figures).replace("*/", "* /").replace("×", "x").replace("…", "...")
    return "\n".join(["", *(f"   {line}".rstrip() for line in text.splitlines()), ""])


def _stack(capital: str, figures: Figures | None) -> str:
    """The bytes of the stack, as macros."""
    if figures is None:
        return ""
    return f"""\
#if defined(__OPTIMIZE__)
#define {capital}_STACK_BYTES {figures.stack_bytes}
#else
#define {capital}_STACK_BYTES {figures.plain_stack_bytes}
#endif
"""


def _example(signature: Signature) -> str:
    some = [*signature.inputs[:1], *signature.outputs[:1]]
    name = signature.name
    state = [f"     static {name}_state state;", f"     {name}_init(&state);   once"]
    lines = [f"     args.{field.name} = ...;" for field in some]
    return "\n".join([*(state if signature.state else []), *lines])
