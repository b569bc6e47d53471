"""Command for language models in files.

python -m tfn.llm show model.gguf             quantization, context, memory, tokenizer
python -m tfn.llm show model.gguf --tensors   each tensor too
python -m tfn.llm chat model.gguf             Ctrl-C ends an answer, an empty line the chat
python -m tfn.llm serve model.gguf            OpenAI's interface, and a page to chat with
python -m tfn.llm perplexity model.gguf text.txt
python -m tfn.llm bench model.gguf            tokens a second

Without a terminal, or with --quiet, `show` prints a line for each fact in place of tables.  The
exit status is 0; 1 if a file is damaged; 2 if what was asked cannot be done; 130 after Ctrl-C, but
for `chat` and for `serve` once it serves, which end so.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tfn.errors import StateError, TfnError
from tfn.llm import measure, show
from tfn.llm.generation import Reader, generate, tokenizer_of
from tfn.llm.model import dense_bytes, load
from tfn.llm.sampling import wished
from tfn.llm.serve import command as serve

OK, DAMAGED, WRONG, INTERRUPTED = 0, 1, 2, 130
"""Values of the exit status."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status.

    Args:
        arguments: of the command line; those of the process if None.
    """
    options = _parser().parse_args(arguments)
    console, errors = Console(), Console(stderr=True)
    try:
        options.run(options, console)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (TfnError, OSError, ValueError) as error:
        errors.print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
        return DAMAGED if isinstance(error, StateError) else WRONG
    return OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tfn.llm", description="Run language models that are in files."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    shown = _command(commands, "show", _show, "what a file is: quantization, context, memory")
    shown.add_argument("--tensors", action="store_true", help="list the tensors too")
    shown.add_argument("--quiet", action="store_true", help="lines in place of tables")
    talk = _command(commands, "chat", _chat, "talk to a model; an empty line ends it")
    talk.add_argument("--system", help="what the model is told first")
    talk.add_argument("--max-tokens", type=int, help="of an answer; what the context has room for")
    for name, default in (("temperature", 0.7), ("top-p", 0.95), ("min-p", 0.0)):
        talk.add_argument(f"--{name}", type=float, default=default, help="%(default)s")
    talk.add_argument("--seed", type=int, help="of the draws; another one each time")
    talk.add_argument("--json", action="store_true", help="answers are objects in JSON")
    serve.options(_command(commands, "serve", serve.run, "serve a model over HTTP, to chat with"))
    foreseen = _command(commands, "perplexity", _perplexity, "how well a model foresees a text")
    foreseen.add_argument("text", type=Path, help="a file of text")
    foreseen.add_argument("--window", type=int, default=512, help="tokens; %(default)s")
    timed = _command(commands, "bench", _bench, "how fast a model is")
    timed.add_argument("--prompt", type=int, default=256, help="tokens; %(default)s")
    timed.add_argument("--answer", type=int, default=64, help="tokens; %(default)s")
    return parser


def _command(
    commands: Any, name: str, run: Callable[[argparse.Namespace, Console], None], purpose: str
) -> argparse.ArgumentParser:
    one: argparse.ArgumentParser = commands.add_parser(name, help=purpose, description=purpose)
    one.add_argument("model", type=Path, help="a GGUF file, any of its parts; or a folder")
    one.set_defaults(run=run)
    return one


def _chat(options: argparse.Namespace, console: Console) -> None:
    """Answers to lines, each of which knows those before."""
    model = load(options.model)
    names = ("max_tokens", "temperature", "top_p", "min_p", "seed", "json")
    wishes = wished({name: getattr(options, name) for name in names})
    messages = [{"role": "system", "content": options.system}] if options.system else []
    reader = Reader(model)
    while line := _line(console):
        messages.append({"role": "user", "content": line})
        answer = ""
        try:
            for piece in generate(model, messages, wishes, reader):
                answer += piece.text
                console.out(piece.text, end="", highlight=False)
        except KeyboardInterrupt:  # ends the answer, not the chat
            reader = Reader(model)
        console.out("")
        messages.append({"role": "assistant", "content": answer})


def _line(console: Console) -> str:
    """A line of the user; an empty one at the end."""
    try:
        return console.input("> " if console.is_terminal else "").strip()
    except (EOFError, KeyboardInterrupt):
        return ""


def _perplexity(options: argparse.Namespace, console: Console) -> None:
    """The perplexity of a file of text, after each window on a terminal."""
    model = load(options.model)
    tokens = tokenizer_of(model).encode(options.text.read_text("utf-8"))
    found = None
    for found in measure.perplexity(model, tokens, options.window):
        if console.is_terminal:
            console.out(f"\r{found.tokens:,} tokens: {found.value:.4f}", end="")
    if found is not None:
        told = f"perplexity: {found.value:.4f} +- {found.error:.4f}, {found.tokens:,} tokens"
        console.out(("\r" if console.is_terminal else "") + told)


def _bench(options: argparse.Namespace, console: Console) -> None:
    """The time to load, and the speed of prompt and answer."""
    begin = time.perf_counter()
    model = load(options.model)
    loaded = time.perf_counter() - begin
    found = measure.speed(model, dense_bytes(model), options.prompt, options.answer)
    for name, told in (
        ("load", f"{loaded:.2f} s"),
        ("first step", f"{found.first:.2f} s"),
        (f"prompt of {options.prompt}", f"{found.prompt:.1f} tokens/s"),
        (f"answer of {options.answer}", f"{found.answer:.1f} tokens/s"),
        ("weights read", f"{found.bandwidth:.1f} GB/s"),
    ):
        console.out(f"{name}: {told}")


def _show(options: argparse.Namespace, console: Console) -> None:
    """Facts of a file or folder, and its tensors."""
    file, config = show.read(options.model)
    plain = options.quiet or not console.is_terminal
    rows = [*show.facts(file, config)]
    _table(console, options.model.name, ("", ""), rows, plain)
    if options.tensors:
        named = [
            (t.name, t.format.name, "x".join(map(str, t.shape)), show.amount(t.data.nbytes))
            for t in file.tensors.values()
        ]
        _table(console, "tensors", ("name", "format", "shape", "size"), named, plain)


def _table(
    console: Console,
    title: str,
    names: Sequence[str],
    rows: Sequence[tuple[str, ...]],
    plain: bool,
) -> None:
    """A table, or a line for each row."""
    if plain:
        for row in rows:
            console.print(
                ": ".join(row[:2]) + "".join(f" {part}" for part in row[2:]),
                highlight=False,
                markup=False,
                soft_wrap=True,
            )
        return
    table = Table(title=title, title_justify="left", show_header=any(names))
    for name in names:
        table.add_column(name, justify="right" if name == "size" else "left")
    for row in rows:
        table.add_row(*row)
    console.print(table, markup=False)


if __name__ == "__main__":
    sys.exit(main())
