"""The structure of the source: layers, packages and files, read with `ast`."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

from tests import style
from tests.covering import together

ROOT = Path(__file__).parents[1]
HOUSE = sorted((ROOT / "tfn").rglob("*.py"))
GUESTS = sorted((ROOT / "examples").rglob("*.py"))
FILES = [*HOUSE, *GUESTS]
LONGEST = 500

GROUND = {"errors", "dtypes", "config", "tree"}
# fmt: off
MAY_IMPORT = {
    "ground":     {"ground"},
    "trace":      {"ground", "trace"},
    "transforms": {"ground", "trace", "transforms"},
    "lower":      {"ground", "trace", "lower", "program"},
    "program":    {"ground", "trace", "program"},
    "hw":         {"ground", "trace", "program", "hw"},
    "face":       {"ground", "trace", "transforms", "lower", "program", "hw", "face", "nn"},
    "nn":         {"ground", "face", "nn"},
    "examples":   {"ground", "face", "nn", "examples"},
    "tour":       {"ground", "trace", "transforms", "lower", "face"},
}
"""Layers: the packages that each may import.  `program` is `lower/program.py` and `lower/target/`,
the data that `hw` sees of `lower`; the tour of the compiler is the one example that sees it.
Devices
are annexes, which are of the face: what they import below it, `test_annexes.py` counts."""

LOWER = (
    "target", "program", "index", "math", "loops", "graph", "codegen", "fuse", "memory",
    "passes", "small", "grids", "languages", "pipeline", "report",
)
"""The rooms of `lower`: each may import those before it."""
# fmt: on

# fmt: off
ANNEXES: dict[str, tuple[str, ...]] = {
    "buckets":      ("buckets/",),
    "compat":       ("compat/",),
    "cuda":         ("hw/cuda/",),
    "checkpoints":  ("nn/checkpoint/", "nn/data", "nn/fields", "nn/hosts", "nn/permutation",
                     "nn/safetensors", "nn/state", "nn/store/"),
    "distributed":  ("distributed/",),
    "dsp":          ("hw/dsp/",),
    "experimental": ("experimental/",),
    "exporting":    ("exporting/",),
    "llm":          ("llm/",),
    "onnx":         ("onnx/",),
    "amd":          ("hw/amd/",),
    "opencl":       ("hw/opencl/",),
    "pack":         ("lower/pack/",),
    "profiler":     ("profiler/",),
    "quantize":     ("nn/quantize/",),
    "scipy":        ("scipy/",),
    "tools":        ("inspect/viewer/", "inspect/tune", "inspect/search", "inspect/verify",
                     "inspect/cycles", "inspect/plots", "inspect/limits"),
    "torch":        ("torch/",),
    "webgpu":       ("hw/webgpu/",),
}
# fmt: on
"""The files of each annex, as beginnings of names below `tfn/`: what hangs on the core."""

OF_MACHINES = ("languages.py", "target/", "codegen/render/")
"""The parts of `lower` that are about single machines: the table of what each brings, the record of
one, and the text of one language each."""

OWNED = {
    "z3",
    "llvmlite",
    "ray",
    "mpi4py",
    "matplotlib",
    "scipy",
    "pyopencl",
    "wgpu",
    "tokenizers",
    "jinja2",
    "torch",
    "starlette",
    "uvicorn",
    "blake3",
}
"""Heavy optional packages: the one file that owns one may import it inside a function."""

BASES = {"Protocol", "Enum", "IntEnum", "Exception", "NamedTuple", "TypedDict", "Generic"}
"""What may be subclassed everywhere."""

EXCEPTIONS = {
    "tfn/trace/uop.py": {"ref"},  # weakref.ref has no other way to carry its key
    "tfn/config.py": {"ModuleType"},  # a module has no other way to notice an assignment
    "tfn/_support/members.py": {"type"},  # a metaclass is one
    "tfn/tree.py": {"PyTreeEntry"},  # optree has no other way to print a user's key
    "examples/torch_resnet.py": {"Module"},  # networks of PyTorch are subclasses
    "tfn/hw": {"Structure"},  # ctypes has no other way to lay out a struct
    "tfn/errors.py": {
        "TypeError",
        "ValueError",
        "IndexError",
        "RuntimeError",
        "MemoryError",
        "FloatingPointError",
    },
}
"""What else may be subclassed, and where."""

UNMIRRORED = {
    f"tests/{name}.py"
    for name in (
        *("test_structure", "test_rows", "test_glossary", "test_packaging", "test_show"),
        *("test_readme", "test_programs", "test_deep", "test_scale", "test_benchmarks"),
        *("test_damaged_files", "test_interrupts", "test_iteration", "test_work_growth"),
        *("test_replay", "test_signatures", "test_size", "test_annexes", "test_covering"),
        "test_cold_path",
        *("test_optax", "test_typing", "scipy/test_against_scipy", "scipy/test_corners"),
        *("options/test_odd_options", "options/test_odd_layers"),
        "fuzz/test_fuzz",
        *("numpy/test_against_numpy", "numpy/test_result_types", "numpy/test_docs"),
        "distributed/test_namespaces",
        *("transforms/test_corners", "transforms/test_slopes", "transforms/test_orders_of_modes"),
        *("examples/test_scripts", "hw/opencl/test_sort_and_scan"),
        *("hw/cuda/test_main", "hw/cuda/test_header"),
        *("transforms/shard/test_guides", "transforms/shard/test_sharding_guides"),
        *("lower/test_quantised", "lower/test_grid_interpreter"),
    )
}
"""Tests of no one file."""


def name(path: Path) -> str:
    """A file as people write it: ``tfn/trace/uop.py``."""
    return path.relative_to(ROOT).as_posix()


@cache
def text(path: Path) -> str:
    return path.read_text()


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(text(path), name(path))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(parsed(path)))


def every(files: list[Path]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return together("path", files, ids=name)


def layer(path: Path) -> str:
    """The layer that a file belongs to."""
    parts = path.relative_to(ROOT).parts
    if parts[0] != "tfn":
        return "tour" if path.stem == "tour" else parts[0]
    if parts[1:] == ("lower", "program.py") or parts[1:3] == ("lower", "target"):
        return "program"
    if parts[1] == "_support":
        return "ground"
    if len(parts) == 2:
        return "ground" if path.stem in GROUND else "face"
    device = annex(path) and parts[1] in ("hw", "lower")
    return parts[1] if parts[1] in MAY_IMPORT and not device else "face"


def annex(path: Path) -> str | None:
    """The annex that a file belongs to; None for the core."""
    below = path.relative_to(ROOT).as_posix().removeprefix("tfn/")
    return next((a for a, starts in ANNEXES.items() if below.startswith(starts)), None)


def package(path: Path) -> str:
    """The package below `tfn`, or the room of `lower`, or the device, or the loose file."""
    parts = path.relative_to(ROOT).with_suffix("").parts[1:]
    inner = parts[0] == "lower" or (parts[0] == "hw" and annex(path))
    return "/".join(parts[:2]) if inner else parts[0]


def imports(found: Iterable[ast.AST]) -> Iterator[tuple[ast.stmt, str]]:
    """Each import with the dotted name it asks for; ``from a import b`` asks for a.b."""
    for node in found:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name the whole path"
            for alias in node.names:
                yield node, f"{node.module}.{alias.name}"


@cache
def target(dotted: str) -> Path | None:
    """The file of tfn that an import means; None for other packages."""
    parts = dotted.split(".")
    if parts[0] != "tfn":
        return None
    for end in (len(parts), len(parts) - 1):
        base = ROOT.joinpath(*parts[:end])
        for found in (base.with_suffix(".py"), base / "__init__.py"):
            if end and found.exists():
                return found
    raise AssertionError(f"{dotted} is not a file of tfn")


@cache
def imported(path: Path) -> frozenset[str]:
    """The dotted names that a file imports, anywhere in it."""
    return frozenset(dotted for _, dotted in imports(nodes(path)))


def offers(path: Path) -> frozenset[str]:
    """The dotted names that a package loads at their first use."""
    blocks = [n for n in parsed(path).body if isinstance(n, ast.With)]
    return frozenset(dotted for block in blocks for _, dotted in imports(ast.walk(block)))


@cache
def uses(path: Path) -> frozenset[Path]:
    """The files of tfn that a file imports; a package of the core only offers its annexes."""
    found = {target(dotted) for dotted in imported(path)}
    if annex(path) is None:
        found -= {file for d in offers(path) if (file := target(d)) is not None and annex(file)}
    return frozenset(other for other in found if other is not None and other != path)


@every(FILES)
def test_imports_go_down(path: Path) -> None:
    allowed = MAY_IMPORT[layer(path)]
    wrong = [name(other) for other in uses(path) if layer(other) not in allowed]
    assert not wrong, f"{name(path)} ({layer(path)}) may not import {wrong}"


@every([p for p in HOUSE if package(p).startswith("lower/") and not annex(p) and p.name[0] != "_"])
def test_rooms_of_lower_import_earlier_rooms(path: Path) -> None:
    own = package(path).split("/")[1]
    allowed = {f"lower/{room}" for room in LOWER[: LOWER.index(own) + 1]}
    others = {p for p in uses(path) if package(p).startswith("lower/")}
    wrong = [name(p) for p in others if package(p) not in allowed]
    assert not wrong, f"{name(path)} may not import {wrong}"


@every([p for p in HOUSE if layer(p) == "lower"])
def test_lower_asks_for_no_kind_of_machine(path: Path) -> None:
    """A target brings values, and its language passes: no branch is about what it is."""
    if name(path).removeprefix("tfn/lower/").startswith(OF_MACHINES):
        return
    found = sorted(set(questions(nodes(path))))
    assert not found, f"{name(path)} asks for a kind of machine: {found}"


def questions(found: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Lines that branch on whether a target has a grid, or that read its name."""
    for node in found:
        if isinstance(node, ast.Attribute) and node.attr in ("triple", "cpu", "features"):
            yield node.lineno, node.attr
        tests = [getattr(node, "test", None), *getattr(node, "ifs", ())]
        tests += [*getattr(node, "values", ()), getattr(node, "operand", None)]
        if isinstance(node, ast.Compare):
            tests += [node.left, *node.comparators]
        for test in tests:
            if isinstance(test, ast.Attribute) and test.attr in ("grid", "symbol_prefix"):
                yield test.lineno, test.attr


