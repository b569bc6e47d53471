"""C translation unit: a program as one C file: prelude, words, kernels, and driver.

On the processor family that the text was written for it includes nothing but <stdint.h> and the
compiler's own intrinsics, and links no library.  For other families <math.h> has the functions that
they lack; results are the same, bit by bit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tfn.lower.codegen.render.c import dots, library, threads
from tfn.lower.codegen.render.c.driver import CLAMPED_INDEX
from tfn.lower.codegen.render.c.intrinsics import LIBRARY
from tfn.lower.codegen.render.c.words import definitions
from tfn.lower.program import Branch, Loop, Program, Step, routines
from tfn.lower.target.target import Target

PRELUDE = """\
#include <stdint.h>

typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef float f32;
typedef double f64;

#if defined(__clang__) /* no loop becomes a call of the C library */
#define KERNEL static __attribute__((no_builtin("memcpy", "memmove", "memset")))
#elif defined(__GNUC__)
#define KERNEL static __attribute__((optimize("no-tree-loop-distribute-patterns")))
#else
#define KERNEL static
#endif
#if defined(__GNUC__)
#define TFN_GNU 1
#define WORD static inline __attribute__((always_inline, unused))
#define ALIAS __attribute__((may_alias)) /* memory may hold one type after another */
#define PREFETCH(address) __builtin_prefetch(address)
#pragma GCC diagnostic ignored "-Wpsabi" /* vectors are passed to inlined functions only */
#else
#define TFN_GNU 0
#define WORD static
#define ALIAS
#define PREFETCH(address) (void)(address)
#endif
typedef s32 ALIAS s32_m;
typedef u8 ALIAS u8_m;
typedef u16 ALIAS u16_m;
typedef u32 ALIAS u32_m;
typedef u64 ALIAS u64_m;
typedef f32 ALIAS f32_m;
typedef f64 ALIAS f64_m;
"""

X86 = """
#if TFN_GNU && defined(__x86_64__)
#define TFN_X86 1
#define _MM_MALLOC_H_INCLUDED 1 /* intrinsics without <stdlib.h>: GCC */
#define __MM_MALLOC_H           /* and Clang */
#include <immintrin.h>
{start}#else
#define TFN_X86 0
#include <math.h>
#endif
"""
_START = """\
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("{features}"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("{features}")
#endif
"""
_STOP = """
#if TFN_X86
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
"""
OTHER = "\n#define TFN_X86 0\n"
MATH = "#include <math.h>\n"
_LIBRARY_CALL = re.compile(rf"\b({'|'.join(LIBRARY.values())})f?\(")

X86_FEATURES = (
    "sse4.1",
    "avx",
    "avx2",
    "fma",
    "avx512f",
    "avx512bw",
    "avx512dq",
    "avx512vl",
    "avx512bf16",
    "avx512vnni",
)
"""Features of x86-64 that words have instructions for."""


def features(target: Target) -> tuple[str, ...]:
    """The `X86_FEATURES` that a target has."""
    available = set(target.features.split(","))
    return tuple(name for name in X86_FEATURES if f"+{name}" in available)


def unit(
    program: Program,
    target: Target,
    entry: str,
    threaded: bool = False,
    constants: str = "",
    texts: Mapping[str, str] | None = None,
) -> str:
    """The text of a program.

    Args:
        program: lowered to C.
        target: the processor whose instructions may be used.
        entry: text that comes last, and may call the program's function.
        constants: arrays that the program's function names.
        threaded: whether the program is for several threads.
        texts: of kernels by name, which stand for their own.
    """
    kernels = "\n".join((texts or {}).get(x.name, x.text) for x in program.kernels)
    team = threads.TEAM.format(launches=max(len(program.launches), 1)) if threaded else ""
    clamp = CLAMPED_INDEX if branches(program.steps) else ""
    # Nothing is looked for among constants, which may be millions of numbers.
    body = f"{kernels}\n{team}{clamp}{program.text}"
    used_features = features(target)
    x86 = target.triple.startswith("x86_64")
    start = _START.format(features=",".join(used_features)) if used_features else ""
    words = definitions(body, frozenset({*used_features, "sse2"} if x86 else ()))
    calls = _LIBRARY_CALL.search(words)  # a bare machine may have no library
    parts = [
        threads.INCLUDES if threaded else "",
        PRELUDE,
        X86.format(start=start) if x86 else OTHER + MATH if calls else OTHER,
        library.definitions(target.triple, body),
        words,
        dots.definitions(kernels),
        f"{kernels}\n{team}{clamp}{constants}{program.text}",
        _STOP if x86 and used_features else "",
        entry,
    ]
    return "\n".join(part.strip("\n") for part in parts if part) + "\n"


def branches(steps: tuple[Step, ...]) -> bool:
    """Whether there is a branch among steps."""
    called = [step for routine in routines(steps) for step in routine.steps]
    return any(
        isinstance(step, Branch) or (isinstance(step, Loop) and branches((*step.head, *step.body)))
        for step in (*steps, *called)
    )
