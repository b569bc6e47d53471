"""Intrinsics: words for which a processor has an instruction, and GNU C no operator.

An instruction is used if the target that the text is for has it, and the compiler's target is of
that family; otherwise the C library has a function for a lane.
"""

from __future__ import annotations

from tfn.lower.codegen.render.c.word import Word

LIBRARY = {"fma": "fma", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "round": "rint"}
"""The functions of <math.h>; those of f32 end in f."""
_ROUNDING = {"floor": 9, "ceil": 10, "round": 8}
"""The rounding modes of SSE 4.1, without exceptions."""
_SUFFIX = {"f32": "ps", "f64": "pd", "u8": "epi8", "u16": "epi16", "u32": "epi32", "u64": "epi64"}
_PREFIX = {16: "_mm", 32: "_mm256", 64: "_mm512"}


def instruction(word: Word, gnu: bool) -> str:
    """The definition for any processor: by <math.h>, lane by lane."""
    kind, count = word.types[0], 3 if word.operation == "fma" else 1
    operands = "abc"[:count]
    if not word.lanes:
        name = LIBRARY[word.operation] + ("f" if kind == "f32" else "")
        library = f"#define {word.name}({', '.join(operands)}) {name}({', '.join(operands)})"
        return _root(word, library) if word.operation == "sqrt" else library
    takes = [word.names["T"]] * count
    if not gnu:
        return word.lane_by_lane(word.names["T"], takes)
    lanes = ", ".join(
        f"{word.operation}_{kind}({', '.join(f'{x}[{i}]' for x in operands)})"
        for i in range(word.lanes)
    )
    return word.gnu(word.names["T"], takes, f"return ({word.names['T']}){{{lanes}}};")


def _root(word: Word, library: str) -> str:
    """A square root as inline assembly: compilers would call the library, to set errno."""
    kind, single = word.types[0], word.types[0] == "f32"
    arm = f"fsqrt %{'s' if single else 'd'}0, %{'s' if single else 'd'}1"
    functions = [
        word.function(
            kind, [kind], f'{kind} y;\n  __asm__("{text}" : "={at}"(y) : "{at}"(a));\n  return y;'
        )
        for text, at in ((arm, "w"), (f"fsqrt.{'s' if single else 'd'} %0, %1", "f"))
    ]
    return "\n".join(
        [
            "#if TFN_GNU && defined(__aarch64__)",
            functions[0],
            "#elif TFN_GNU && defined(__riscv_fsqrt)",
            functions[1],
            "#else",
            library,
            "#endif",
        ]
    )


def x86(word: Word, features: frozenset[str]) -> str:
    """The definition by instructions of x86-64, "" if there are none."""
    kind, lanes = word.types[0], word.lanes
    if word.operation in LIBRARY:
        return _arithmetic(word, features)
    if word.operation == "pairs":
        return _pairs(word, features)
    if not lanes or kind not in _SUFFIX or not word.operation.endswith(("first", "where")):
        return ""
    size = lanes * int(kind[1:]) // 8
    if word.operation.startswith(("load", "store")) and size in _PREFIX:
        return _masked(word, size, features)
    return ""


def _arithmetic(word: Word, features: frozenset[str]) -> str:
    kind, lanes, does = word.types[0], word.lanes, word.operation
    suffix, count = _SUFFIX[kind], 3 if does == "fma" else 1
    needs = {"fma": "fma", "sqrt": "sse2"}.get(does, "sse4.1")
    if needs not in features:
        return ""
    operands = "abc"[:count]
    head = f"#define {word.name}({', '.join(operands)})"
    size = (lanes or 1) * int(kind[1:]) // 8
    widest = 64 if "avx512f" in features else 32 if "avx" in features else 16
    if size > widest:  # by halves: no register holds the vector
        half = f"{does}_{kind}x{lanes // 2}"
        parts = [
            f"{half}({', '.join(f'{part}_{kind}x{lanes}({x})' for x in operands)})"
            for part in ("low", "high")
        ]
        return f"{head} join_{kind}x{lanes}({', '.join(parts)})"
    if not lanes or size < 16:
        return _small(word, head, suffix)
    prefix, extra = _PREFIX[size], ""
    if does in _ROUNDING:
        extra = f", {_ROUNDING[does]}"
        name = "roundscale" if size == 64 else "round"
    else:
        name = "fmadd" if does == "fma" else "sqrt"
    return f"{head} (({word.names['T']}){prefix}_{name}_{suffix}({', '.join(operands)}{extra}))"


