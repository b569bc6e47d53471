"""Size of the source: lines of code by room, each held to a bound that may only fall.

    make size                       the tree as it is, beside its bounds
    make size ARGS=~/other/tfn      another checkout

A line of code has a token that is no comment and belongs to no docstring.  The core is what a
function meets between the call and the processor, and the functions that users call; annexes hang
on it: other devices and frontends, many processes, files, tools.  A change that adds more than the
bound of a room allows deletes something there, or raises the bound and says why in the row.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]

COMPILER, LIBRARY, ANNEX, ASSEMBLY = "compiler", "library", "annex", "assembly"
FRONTEND = "frontend"  # annexes that came later: networks of others, and other devices
CORE = (COMPILER, LIBRARY)
"""The groups of the core: below `numpy`, `lax`, `nn` and `random`, and these."""

LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
LAYOUT |= {tokenize.ENDMARKER, tokenize.ENCODING}
"""Tokens that say where others stand, or nothing at all."""


class Count(NamedTuple):
    """Lines of code, and the tokens that stand on them."""

    lines: int = 0
    tokens: int = 0

    def plus(self, other: Count) -> Count:
        return Count(self.lines + other.lines, self.tokens + other.tokens)

    @property
    def density(self) -> float:
        """Tokens per line of code."""
        return self.tokens / max(self.lines, 1)


class Room(NamedTuple):
    """A part of tfn with a bound.

    Attributes:
        name: what people call it.
        group: where it counts.
        bound: the most lines of code that it may have.
        density: the most tokens per line: a room is not made small by denser code.
        reason: why the bound is what it is.
    """

    name: str
    group: str
    bound: int
    density: float
    reason: str

    @property
    def paths(self) -> tuple[str, ...]:
        """The beginnings of the names of its files."""
        return PATHS.get(self.name, (self.name + "/",))


# fmt: off
ROOMS = (
    Room("face",           COMPILER, 2_685,  9.6, "tfn.extend names what annexes import; Buckets"),
    Room("support",        COMPILER,   817,  8.3, "as measured"),
    Room("trace",          COMPILER, 4_206, 11.5, "axes of ops came here; sets of ops by rows"),
    Room("transforms",     COMPILER, 5_824, 11.0, "batches of NumPy; jit offers buckets"),
    Room("lower",          COMPILER,   706,  9.7, "passes for the least code; sizes of slots"),
    Room("lower/target",   COMPILER,   129,  9.0, "instructions for products of bytes"),
    Room("lower/graph",    COMPILER, 2_896, 13.6, "Winograd; functions of a byte as tables"),
    Room("lower/fuse",     COMPILER, 1_731, 12.2, "products of gathered rows; fewer access maps"),
    Room("lower/index",    COMPILER,   906, 13.1, "bounds of clipped floats"),
    Room("lower/loops",    COMPILER, 1_740, 12.9, "sums of quantised blocks, few rows, transposed"),
    Room("lower/math",     COMPILER, 1_566, 11.2, "integers to shorter floats without float64"),
    Room("lower/codegen",  COMPILER, 4_375, 11.5, "loops as one function; address spaces"),
    Room("lower/memory",   COMPILER, 1_028, 11.4, "preludes as rows; small values of loops"),
    Room("lower/report",   COMPILER, 1_383, 11.7, "as measured"),
    Room("hw",             COMPILER, 1_315,  8.9, "passes over loops; pages of LLVM"),
    Room("hw/cpu",         COMPILER, 1_770,  9.2, "library calls move with their operands"),
    Room("eager",          COMPILER, 1_499,  9.8, "preludes run once; constants by NumPy"),
    Room("show",           COMPILER,   310, 10.6, "scopes of kernels, for exports too"),
    Room("numpy",          LIBRARY,  7_978, 11.7, "factors of small matrices; NumPy's options"),
    Room("lax",            LIBRARY,  5_453, 11.2, "ragged products; complex order"),
    Room("random",         LIBRARY,  1_334, 11.6, "places among keys"),
    Room("nn",             LIBRARY,  3_142,  9.7, "norms, optimizers, losses, complex activations"),
    Room("sharding",       ANNEX,    4_818, 11.7, "as measured"),
    Room("grids",          ANNEX,    4_870, 11.0, "grids without numbers of 64 bits; one of AMD"),
    Room("C renderer",     ANNEX,    1_405,  9.4, "copies in place; halves of bytes"),
    Room("dsp",            ANNEX,    1_310,  9.2, "as measured"),
    Room("driven",         ANNEX,      168, 10.0, "what opencl and webgpu had twice; packages"),
    Room("webgpu",         FRONTEND,   908, 11.0, "faults of drivers; shared bindings; traces"),
    Room("amd",            FRONTEND, 2_950, 13.0, "a linker, an emulator of 600 instructions"),
    Room("pack",           ANNEX,    1_730, 10.7, "as measured"),
    Room("distributed",    ANNEX,    3_155,  9.6, "as measured"),
    Room("onnx",           FRONTEND, 4_916, 12.2, "functions both ways; weights stay bytes"),
    Room("llm",            FRONTEND, 4_750, 12.5, "formats, layers, engine, server; fast draws"),
    Room("torch",          FRONTEND, 2_483, 12.7, "ATen, linear algebra too; sizes in buckets"),
    Room("compat",         ANNEX,    3_802,  9.7, "float0 and keys as JAX has them"),
    Room("scipy",          ANNEX,    4_329, 12.5, "slopes at special points; complex numbers"),
    Room("science",        FRONTEND, 2_894, 12.5, "fits, roots, equations, curves, filters"),
    Room("experimental",   ANNEX,    3_256, 11.5, "sparse products by loops"),
    Room("buckets",        FRONTEND, 1_112, 12.4, "sizes that change: a rule per op; quotients"),
    Room("exporting",      ANNEX,    2_809,  9.4, "pages; stacks by graphs; functions of sizes"),
    Room("words",          FRONTEND,   190, 15.0, "functions without numbers of 64 bits"),
    Room("pages",          FRONTEND,   294,  9.7, "pages; loaders of WebAssembly"),
    Room("microcontrollers", FRONTEND, 1_100,  9.6, "figures; states; halves; folders"),
    Room("viewer and tune",ANNEX,    1_370, 10.0, "residuals, and scopes of kernels"),
    Room("profiler",       ANNEX,      990,  9.9, "costs by named scope and module"),
    Room("checkpoints",    ANNEX,    2_564, 10.1, "pieces in a folder or in a store"),
    Room("store",          FRONTEND,    1_599, 10.4, "blocks by content, copies on hosts, repair"),
    Room("quantize",       ANNEX,      790,  9.9, "accuracy lost by layer"),
    Room("native runtime", ASSEMBLY, 3_173,  5.7, "memory as waves of an emulated GPU access it"),
)
# fmt: on

PATHS = {
    "face": ("",),
    "support": ("_support/",),
    "hw": ("hw/", "hw/compile/"),
    "show": ("inspect/__init__", "inspect/show", "inspect/kernels"),
    "sharding": (
        *("transforms/shard/", "sharding", "eager/placement", "eager/shards", "eager/stacks"),
        *("trace/mesh", "trace/named_sharding", "trace/place", "trace/processes"),
        *("trace/sharding", "inspect/shardings", "lax/sharding_constraint"),
    ),
    "grids": (
        *(
            "hw/cuda/",
            "hw/opencl/",
            "hw/commands",
            "lower/grids/",
            "trace/grid",
            "trace/matrix_tiles",
            "lower/target/grid",
        ),
        *("lower/fuse/grid", "lower/fuse/sharing", "lower/loops/grid", "lower/codegen/grid"),
        *("lower/codegen/group", "lower/codegen/staged_tiles", "lower/codegen/warp_product"),
        *("lower/codegen/sort/group_sort", "lower/codegen/render/matrix"),
        *("lower/codegen/render/nvptx", "lower/codegen/render/opencl/"),
        "lower/codegen/render/llvm_grid",
    ),
    "C renderer": ("lower/codegen/render/c/",),
    "webgpu": ("hw/webgpu/",),
    "amd": ("hw/amd/", "lower/codegen/render/amdgcn"),
    "driven": ("hw/driven",),
    "dsp": ("hw/dsp/", "lower/codegen/render/hexagon"),
    "pack": ("lower/pack/", "inspect/cycles"),
    "viewer and tune": ("inspect/",),
    "checkpoints": (
        *("nn/checkpoint/", "nn/data", "nn/fields", "nn/hosts", "nn/permutation"),
        "nn/safetensors",
    ),
    "words": ("lower/math/words",),
    "pages": ("exporting/page", "hw/webgpu/page"),
    "microcontrollers": (
        *(f"exporting/{x}" for x in ("microc", "figures", "comp", "carry", "weights", "folders")),
        *(f"lower/codegen/render/c/{x}" for x in ("blocks", "dots", "library")),
    ),
    "science": tuple(
        f"scipy/{x}" for x in ("optimize/", "integrate/", "interpolate/", "signal/filters")
    ),
    "quantize": ("nn/quantize/",),
    "store": ("nn/store/",),
    "native runtime": ("*.ll",),
}
"""The files of rooms that are not the folder of their name, as beginnings of names below `tfn/`.

