"""Blocks of four results in C: what they share is loaded, compared and counted once for all four.

    for (c = 0; c < 64; ++c) {            for (c = 0; c < 64; c += 4) {
      s = 0;                                s0 = s1 = s2 = s3 = 0;
      for (k ...) s += x[k] * w[c, k];      for (k ...) { s0 += x[k] * w[c, k]; s1 += ... }
      y[c] = f(s);                          for (j = 0; j < 4; ++j) y[c + j] = f(s[j]);
    }                                     }

Each sum is added up in the order in which it was; the results are computed one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tfn._support.frozen import frozen
from tfn.dtypes import INT32, INT64
from tfn.lower.codegen.render.c import dots, loops
from tfn.lower.codegen.render.c.writer import CWriter
from tfn.trace.op import Op
from tfn.trace.uop import UOp

WIDTH = 4
"""Results in a block: with more, their sums would not fit into the registers of small cores."""


@frozen
class Block:
    """A loop over results, by the positions of its parts among the instructions.

    Attributes:
        begin, sums, after, end: of the loop, of the sums within, of what follows them, and its end.
        dependent: what is another value for each result.
    """

    begin: int
    sums: int
    after: int
    end: int
    dependent: frozenset[UOp]


def blocks(items: Sequence[UOp]) -> Mapping[UOp, Block]:
    """The loops among instructions whose results are computed in blocks, by their first one."""
    found = {}
    stack: list[int] = []
    ends: dict[int, int] = {}
    for at, u in enumerate(items):
        if u.op is Op.LOOP:
            stack.append(at)
        elif u.op is Op.END and stack:
            ends[stack.pop()] = at
    for begin, end in ends.items():
        block = _block(items, begin, end, ends)
        if block is not None:
            found[items[begin]] = block
    return found


def _block(items: Sequence[UOp], begin: int, end: int, ends: Mapping[int, int]) -> Block | None:
    """The parts of a loop, if it holds loops for the sums of one result and then stores it."""
    loop, inner = items[begin], [at for at in ends if begin < at < end]
    bounds = [int(s.arg.value) for s in loop.src if s.op is Op.CONST]
    if not inner or len(loop.src) != 2 or len(bounds) != 2 or bounds[0] or bounds[1] % WIDTH:
        return None
    sums = min(inner)
    after = ends[sums] + 1
    simple = max(inner) < after and len(items[end].src) == 1
    counted = all(s.op is Op.CONST for at in inner for s in items[at].src)
    body = items[begin + 1 : after]
    effects = any(u.op in (Op.STORE, Op.LEAVE, Op.PREFETCH) for u in body)
    totals = [u for u in body if u.op is Op.ACCUMULATOR]
    whole = all(u.dtype == INT32 for u in totals) and not any(u.shape for u in items[begin:end])
    if not simple or effects or not counted or not whole or not any(u.op is Op.MUL for u in body):
        return None
    dependent = {loop}
    for _ in range(2):  # sums depend on what is added at their end
        for u in items[begin + 1 : end]:
            carries = u.op is Op.ACCUMULATOR
            if u.op not in (Op.LOOP, Op.END) and (carries or dependent.intersection(u.src)):
                dependent.add(u)
    return Block(begin, sums, after, end, frozenset(dependent))


def render(
    w: CWriter,
    items: Sequence[UOp],
    block: Block,
    products: Mapping[UOp, dots.Product],
    rows: Mapping[Op, Callable[[CWriter, UOp], None]],
) -> None:
    """A loop in blocks; sums that are products are calls, and all else is rendered by `rows`."""
    loop, outer = items[block.begin], w.names
    name, count = f"i{loop.arg}", int(loop.src[1].arg.value)
    kind = "u32" if loop in w.narrow_counters else "u64"
    w.open(f"for ({kind} {name} = 0; {name} < {count}; {name} += {WIDTH})")
    views = [{**outer, loop: f"({name} + {j})" if j else name} for j in range(WIDTH)]

    def each(run: Callable[[], None]) -> None:
        for view in views:
            w.names = view
            run()

    skipped, steps = -1, _steps(items, block)
    read = _read(items[block.sums : block.after], items[block.begin + 1 : block.sums])
    for at in range(block.begin + 1, block.after):
        u = items[at]
        if at <= skipped or (at < block.sums and u in block.dependent and u not in read):
            continue
        if u.op is Op.LOOP:
            each(lambda u=u: loops.declare(w, u))  # type: ignore[misc]
            if u in products:
                dots.render(w, products[u], views)
                skipped = products[u].end
                continue
            loops.begin(w, u)
            for view in views:
                view[u] = w.names[u]
        elif u.op is Op.END:
            each(lambda u=u: loops.carry(w, u))  # type: ignore[misc]
            w.close()
        elif u in steps:  # an index: its sum with a constant costs nothing where it is read
            w.names = views[0]
            rows[u.op](w, u)
            for j, view in enumerate(views):
                view[u] = f"({views[0][u]} + {j * steps[u]}u)" if j else view[u]
        elif u in block.dependent:
            each(lambda u=u: rows[u.op](w, u))  # type: ignore[misc]
        else:
            w.names = views[0]
            rows[u.op](w, u)
            for view in views[1:]:
                if u in views[0]:
                    view[u] = views[0][u]
    _results(w, items, block, views, rows)
    w.names = outer
    w.close()


def _steps(items: Sequence[UOp], block: Block) -> dict[UOp, int]:
    """Values that grow by a constant from one result to the next, and by how much."""
    steps = {items[block.begin]: 1}

    def step(u: UOp) -> int | None:
        return steps.get(u) if u in block.dependent else 0

    for u in items[block.begin + 1 : block.after]:
        of = [step(s) for s in u.src]
        if u not in block.dependent or u.dtype not in (INT32, INT64) or None in of or not of:
            continue
        if u.op is Op.CAST:
            steps[u] = of[0] or 0
        elif u.op is Op.ADD:
            steps[u] = (of[0] or 0) + (of[1] or 0)
        elif u.op is Op.MUL and u.src[1].op is Op.CONST:
            steps[u] = (of[0] or 0) * int(u.src[1].arg.value)
    return {u: n for u, n in steps.items() if n >= 0}


def _read(items: Sequence[UOp], before: Sequence[UOp]) -> set[UOp]:
    """The values that some instructions read, at once or through those before them."""
    read = {s for u in items for s in u.src}
    for u in reversed(before):
        if u in read:
            read.update(u.src)
    return read


def _results(
    w: CWriter,
    items: Sequence[UOp],
    block: Block,
    views: Sequence[dict[UOp, str]],
    rows: Mapping[Op, Callable[[CWriter, UOp], None]],
) -> None:
    """The steps after the sums, in a loop over the block, with what they need from before."""
    loop = items[block.begin]
    tail, before = items[block.after : block.end], items[block.begin + 1 : block.sums]
    needed = _read(tail, before)
    w.names = {u: name for u, name in views[0].items() if u not in block.dependent}
    w.count += 1
    j = f"j{w.count}"
    for acc in w.accumulators.get(items[block.sums], ()):
        sums = ", ".join(view[acc] for view in views)
        w.count += 1
        w.line(f"const u32 t{w.count}[] = {{{sums}}};")
        w.names[acc] = f"t{w.count}[{j}]"
    w.open(f"for (u32 {j} = 0; {j} < {WIDTH}; ++{j})")
    w.names[loop] = f"(i{loop.arg} + {j})"
    for u in [*(u for u in before if u in needed and u in block.dependent), *tail]:
        rows[u.op](w, u)
    w.close()
