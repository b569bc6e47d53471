"""Explanation pages of the compiler, made of its source: the tour, and a page for each room.

A hook of mkdocs.  A page of a room shows a small program at the stage of that room, then the
docstring of each file in reading order.  The program and the machine are those of the tour
(`examples/tour.py`), so the pictures are the same wherever the site is built.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

import tfn

sys.path.append(str(Path(__file__).parents[1] / "examples"))

import tour

Picture = tuple[str, Callable[[], str]]
"""A caption, and the text below it."""


def stage(name: str) -> Callable[[], str]:
    """The program of the tour at a stage of `tfn.show`."""
    return lambda: str(tfn.show(tour.f, tour.X, tour.W, at=name, target=tour.MACHINE))


def first_kernel(name: str) -> Callable[[], str]:
    """The kernel of the sine at a stage."""
    return lambda: stage(name)().split("\n\n")[0]


def last_kernel(name: str) -> Callable[[], str]:
    """The kernel of the sum at a stage."""
    return lambda: stage(name)().split("\n\n")[-1]


def complex_product() -> str:
    """A product of complex vectors as kernels: every value has become a pair."""
    z = tfn.ShapeDtypeStruct((3,), "complex64")
    return str(tfn.show(lambda x, y: x * y, z, z, at="kernels", target=tour.MACHINE))


class Room(NamedTuple):
    """A package of `tfn/lower`: its title, a sentence, and pictures of its stage."""

    title: str
    summary: str
    pictures: tuple[Picture, ...]


ROOMS: dict[str, Room] = {
    "graph": Room(
        "Graph rewrites",
        "Rewrites of arrays before fusion: complex numbers become pairs, oversized intermediates "
        "are computed in blocks, operands are packed.",
        (("A product of complex vectors, in pairs of real ones:", complex_product),),
    ),
    "fuse": Room(
        "Fusion",
        "Fusion decides which values are stored, cuts the program into kernels there, and writes "
        "each kernel as loops over indices.",
        (
            ("Kernels end at barriers:", stage("kernels")),
            ("Each kernel as loops over scalars:", stage("ranges")),
        ),
    ),
    "index": Room(
        "Index arithmetic",
        "Movement of arrays has become arithmetic on indices.  It is simplified by intervals, by "
        "affine forms and by laws, each of which z3 has proved.",
        (("A law, and a wrong one that z3 refutes:", tour.laws),),
    ),
    "loops": Room(
        "Loops",
        "Schedule primitives (opt-ops) split, reorder, unroll and vectorise loops; heuristics or a "
        "beam search choose them.  Each is recorded, and none changes a result.",
        (("The kernels with the opt-ops that were chosen:", stage("splits")),),
    ),
    "math": Room(
        "Elementary functions",
        "Elementary functions are rewritten in operations that every processor has, so that they "
        "fuse, vectorise, and give the same bits everywhere.",
        (("The sine, after argument reduction and a polynomial:", first_kernel("splits")),),
    ),
    "codegen": Room(
        "Code generation",
        "Loops become a list of vector instructions, and then text: LLVM IR for `jit`, C for "
        "`tfn.export`.",
        (
            ("The kernel of the sum as instructions:", last_kernel("linear")),
            ("The same kernel as LLVM IR:", lambda: tour.view().program.kernels[-1].text),
        ),
    ),
    "memory": Room(
        "Memory",
        "Values that are not alive at one time share memory in one arena, planned before anything "
        "runs; donated inputs are overwritten.",
        (("Launches, and the plan of the arena:", stage("memory")),),
    ),
    "report": Room(
        "Reports",
        "Pictures of each stage, costs in operations and bytes, and proofs that every access is "
        "within its array.",
        (
            (
                "`tfn.verify` of the program:",
                lambda: str(tfn.verify(tour.f, tour.X, tour.W, target=tour.MACHINE)),
            ),
        ),
    ),
    "target": Room(
        "Targets",
        "A machine is data: vector width, registers, caches, missing instructions.",
        (("The machine of these pages:", lambda: repr(tour.MACHINE)),),
    ),
}
"""The rooms in the order in which a program passes through them."""

STAGES = (
    ("function", "Python", "", "tour"),
    ("Jaxpr", "traced", "jaxpr", "tour"),
    ("kernels", "fused", "kernels", "fuse"),
    ("ranges", "indexed", "ranges", "fuse"),
    ("splits", "scheduled", "splits", "loops"),
    ("linear", "vectors", "linear", "codegen"),
    ("LLVM IR", "text", "llvm", "codegen"),
    ("driver", "one function", "driver", "memory"),
)
"""Boxes of the diagram: name, what it is, the stage of `tfn.show`, and its page."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the tour and the rooms."""
    files.append(File.generated(config, "explanation/tour.md", content=tour_page()))
    for name, room in ROOMS.items():
        files.append(File.generated(config, address(name), content=room_page(name, room)))
    return files