A file belongs to the room with the longest one; the empty one means files in no folder, `*.ll`
those of LLVM IR.
"""

GROUPS = {"compiler": (COMPILER,), "core": CORE, "all": (*CORE, ANNEX)}
BOUNDS = {"compiler": 34_886, "core": 52_793, "all": 90_159}
"""The most lines of code below `numpy`, `lax`, `nn` and `random`; with them; with the annexes.

Those of `FRONTEND` are bounded one by one: none is needed by another part.
"""


@cache
def count(text: str) -> Count:
    """Lines and tokens of a file of Python, without comments and docstrings."""
    lines: set[int] = set()
    tokens = 0
    for statement in _statements(text):
        if len(statement) == 1 and statement[0].type == tokenize.STRING:
            continue
        tokens += len(statement)
        for token in statement:
            lines.update(range(token.start[0], token.end[0] + 1))
    return Count(len(lines), tokens)


def _statements(text: str) -> Iterator[list[tokenize.TokenInfo]]:
    """The tokens of each logical line."""
    statement: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT:
            statement.append(token)
        elif token.type == tokenize.NEWLINE:
            yield statement
            statement = []


def assembly(text: str) -> Count:
    """Lines and words of a file of LLVM IR, without comments."""
    lines = [line.partition(";")[0].split() for line in text.splitlines()]
    return Count(sum(map(bool, lines)), sum(map(len, lines)))


@cache
def rooms(root: Path) -> dict[str, list[Path]]:
    """The files of each room of a checkout."""
    owners = sorted(((path, r.name) for r in ROOMS for path in r.paths), key=lambda o: -len(o[0]))
    files: dict[str, list[Path]] = {room.name: [] for room in ROOMS}
    for path in sorted((root / "tfn").rglob("*")):
        if path.suffix in (".py", ".ll"):
            name = path.relative_to(root / "tfn").as_posix()
            owner = next((room for start, room in owners if _begins(name, start)), None)
            assert owner, f"{name} is in no room: add it to a row of ROOMS, or one for its folder"
            files[owner].append(path)
    return files


def _begins(name: str, start: str) -> bool:
    """Whether a path of a row means a file; the empty one means those in no folder."""
    if name.endswith(".ll"):
        return start == "*.ll"
    return name.startswith(start) if start else "/" not in name


def size(room: Room, root: Path = ROOT) -> Count:
    """All files of a room."""
    total = Count()
    for path in rooms(root)[room.name]:
        total = total.plus((assembly if room.group == ASSEMBLY else count)(path.read_text()))
    return total


def totals(root: Path = ROOT) -> dict[str, Count]:
    """The sums that `BOUNDS` bounds."""
    of = {name: Count() for name in BOUNDS}
    for room in ROOMS:
        own = size(room, root) if room.group != ASSEMBLY else Count()
        for name in BOUNDS:
            if room.group in GROUPS[name]:
                of[name] = of[name].plus(own)
    return of


POSITIONS = re.compile(r"\barg\.(consts|carries|cond_consts|body_consts|branches)\b")
"""A place that counts the operands of a loop, branch or call."""

FIGURES = {
    "files that count operands of loops": POSITIONS,
    "files with a row `Op.SCAN:`": re.compile(r"\bOp\.SCAN: "),
}
"""Things written in several places, by the pattern that tells them."""

MOST_FILES_WITH_ROWS_OF_LOOPS = 9
"""One table for each question that is asked of a loop, of all transforms together."""


def places(pattern: re.Pattern[str], root: Path = ROOT, below: str = "") -> dict[str, int]:
    """How often each file has a pattern."""
    found = {
        path.relative_to(root).as_posix(): len(pattern.findall(path.read_text()))
        for path in sorted((root / "tfn" / below).rglob("*.py"))
    }
    return {name: times for name, times in found.items() if times}


def lengths(root: Path = ROOT) -> list[int]:
    """The lines of all functions, in order."""
    trees = (ast.parse(path.read_text()) for path in (root / "tfn").rglob("*.py"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = (n for tree in trees for n in ast.walk(tree) if isinstance(n, functions))
    return sorted((n.end_lineno or n.lineno) - n.lineno + 1 for n in found)


def main(root: Path) -> None:
    """Print the sizes of a checkout."""
    print(f"{'':24}{'files':>6}{'lines':>8}{'bound':>8}{'tokens/line':>13}  reason")
    for room in ROOMS:
        own = size(room, root)
        print(
            f"{room.name:24}{len(rooms(root)[room.name]):6}{own.lines:8,}{room.bound:8,}"
            f"{own.density:13.2f}  {room.reason}"
        )
    for name, total in totals(root).items():
        print(f"{name:30}{total.lines:8,}{BOUNDS[name]:8,}{total.density:13.2f}")
    for name, pattern in FIGURES.items():
        found = places(pattern, root, "lower" if "lower" in name else "")
        print(f"{name:40}{len(found):6}, {sum(found.values())} times")
    every = lengths(root)
    p50, p90 = (every[len(every) * q // 100] for q in (50, 90))
    print(f"{len(every):,} functions of {p50} lines, one in ten of over {p90}, at most {every[-1]}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Print lines of code by room.")
    parser.add_argument("root", nargs="?", type=Path, default=ROOT, help="the checkout")
    main(parser.parse_args().root.expanduser())
