"""State that a caller keeps from call to call: a struct, and the functions NAME_init and NAME_step.

    def step(state, x): ...  return state, y        as the step of a scan

The first leaves of the result are the next state.  What can be written over the present state is;
the rest is made in the arena, and copied when all has been read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from tfn import tree
from tfn.errors import ExportError
from tfn.exporting.signature import ALIGNMENT, Kept, Signature, c_type, named
from tfn.extend import Jaxpr, Program, Space, frozen

HINT = "return the next state as the state is, or a tuple that begins with it, as for lax.scan"


@frozen
class Carried:
    """A leaf of a state.

    Attributes:
        path: by which Python code refers to it.
        at: its position among the inputs; None if nothing reads it.
        start: its bytes before the first call.
    """

    path: str
    at: int | None
    start: bytes


def carried(
    jaxpr: Jaxpr,
    result: tree.Structure,
    state: tree.Structure,
    at: Sequence[int],
    paths: Sequence[str],
    starts: Sequence[bytes],
) -> tuple[Carried, ...]:
    """The leaves of a state, which the first outputs replace.

    Raises:
        ExportError: unless these have the structure, shapes and dtypes of the state.
    """
    if result != state and not (result.type is tuple and result.children()[:1] == [state]):
        raise ExportError(
            "the function does not return the next state first",
            got=f"{tree.show(result)} for the state {tree.show(state)}",
            hint=HINT,
        )
    for output, (i, path) in enumerate(zip(at, paths, strict=True)):
        now, new = jaxpr.params[i], jaxpr.outputs[output]
        if (now.shape, now.dtype) != (new.shape, new.dtype):
            raise ExportError(
                f"{path} changes its shape or dtype from call to call",
                got=f"{now.dtype}{list(now.shape)}, then {new.dtype}{list(new.shape)}",
                hint=HINT,
            )
    return tuple(map(Carried, paths, at, starts))


def kept(
    program: Program, state: Sequence[Carried], in_place: Mapping[int, int]
) -> tuple[tuple[Kept, ...], int]:
    """The members of the struct, and the bytes of an arena in which some are made."""
    count = len(state)
    fields = named([x.path for x in state], program.outputs[:count])
    own = {o: slot.at for o, slot in program.aliases if slot.space is Space.INPUT}
    members, arena_bytes = [], program.arena_bytes
    for output, (x, field) in enumerate(zip(state, fields, strict=True)):
        offset = None
        if x.at is not None and output not in in_place and own.get(output) != x.at:
            offset = -(-arena_bytes // ALIGNMENT) * ALIGNMENT
            arena_bytes = offset + field.size_bytes
        members.append(Kept(field, x.start, offset))
    return tuple(members), arena_bytes


def pattern(x: Kept) -> bytes:
    """The bytes at the start that repeat: those of an element where all are equal."""
    first = x.start[: x.field.dtype.itemsize]
    return first if first * prod(x.field.shape) == x.start else x.start


REPEAT = """\
KERNEL void repeat(char *to, const char *from, u32 period, u64 bytes) {
  for (u32 i = 0; bytes; --bytes, i = i + 1 == period ? 0 : i + 1) *to++ = from[i];
}

"""


def init(signature: Signature) -> str:
    """The function that writes a state as it is before the first call."""
    lines = "\n".join(
        f"  repeat((char *)state->{x.field.name}, (const char *)start_{x.field.name}, "
        f"{len(pattern(x))}, {x.field.size_bytes});"
        for x in signature.state
        if x.field.size_bytes
    )
    name = signature.name
    return f"{REPEAT}void {name}_init({name}_state *state) {{\n{lines}\n}}\n\n"


def prototypes(signature: Signature, indent: str = "") -> str:
    """The functions, as they are declared."""
    name = signature.name
    if not signature.state:
        return f"{indent}int {name}(const {name}_args *args, void *arena);"
    step = f"{indent}int {name}_step(const {name}_args *args, {name}_state *state, void *arena);"
    return f"{indent}void {name}_init({name}_state *state);\n{step}"


def call(signature: Signature) -> str:
    """A call, as an example shows it."""
    return f"{signature.entry}(&args, {'&state, ' if signature.state else ''}arena)"


def struct(signature: Signature) -> str:
    """The struct of a state."""
    fields = tuple(x.field for x in signature.state)
    members = "\n".join(
        f"  {c_type(x.dtype)} {x.name}[{x.size_bytes // x.alignment or 1}];" for x in fields
    )
    name = signature.name
    return f"""\
/* The state, which the caller keeps from call to call. */
typedef struct {name}_state {{
{members}
}} {name}_state;
"""


def words(signature: Signature) -> str:
    """A sentence on what writes a state."""
    return f"""\
     {signature.name}_init writes it as it is before the first call; a step replaces it, and leaves
     it as it was if it refuses the call.  Two calls may not share it.
"""