def address(name: str) -> str:
    """The page of a room; `index.md` would be that of its section."""
    return f"explanation/{'indices' if name == 'index' else name}.md"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Name the rooms in the navigation."""
    pages = [{room.title: address(name)} for name, room in ROOMS.items()]
    for entry in config.nav or []:
        if "Explanation" in entry:
            entry["Explanation"].append({"The compiler, room by room": pages})
    return config


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Draw the diagram of stages where a page asks for it; let the search prefer tasks."""
    if page.url.startswith(("howto/", "install/", "tutorial/")):
        page.meta.setdefault("search", {"boost": 4})
    return markdown.replace("<!-- stages -->", diagram(page.url))


def diagram(url: str) -> str:
    """The stages of a program as SVG, in the colours of the page, each a link."""
    width, height, gap, step = 112, 58, 22, 134
    parts = []
    for i, (name, kind, _, page) in enumerate(STAGES):
        row, column = divmod(i, 4)
        x, y = column * step + 1, row * (height + 40) + 1
        link = get_relative_url(f"explanation/{page}/", url)
        parts.append(
            f'<a href="{link}"><rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>'
            f'<text class="name" x="{x + width / 2}" y="{y + 25}">{name}</text>'
            f'<text class="kind" x="{x + width / 2}" y="{y + 45}">{kind}</text></a>'
        )
        if column < 3:
            parts.append(f'<path d="M{x + width} {y + height / 2} h{gap - 4}"/>')
        elif i + 1 < len(STAGES):
            parts.append(f'<path d="M{x + width / 2} {y + height} v18 H{width / 2 + 1} v18" />')
    bottom = 2 * height + 40 + 2
    return (
        f'<svg class="stages" viewBox="0 0 {3 * step + width + 2} {bottom}" role="img" '
        'aria-label="Stages of a program: ' + ", ".join(s[0] for s in STAGES) + '">'
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path class="head" d="M0 0 L8 4 L0 8 z"/></marker></defs>'
        + "".join(parts)
        + "</svg>"
    )


def tour_page() -> str:
    """The tour: for each room its text, its code, what that prints, and the file to open next."""
    lines = [
        "# The tour",
        "One program on its way through the compiler: `f = lambda x, w: (sin(x) @ w).sum()`.  Each "
        "stop has a few lines of code, what they print, the file to open next, and an invariant.  "
        "The same text comes from `make tour`.",
        fenced("python", inspect.getsource(tour.f).strip()),
    ]
    for number, room in enumerate(tour.ROOMS, 1):
        lines += [
            f"## {number}. {room.name}",
            inspect.getdoc(room.visit) or "",
            fenced("python", tour.code(room)),
            fenced("text", room.visit()),
            f"Open next: `{room.open}`.  Invariant: {room.holds}",
        ]
    return "\n\n".join(lines) + "\n"


def room_page(name: str, room: Room) -> str:
    """A room: its summary, pictures of its stage, and its files."""
    package = importlib.import_module(f"tfn.lower.{name}")
    lines = [f"# {room.title}", f"{room.summary}  The source is `tfn/lower/{name}/`."]
    for caption, picture in room.pictures:
        lines += [caption, fenced("text", picture())]
    lines += ["## Files"]
    for path in files_in_order(package):
        module = importlib.import_module(path)
        short = path.removeprefix(f"tfn.lower.{name}.")
        lines += [f"### {short}", prose(inspect.getdoc(module) or "")]
    return "\n\n".join(lines) + "\n"


def files_in_order(package: object) -> list[str]:
    """The modules of a package, in the order in which its docstring names them, then the rest."""
    name, doc = package.__name__, inspect.getdoc(package) or ""  # type: ignore[attr-defined]
    named = re.findall(r"^    (\w+) ", doc, re.MULTILINE)
    found = [module.name for module in pkgutil.iter_modules(package.__path__)]  # type: ignore[attr-defined]
    ordered = [n for n in named if n in found] + sorted(set(found) - set(named))
    return [f"{name}.{n}" for n in ordered]


def prose(doc: str) -> str:
    """A docstring as Markdown: what is indented is a picture, or a list of files."""
    lines: list[str] = []
    inside = False
    for line in doc.replace("::\n", ":\n").splitlines():
        indented = line.startswith("    ")
        if indented and not inside:
            lines += ["", "```text"]
            inside = True
        elif inside and line.strip() and not indented:
            while lines and not lines[-1].strip():
                lines.pop()
            lines += ["```", ""]
            inside = False
        lines.append(line[4:] if inside else line)
    return "\n".join([*lines, "```"] if inside else lines).strip().removeprefix(":")


def fenced(language: str, text: str) -> str:
    """A block of code."""
    return f"```{language}\n{text.rstrip()}\n```"