def test_questions_for_a_kind_of_machine_are_found() -> None:
    wrong = "if target.grid: pass\nx = a if target.grid is None else target.cpu\ny = not t.grid"
    assert {line for line, _ in questions(ast.walk(ast.parse(wrong)))} == {1, 2, 3}
    assert not [*questions(ast.walk(ast.parse("grid.linearize(n, target.grid)")))]


def test_no_package_imports_itself_through_others() -> None:
    graph: dict[str, set[str]] = {}
    for path in HOUSE:
        if path.parent != ROOT / "tfn" / "lower" or path.name != "__init__.py":
            own = graph.setdefault(package(path), set())
            own |= {package(other) for other in uses(path)} - {package(path), "__init__"}
    graph.pop("__init__")  # `import tfn` itself
    while ready := [own for own, others in graph.items() if not others & graph.keys()]:
        for own in ready:
            del graph[own]
    assert not graph, f"packages that import each other: {graph}"


def test_no_file_imports_itself_through_others() -> None:
    state: dict[Path, bool] = {}  # False while its imports are being followed
    for start in FILES:
        stack = [(start, iter(sorted(uses(start))))] if start not in state else []
        state.setdefault(start, False)
        while stack:
            path, rest = stack[-1]
            other = next(rest, None)
            if other is None:
                state[path] = True
                stack.pop()
            elif other not in state:
                state[other] = False
                stack.append((other, iter(sorted(uses(other)))))
            elif not state[other]:
                circle = [name(p) for p, _ in stack]
                raise AssertionError(f"imports in a circle: {circle} -> {name(other)}")