_DOTS = {
    ("u16", "f32"): ("avx512bf16", "dpbf16_ps"),
    ("u16", "u32"): ("avx512vnni", "dpwssd_epi32"),
    ("u8", "u32"): ("avx512vnni", "dpbusd_epi32"),
}
"""Dot products of neighbours that are added to a sum, too, by what is multiplied and added."""


def _pairs(word: Word, features: frozenset[str]) -> str:
    """Dot products of neighbours, added to a sum, in one instruction."""
    size, kind = word.lanes * 32 // 8, word.types[1]
    needs, name = _DOTS.get((word.types[0], kind), ("", ""))
    if needs not in features or size not in _PREFIX or not (size == 64 or "avx512vl" in features):
        return ""
    register = f"__m{8 * size}"
    wide, narrow = (register, f"{register}bh") if kind == "f32" else (f"{register}i",) * 2
    call = f"{_PREFIX[size]}_{name}(({wide})(a), ({narrow})(b), ({narrow})(c))"
    return f"#define {word.name}(a, b, c) (({word.names['R']}){call})"


def _small(word: Word, head: str, suffix: str) -> str:
    """A scalar, in the first lane of a register; a vector below 16 bytes, lane by lane."""
    kind, does = word.types[0], word.operation
    if word.lanes:
        return instruction(word, True)
    one, letter = suffix.replace("p", "s"), "s" if kind == "f32" else "d"
    if does == "fma":
        return f"{head} __builtin_fma{'f' if kind == 'f32' else ''}(a, b, c)"
    extra = f", {_ROUNDING[does]}" if does in _ROUNDING else ""
    name = "round" if does in _ROUNDING else "sqrt"
    register = f"_mm_set_s{letter}(a)"
    two = kind == "f64" or does in _ROUNDING
    operands = f"{register}, {register}" if two else register
    return f"{head} _mm_cvts{letter}_{kind}(_mm_{name}_{one}({operands}{extra}))"


def _masked(word: Word, size: int, features: frozenset[str]) -> str:
    """Masked loads and stores: by AVX-512's bit masks, or AVX2's lane masks."""
    kind, names, lanes = word.types[0], word.names, word.lanes
    prefix, suffix, bits = _PREFIX[size], _SUFFIX[kind], int(kind[1:])
    whole = {"f32": f"__m{8 * size}", "f64": f"__m{8 * size}d"}.get(kind, f"__m{8 * size}i")
    by_count, loads = word.operation.endswith("first"), word.operation.startswith("load")
    needs = "avx512bw" if bits < 32 else "avx512dq"
    if needs in features and (size == 64 or "avx512vl" in features) and lanes < 64:
        which = f"{prefix}_movepi{bits}_mask((__m{8 * size}i)(b))"
        if by_count:
            which = f"(__mmask{max(lanes, 8)})((1ull << (b)) - 1)"
        load, store = f"maskz_loadu_{suffix}({which}, a)", f"mask_storeu_{suffix}(a, {which}, "
    elif "avx2" in features and size < 64 and bits >= 32:
        which = f"(__m{8 * size}i){f'first_u{bits}x{lanes}' if by_count else ''}(b)"
        element = {"f32": "float", "f64": "double", "u32": "int", "u64": "long long"}[kind]
        load = f"maskload_{suffix}((const {element} *)(a), {which})"
        store = f"maskstore_{suffix}(({element} *)(a), {which}, "
    else:
        return ""
    if loads:
        return f"#define {word.name}(a, b) (({names['T']}){prefix}_{load})"
    return f"#define {word.name}(a, b, c) {prefix}_{store}({whole})(c))"
