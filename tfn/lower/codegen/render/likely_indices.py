"""Indices that are likely within their axis: one comparison where all of them were changed.

An index below zero counts from the end; one beyond the end is clamped, or its write is left out.
In a loop of scalars these are more instructions than the work, and nearly all indices need none of
them.  So the text of a kernel compares each index first::

    %b = icmp slt i32 %i, 0                        %in = icmp ult i32 %i, 100
    %c = add i32 %i, 100                           br i1 %in, label %within, label %beyond
    %d = select i1 %b, i32 %c, i32 %i       ->   beyond:
    %e = call i32 @llvm.smax.i32(i32 %d, i32 0)    ... the same instructions ...
    %f = call i32 @llvm.smin.i32(i32 %e, i32 99)   br label %within
                                                 within:
                                                   %f = phi i32 [ %i, ... ], [ ..., %beyond ]

LLVM drops the comparison where it knows the values of an index, as of a counter.
"""

from __future__ import annotations

import re

LIKELY = '!{!"branch_weights", i32 2000, i32 1}'
"""The weights of an index that is within: LLVM leaves the branch one."""

_DEFINITION = re.compile(r"  (%\S+) = (.*)")
_SELECT = re.compile(r"select i1 (%\S+), (i\d+) %\S+, i\d+ (%\S+)")
_EXTENSION = re.compile(r"sext i32 (%\S+) to i64")
_LOW = re.compile(r"call (i\d+) @llvm\.smax\.i\d+\(i\d+ (%\S+), i\d+ 0\)")
_HIGH = re.compile(r"call i\d+ @llvm\.smin\.i\d+\(i\d+ (%\S+), i\d+ (\d+)\)")
_BELOW = re.compile(r"icmp slt (i\d+) (%\S+), (\d+)")
_LABEL = re.compile(r"([\w.]+):")


def compared_first(text: str) -> str:
    """The text of a kernel whose indices are compared before they are changed."""
    lines = text.splitlines()
    values = {m[1]: m[2] for line in lines if (m := _DEFINITION.fullmatch(line))}
    sizes = {
        m[2]: int(m[3])
        for value in values.values()
        if (m := _BELOW.fullmatch(value)) and int(m[3]) > 0 and _index(m[2], values)
    }
    result: list[str] = []
    block, ends = "entry", dict[str, str]()
    for line in lines:
        label = _LABEL.fullmatch(line)
        block = label[1] if label else block
        found = _DEFINITION.fullmatch(line)
        name, value = (found[1], found[2]) if found else ("", "")
        high = _HIGH.fullmatch(value)
        low = _LOW.fullmatch(values.get(high[1], "")) if high else None
        if high and low:
            kind, changed, size = low[1], low[2], int(high[2]) + 1
        elif name in sizes:
            kind, changed, size = value.split()[-1] if "sext" in value else "", name, sizes[name]
            kind = kind or _SELECT.fullmatch(value)[2]  # type: ignore[index]
        else:
            result.append(line)
            continue
        index = _index(changed, values) or (changed, kind)
        tag = name[1:]
        wide = index[0]
        if index[1] != kind:
            wide = f"%wide.{tag}"
            result.append(f"  {wide} = zext {index[1]} {index[0]} to {kind}")
        result += [
            f"  %in.{tag} = icmp ult {index[1]} {index[0]}, {size}",
            f"  br i1 %in.{tag}, label %within.{tag}, label %beyond.{tag}, !prof {LIKELY}",
            f"beyond.{tag}:",
            f"  %changed.{tag} = {value}",
            f"  br label %within.{tag}",
            f"within.{tag}:",
            f"  {name} = phi {kind} [ {wide}, %{ends.get(block, block)} ], "
            f"[ %changed.{tag}, %beyond.{tag} ]",
        ]
        ends[block] = f"within.{tag}"
    return _renamed("\n".join(result) + "\n", ends)


def _index(changed: str, values: dict[str, str]) -> tuple[str, str] | None:
    """The index, and its type, that a value is one of after those below zero were changed."""
    value = values.get(changed, "")
    extension = _EXTENSION.fullmatch(value)
    select = _SELECT.fullmatch(values.get(extension[1], "") if extension else value)
    if select is None or values.get(select[1]) != f"icmp slt {select[2]} {select[3]}, 0":
        return None
    return select[3], select[2]


def _renamed(text: str, ends: dict[str, str]) -> str:
    """The text with the last blocks of what was one block as those that loops come from."""
    loops = [*ends]
    for block in loops:
        text = re.sub(
            rf"^(  %\S+ = phi (?!.*%beyond\.).*), %{re.escape(block)} \]",
            rf"\1, %{ends[block]} ]",
            text,
            flags=re.M,
        )
    return text