@every([path for path in FILES if path.relative_to(ROOT).parts[:2] != ("tfn", "compat")])
def test_nothing_imports_compat(path: Path) -> None:
    """JAX's names are for libraries; `tfn/__init__.py` offers the package, and loads nothing."""
    wrong = [d for d in imported(path) if d.startswith("tfn.compat")]
    assert not wrong or path == ROOT / "tfn" / "__init__.py", f"{name(path)} imports {wrong}"


@every(FILES)
def test_imports_stand_at_the_top(path: Path) -> None:
    if all(node.col_offset == 0 for node, _ in imports(nodes(path))):
        return
    inner = [n for n in nodes(path) if isinstance(n, (ast.FunctionDef, ast.Lambda))]
    late = {d for f in inner for _, d in imports(ast.walk(f)) if d.split(".")[0] not in OWNED}
    assert not late, f"{name(path)} imports {sorted(late)} inside a function"


def test_each_heavy_package_has_one_owner() -> None:
    for package in OWNED:
        owners = [name(p) for p in HOUSE if package in {d.split(".")[0] for d in imported(p)}]
        if package == "scipy":  # whose algorithms the package of its name has, too
            owners.remove("tfn/scipy/on_host.py")
        assert len(owners) <= 1, f"{package} is imported by {owners}"


@every(FILES)
def test_nothing_is_subclassed(path: Path) -> None:
    allowed = set(BASES)
    for place, bases in EXCEPTIONS.items():
        if name(path).startswith(place):
            allowed |= bases
    for node in nodes(path):
        if isinstance(node, ast.ClassDef):
            for base in node.bases:
                base = base.value if isinstance(base, ast.Subscript) else base
                last = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "?")
                mine = path.name == "errors.py" and last.endswith("Error")
                assert last in allowed or mine, f"{node.name} of {name(path)} subclasses {last}"


