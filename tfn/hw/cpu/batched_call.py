"""Batched calls: a C function of pointers, such as LAPACK's, called in a native loop over a batch.

Python is entered once for the whole batch.  The loop reads words: the address of the function, the
number of calls, destination, source and size of a copy that comes first, and the begin and stride
of each argument.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import cache as once
from typing import Any

from tfn.hw.compile.llvm import LlvmCompiler
from tfn.hw.cpu.loader import Code, Loader
from tfn.hw.cpu.target import host

COPY_TO, COPY_FROM, FIRST = 2, 3, 5
"""Positions of words: see `Calls.moved`."""

_CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p)  # without the interpreter's lock

_TEXT = """
define void @each(ptr %words) {{
  %function = load ptr, ptr %words
{loads}
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %next, label %end
next:
  %i = phi i64 [ 0, %0 ], [ %after, %next ]
{steps}
  call void %function({arguments})
  %after = add i64 %i, 1
  %more = icmp slt i64 %after, %count
  br i1 %more, label %next, label %end
end:
  ret void
}}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


def text(count: int) -> str:
    """LLVM IR of the loop over a function of `count` pointers.

    Example:
        >>> "call void %function(ptr %p0, ptr %p1)" in text(2)
        True
    """
    words = ["i64 %count", "ptr %to", "ptr %from", "i64 %bytes"]
    for i in range(count):
        words += [f"ptr %begin{i}", f"i64 %stride{i}"]
    loads = []
    for at, word in enumerate(words, 1):
        kind, name = word.split()
        loads.append(f"  {name}.at = getelementptr i64, ptr %words, i64 {at}")
        loads.append(f"  {name} = load {kind}, ptr {name}.at")
    steps = []
    for i in range(count):
        steps.append(f"  %offset{i} = mul i64 %i, %stride{i}")
        steps.append(f"  %p{i} = getelementptr i8, ptr %begin{i}, i64 %offset{i}")
    return _TEXT.format(
        loads="\n".join(loads),
        steps="\n".join(steps),
        arguments=", ".join(f"ptr %p{i}" for i in range(count)),
    )


@once
def _loader() -> Loader:
    return Loader(LlvmCompiler())


@once
def _loop(count: int) -> tuple[Callable[[Any], None], Code]:
    """The loop over a function of `count` pointers, and the code that must stay loaded."""
    loader = _loader()
    code = loader.load(loader.compiler.compile(text(count), host()), ("each",))
    return _CALL(code.addresses["each"]), code


class Calls:
    """The C function at an address, called `count` times with pointers.

    Args:
        function: the address of a C function of pointers that returns nothing.
        count: the number of calls.
        places: for each argument, its address in the first call and its stride in bytes.
        copy: destination, source and size in bytes of a copy before the first call.
        keeps: an object that must live as long as this one.

    Example:
        >>> import ctypes
        >>> seen = []
        >>> kind = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_int32))
        >>> function = kind(lambda place: seen.append(place[0]))
        >>> numbers = (ctypes.c_int32 * 3)(1, 2, 3)
        >>> address = ctypes.cast(function, ctypes.c_void_p).value
        >>> calls = Calls(address, 3, [(ctypes.addressof(numbers), 4)])
        >>> calls()
        >>> seen
        [1, 2, 3]
    """

    __slots__ = ("_keeps", "_run", "_words")

    def __init__(
        self,
        function: int,
        count: int,
        places: Sequence[tuple[int, int]],
        copy: tuple[int, int, int] = (0, 0, 0),
        keeps: object = None,
    ) -> None:
        words = [function, count, *copy, *[word for place in places for word in place]]
        self._words = (ctypes.c_uint64 * len(words))(*[w & (2**64 - 1) for w in words])
        self._run, _ = _loop(len(places))
        self._keeps = keeps

    def __call__(self) -> None:
        """Runs the loop of calls."""
        self._run(self._words)

    def moved(self, words: Mapping[int, int], keeps: object) -> Calls:
        """The same calls, with these words, by their positions, instead of those given before.

        Args:
            words: positions are `COPY_TO`, `COPY_FROM`, and `FIRST` + 2 i for the address of
                argument i.
            keeps: an object that must live as long as the result.
        """
        other = Calls.__new__(Calls)
        other._words = type(self._words).from_buffer_copy(self._words)
        for place, word in words.items():
            other._words[place] = word
        other._run, other._keeps = self._run, keeps
        return other