@every([path for path in HOUSE if path.name != "config.py"])
def test_only_config_reads_the_environment(path: Path) -> None:
    for node in nodes(path):
        if isinstance(node, ast.Attribute):
            assert node.attr not in ("environ", "getenv"), f"line {node.lineno}"
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            assert not {"environ", "getenv"} & {alias.name for alias in node.names}


@every([path for path in HOUSE if path.name == "__init__.py" and path.parent.name != "tfn"])
def test_a_package_names_its_files(path: Path) -> None:
    text = ast.get_docstring(parsed(path)) or ""
    files = {f.stem for f in path.parent.glob("*.py")} - {"__init__"}
    files |= {f.parent.name for f in path.parent.glob("*/__init__.py")}
    for file in files:
        lines = re.findall(rf"^\s*(?:- )?`{{0,2}}{file}\b", text, re.MULTILINE)
        times = len(lines) or text.count(f"`{file}`")
        assert times == 1, f"{name(path)} must name {file} once, with its purpose"


def test_every_folder_is_a_package() -> None:
    for path in HOUSE:
        assert (path.parent / "__init__.py").exists(), name(path.parent)


@every(FILES)
def test_everything_public_has_a_docstring(path: Path) -> None:
    tree = parsed(path)
    assert ast.get_docstring(tree), f"{name(path)} does not say what it is for"
    missing = [node.name for node in public(tree) if not ast.get_docstring(node)]
    assert not missing, f"{name(path)}: no docstring for {missing}"


def public(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    """Public functions, classes, and methods of such classes; not the types of overloads."""
    bodies = [tree.body]
    bodies += [n.body for n in tree.body if isinstance(n, ast.ClassDef) and n.name[0] != "_"]
    for node in (node for body in bodies for node in body):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name[0] != "_":
            kinds = {getattr(decorator, "id", "") for decorator in node.decorator_list}
            if "overload" not in kinds:
                yield node


@every(FILES)
def test_files_are_short(path: Path) -> None:
    """Lines of code: docstrings, of names too, are not counted."""
    texts = [
        node
        for node in nodes(path)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ]
    told = sum(node.end_lineno - node.lineno + 1 for node in texts if node.end_lineno)
    lines = text(path).count("\n") - told
    assert lines <= LONGEST, f"{name(path)} has {lines} lines of code"


@every(FILES)
def test_nothing_is_left_to_do(path: Path) -> None:
    assert not re.search(r"\b(TODO|FIXME|XXX|HACK)\b", text(path))


def test_tests_mirror_the_source() -> None:
    """A file `x.py` has a `test_x.py`, or its package `y/` has a `test_y.py` for all its files."""

    def mirror(path: Path) -> str:
        return name(
            (ROOT / "tests" / path.relative_to(ROOT / "tfn")).with_name(f"test_{path.stem}.py")
        )

    files = {path: mirror(path) for path in HOUSE if path.name != "__init__.py"}
    packages = {path: mirror(path.parent) for path in files if path.parent != ROOT / "tfn"}
    guests = {f"tests/examples/test_{path.stem}.py" for path in GUESTS}
    found = {name(path) for path in (ROOT / "tests").rglob("test_*.py")} - UNMIRRORED
    found -= {name(path) for path in (ROOT / "tests/fuzz/found").glob("test_*.py")}
    missing = {file for path, file in files.items() if not {file, packages.get(path)} & found}
    assert not missing, f"files without tests: {sorted(missing)}"
    folders = {mirror(path.parent) for path in HOUSE if path.name == "__init__.py"}
    texts = {mirror(path) for path in (ROOT / "tfn").rglob("*.ll")}  # may have tests of their own
    extra = found - set(files.values()) - folders - guests - texts
    assert not extra, f"tests without a file: {sorted(extra)}"


def test_the_formatter_may_format_every_line() -> None:
    """Tables are between `fmt: off` and `fmt: on`; no line is left out by itself."""
    assert not style.skipped_formats(style.sources(ROOT))


def test_docstrings_begin_with_their_subject() -> None:
    """A noun or a verb, not What, That, Those, Which or How."""
    found = [
        f"{name(text.path)}:{text.line}: {text.first_line}"
        for text in style.relative_docstrings(style.sources(ROOT))
    ]
    assert not found, "\n".join(found)


def test_passes_are_taken_by_name() -> None:
    assert not style.numbered_passes(style.sources(ROOT))
