"""Instruction selection: scalars, vectors, addresses, loads and stores of a kernel's body.

Nothing is unrolled in the graph.  The body is walked once for each coordinate that matters: the
value of a node is memoised under the coordinates of the ranges that it depends on, and of those
only, so that code which does not depend on an unrolled range is emitted once.  A node that depends
on the vector axis is a vector; an address of stride 1 along it is a vector load, of stride 0 a
scalar, any other a gather::

    a[i*64 + 3*u + l], u = 2, l = lanes 16    ->    load a[i1*64 + 6 + lane], 16 lanes, stride 1

Reductions are emitted by a function that is passed in (`linearize` passes `amx.emit_reduction`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import reduce
from typing import Protocol, cast

from tfn.dtypes import BOOL, FLOAT16, FLOATS, INT32, INT64, UINT64
from tfn.lower.codegen import lane_parts
from tfn.lower.codegen.coordinates import Coordinates, Key
from tfn.lower.codegen.loop_scopes import NOT_INSTRUCTIONS, Scopes
from tfn.lower.codegen.masked_tiles import tile_masks
from tfn.lower.codegen.register_transpose import transpose
from tfn.lower.codegen.selected_loads import conjuncts, selected_loads
from tfn.lower.index.affine import affine
from tfn.lower.loops.loop_nest import Nest
from tfn.trace import build, oracle
from tfn.trace.argument import Access, Likelihood, Place
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const, const_value, reshaped, walk

MASKED_BASE_ELEMENTS = 64
"""Distance from the beginning of its buffer at which a load under a false predicate may stay.

Where there is no memory at the address, a processor needs about a thousand cycles for a load whose
mask is false in every lane: so blocks of a block matrix took 490 us, and take 8.  A multiple of 64
elements keeps the alignment of the address.
"""

_ALWAYS = frozenset({Op.LOAD, Op.STAGED, Op.MEMO, Op.FOLD, Op.RANGE, Op.PARAM})
"""Ops that are emitted whether or not a rare value needs them."""

Terms = list[tuple[UOp, int]]
"""Values and their coefficients in an address."""


class Tiles(Protocol):
    """The tiles in local memory; see `staged_tiles.StagedTiles`."""

    def address(self, emitter: Emitter, node: UOp) -> tuple[UOp, UOp, int]:
        """The memory of a tile, and the index of the element at the present coordinates."""

    def steps(self, node: UOp) -> dict[UOp, int]:
        """The distances between neighbours along the axes of a tile."""


class Threads(Protocol):
    """The threads of a group, for a kernel of a grid; see `grid.GroupThreads`."""

    thread: UOp
    loads_matrices: bool

    @property
    def tiles(self) -> Tiles:
        """The tiles in local memory."""

    def mask(self, emitter: Emitter, node: UOp) -> UOp | None:
        """The predicate of an access by threads that may be idle; None if none is."""

    def only(self, r: UOp, inside: UOp | None) -> AbstractContextManager[None]:
        """Mask what depends on a range that all threads share, at the elements of the present."""

    def working(self, emitter: Emitter, ranges: Sequence[UOp]) -> UOp | None:
        """Whether a thread has an element of its own in ranges of threads; None if all have."""

    def iterations(self, emitter: Emitter, r: UOp) -> tuple[UOp, UOp | None]:
        """The first iteration of a thread in a range, and the end; None if it has just one."""

    def before(self, emitter: Emitter, r: UOp) -> None:
        """Emit what comes before a reduction's loop."""

    def enter(self, emitter: Emitter, r: UOp) -> None:
        """Emit what comes first in an iteration of a reduction's loop."""

    def load_staged(self, emitter: Emitter, node: UOp) -> UOp:
        """The element of a tile in local memory."""

    def combine(self, emitter: Emitter, op: Op, value: UOp) -> UOp:
        """The reduction of a value over all threads of the group."""


class Emitter:
    """The state of one kernel's emission.

    Attributes:
        code: the instructions so far, loop by loop.
        at: the present coordinates; `env` is theirs.
        reduction: emits a FOLD and stores its value in `values`.
        fma: whether products are added to sums without rounding them.
        rounds_products: whether those under a sum that is no contraction are rounded all the same.
        branches: whether values that are rarely used are computed under a branch.
        adds_bytes: whether an instruction adds products of four bytes to a lane.
        masks: for each reduction the masks outside of which its value is not used.
        values: instructions by node and coordinates.
        truths: comparisons that are decided in the present part of a loop.
        threads: the grid's part of the emission; None on a processor.
    """

    def __init__(
        self,
        n: Nest,
        fma: bool,
        reduction: Callable[[Emitter, UOp], None],
        threads: Threads | None = None,
        rounds_products: bool = False,
        branches: bool = False,
        adds_bytes: bool = False,
    ) -> None:
        self.threads, self.rounds_products, self.branches = threads, rounds_products, branches
        self.adds_bytes = adds_bytes
        self.code, self.at = Scopes(), Coordinates(n)
        self.reduction, self.fma = reduction, fma
        self.masks = tile_masks(n.body)
        self.values: dict[Key, UOp] = {}
        self.truths: dict[UOp, bool] = {}
        # Bound methods and tables of the inner loop, which visits each node many times.
        self.place, self.append = self.code.place, self.code.append
        self.env, self.key = self.at.env, self.at.key
        # The condition of the only store, in order: what is loaded under it has no other use.  Not
        # on a grid, whose threads would all read the address at which one of them writes.
        self._stores_alone, self._guard = len(n.body.src) == 1, cast("UOp | None", None)
        self._affine: dict[UOp, tuple[Terms, int]] = {}
        # Buffers that are updated in order: loads of them keep their position among the stores.
        self._updated = {s.src[0] for s in n.body.src if s.op is Op.STORE and s.arg is not None}

    # Scalars and vectors.

    def splat(self, u: UOp, lanes: int) -> UOp:
        """A scalar in every lane; a vector as it is."""
        if u.shape:
            return u
        if u.op is Op.CONST:
            return reshaped(u, (lanes,))
        if _is_converted(u) or (u.op is Op.MUL and any(map(_is_converted, u.src))):
            # x86 converts vectors of them: a scalar is put into a register that it first waits for.
            return self.place(UOp(u.op, tuple([self.splat(s, lanes) for s in u.src]), u.arg))
        return self.place(UOp(Op.SPLAT, (u,), lanes))

    def broadcast(self, values: Sequence[UOp]) -> list[UOp]:
        """Splat scalars if any of the values is a vector."""
        shape = max([v.shape for v in values], default=())
        return [v if v.shape == shape else self.splat(v, shape[0]) for v in values]

    # Values.

    def lookup(self, u: UOp) -> UOp | None:
        """The instruction emitted for a node at the present coordinates, None if there is none."""
        if u.op is Op.CONST or u.op is Op.PARAM:
            return u
        return self.env[u] if u.op is Op.RANGE else self.values.get(self.key(u))

    def value(self, u: UOp) -> UOp:
        """The instruction emitted for a node at the present coordinates."""
        value = self.lookup(u)
        assert value is not None, f"{u} is used before it is emitted"
        return value

    def emit(self, u: UOp) -> UOp:
        """The value of a node of the body, emitted if it has not been."""
        value = self.lookup(u)
        if value is not None:
            return value
        stack = [u]
        while stack:
            node = stack[-1]
            key = self.key(node)
            if key in self.values:  # pushed twice, and emitted since
                stack.pop()
                continue
            if node.op is Op.FOLD:
                self.reduction(self, node)
                stack.pop()
                continue
            if node.op is Op.BITCAST and (parts := lane_parts.value(self, node)) is not None:
                self.values[key] = parts
                stack.pop()
                continue
            sources = self.sources(node)
            values = [self.lookup(s) for s in sources]
            if None in values:
                stack += [s for s, value in zip(sources, values) if value is None][::-1]
                continue
            stack.pop()
            self.values[key] = self._emit(node, cast("list[UOp]", values))
        return self.value(u)

    def sources(self, node: UOp) -> Sequence[UOp]:
        """The nodes to emit before a node: of a WHERE with a constant condition only its branch."""
        if node.op is Op.LOAD:
            return [*self.address_values(node.src[1]), *node.src[2:]]
        if node.op is Op.MEMO:  # the value, or the reduction that has kept it
            return [node.src[-1 if len(node.src) == 4 else 0], *self.address_values(node.src[2])]
        if node.op is Op.STAGED:  # its load was emitted when the tile was copied
            return ()
        if node.op is Op.WHERE:
            condition = self.lookup(node.src[0])
            if condition is None:
                return node.src[:1]
            truth = constant_truth(condition)
            if truth is not None:
                return (node.src[1] if truth else node.src[2],)
            loads = self._selected(node, condition)
            if loads:
                return [node.src[0], *(v for u in loads for v in self.address_values(u.src[1]))]
            if self.is_branch(node):
                return (node.src[0], node.src[2], *self._inputs(node.src[1]))
        return node.src

    def address_values(self, index: UOp) -> list[UOp]:
        """The terms of an address that are not ranges: they are values to be emitted."""
        terms, _ = self.affine(index)
        apart = lane_parts.size(self, terms) > 0  # then each part has an address
        values = [term for term, _ in terms if term.op is not Op.RANGE]
        return [u for u in values if not apart or lane_parts.lanes_of(self, u) is None]

    def _emit(self, node: UOp, src: list[UOp]) -> UOp:
        """The value of a node, given those of its `_sources`."""
        if node.op is Op.LOAD:
            return self._load(node)
        if node.op is Op.MEMO:
            return self._memo(node, src[0])
        if node.op is Op.STAGED:
            assert self.threads is not None, "tiles are staged for groups of threads"
            return self.threads.load_staged(self, node)
        if node.op is Op.WHERE:
            condition = self.value(node.src[0])
            if constant_truth(condition) is not None:
                return src[0]
            if loads := self._selected(node, condition):
                return self._load_either(condition, *loads)
        if self.is_branch(node):
            return self._branch(node, *src[:2])
        if node in self.truths:
            return const(self.truths[node], BOOL)
        if node.op in (Op.AND, Op.OR) and node.dtype == BOOL:
            for s, other in (src, src[::-1]):
                truth = constant_truth(s)
                if truth is not None:
                    return other if truth is (node.op is Op.AND) else s
        if node.op is Op.LT and node.src[0].dtype == INT64:
            comparison = self._compare_lanes(node)
            if comparison is not None:
                return comparison
        if node.op is Op.AND and (bounded := _one_comparison(*src)) is not None:
            self.place(bounded.src[0])
            return self.place(bounded)
        # Floats are not folded: a kernel's function and the oracle's may differ in the last bit.
        if node.dtype not in FLOATS and all(s.op is Op.CONST and not s.shape for s in src):
            return const(oracle.apply(node.op, node.arg, *(s.arg.value for s in src)), node.dtype)
        return self.place(UOp(node.op, tuple(self.broadcast(src)), node.arg))

    # Branches.

    def is_branch(self, node: UOp) -> bool:
        """Whether a value of a node is computed only where it is needed."""
        return node.op is Op.WHERE and node.arg is Likelihood.RARE and self.branches

    def _inputs(self, rare: UOp) -> list[UOp]:
        """The nodes that a rare value is computed of: those emitted already, loads, and folds."""
        order = self._until_known(rare)
        return [u for u in order if self.lookup(u) is not None or u.op in _ALWAYS]

    def _until_known(self, rare: UOp) -> list[UOp]:
        return list(walk([rare], lambda u: u.op not in _ALWAYS and self.lookup(u) is None))

    def _branch(self, node: UOp, condition: UOp, common: UOp) -> UOp:
        """A value that is computed only where a lane needs it, in a loop of one iteration or none::

            y = where(c, rare x, common)   ->   y = common
                                                loop any(c): y = where(c, rare x, y)

        The loop carries all inputs: what depends on them is placed inside of it.
        """
        order = self._until_known(node.src[1])
        values = {u: value for u in order if (value := self.lookup(u)) is not None}
        inputs = [u for u in dict.fromkeys(values.values()) if u.op not in NOT_INSTRUCTIONS]
        lanes = max(v.shape for v in (condition, common, *values.values()))
        common = self.splat(common, *lanes) if lanes else common
        some = self.place(UOp(Op.ACROSS, (condition,), Op.MAX)) if condition.shape else condition
        trips = self.place(UOp(Op.CAST, (some,), INT64))
        scopes = [self.code.scope_of(u) for u in (trips, common, *inputs)]
        with self.code.within(max(scopes, key=lambda scope: scope.depth)):
            loop = self.code.open(const(0, INT64), trips)
            carried = [
                self.append(UOp(Op.ACCUMULATOR, (loop, u), i))
                for i, u in enumerate((common, *inputs))
            ]
            inside = dict(zip(inputs, carried[1:], strict=True))
            values = {u: inside.get(value, value) for u, value in values.items()}
            for u in order:
                if u not in values:
                    src = self.broadcast([values[s] for s in u.src])
                    values[u] = self.place(UOp(u.op, tuple(src), u.arg))
            chosen = self.broadcast([condition, values[node.src[1]], carried[0]])
            self.code.close(loop, carried, [self.place(build.where(*chosen)), *carried[1:]])
        return carried[0]

    def _compare_lanes(self, node: UOp) -> UOp | None:
        """The bound of an address as a bound of lanes, compared in 32 bits::

        base + lane < bound   ->   lane < bound - base

        A vector of 32-bit integers takes half the registers of the 64-bit addresses, and the
        right side is a scalar.  None if no term is the lanes, or a term is another vector.
        """
        terms, constant = affine(node.src[0] - node.src[1])
        scalars: Terms = []
        lanes, sign = node, 0
        for term, k in terms.items():
            value = self.lookup(term)
            if value is None or (value.shape and value.op is not Op.LANES):
                return None
            if value.op is Op.CONST:
                constant += k * const_value(value)
            elif value.op is Op.LANES:
                if sign or abs(k) != 1:
                    return None
                lanes, sign = value, k
            else:
                scalars.append((value, k))
        if not sign or not scalars:
            return None
        width = lanes.arg
        rest = self.base([(value, -sign * k) for value, k in scalars])
        bound = self.place(rest + const(-sign * constant, INT64))
        # Clamped to [-1, width], no lane number changes sides, and the bound fits 32 bits.
        bound = self.place(build.minimum(bound, const(width, INT64)))
        bound = self.place(build.maximum(bound, const(-1, INT64)))
        narrow = self.splat(self.place(UOp(Op.CAST, (bound,), INT32)), width)
        numbers = self.place(UOp(Op.CAST, (UOp(Op.LANES, (), width),), INT32))
        return self.place(numbers < narrow if sign > 0 else narrow < numbers)

    # Addresses.

    def affine(self, index: UOp) -> tuple[Terms, int]:
        """An address as terms with coefficients, and a constant; memoised."""
        # Keyed by the node alone: the form is the same at all coordinates.
        form = self._affine.get(index)
        if form is None:
            terms, constant = affine(index)
            form = self._affine[index] = list(terms.items()), constant
        return form

    def address(self, index: UOp) -> tuple[UOp, int, int, int]:
        """Base (a scalar, or a vector to gather at), constant offset, lanes, stride."""
        terms, offset = self.affine(index)
        stride, lanes = 0, 1
        scalars: Terms = []
        vectors: Terms = []
        for term, k in terms:
            value = self.env[term] if term.op is Op.RANGE else self.emit(term)
            if value.op is Op.CONST:
                offset += k * const_value(value)
            elif value.op is Op.LANES:
                stride, lanes = k, value.arg
            elif value.shape:
                vectors.append((value, k))
                lanes = value.shape[0]
            else:
                scalars.append((value, k))
        base = self.base(scalars)
        if not vectors:
            return base, offset, lanes, stride
        if stride:  # lanes beside a vector of indices: all of it is gathered
            vectors.append((UOp(Op.LANES, (), lanes), stride))
        vector_base = self.place(self.splat(base, lanes) + self.total(vectors))
        return vector_base, offset, lanes, 0

    def base(self, scalars: Terms) -> UOp:
        """The sum of scalars times coefficients, those of outer loops first: it is placed there."""
        scalars.sort(key=lambda term: self.code.scope_of(term[0]).depth)
        return self.total(scalars)

    def total(self, terms: Terms) -> UOp:
        """The sum of values times coefficients."""
        total: UOp | None = None
        for value, k in terms:
            product = value if k == 1 else self.place(value * k)
            total = product if total is None else self.place(total + product)
        return const(0, INT64) if total is None else total

    # Predicates.

    def lane_mask(self, node: UOp) -> UOp | None:
        """The lanes that exist, if the node depends on lanes that do not all exist."""
        for r in self.at.depends[node]:
            lanes = self.env[r]
            if lanes.op is Op.LANES and lanes.src:
                count = self.splat(lanes.src[0], lanes.arg)
                return self.place(UOp(Op.LANES, (), lanes.arg) < count)
        return None

    def predicate(self, node: UOp, condition: UOp | None, lanes: int) -> UOp | None:
        """The predicate of an access: its own condition, and the lanes that exist."""
        if lanes > 1:
            mask = self.lane_mask(node)
        else:
            mask = self.threads.mask(self, node) if self.threads else None
        if condition is None:
            return mask
        predicate = self.value(condition)
        if lanes > 1:
            predicate = self.splat(predicate, lanes)
        return predicate if mask is None else self.place(predicate & mask)

    # Loads.

    def _load(self, node: UOp) -> UOp:
        condition = node.src[2] if len(node.src) == 3 else None
        truth = None if condition is None else constant_truth(self.value(condition))
        if truth is False:  # padding: no memory is read
            return const(0, node.dtype)
        condition = None if truth else condition
        parts = lane_parts.load(self, node) if condition is None else None
        if parts is not None:
            return parts
        base, offset, lanes, stride = self.address(node.src[1])
        if condition is not None and self.value(condition).shape and lanes == 1 and not base.shape:
            return self._select_element(node.src[0], base, offset, self.value(condition))
        if condition is not None and condition is self._guard and lanes == 1 and not base.shape:
            # What is loaded elsewhere is not used: no mask is needed, only some address.
            base = self.place(build.where(self.value(condition), base, const(-offset, INT64)))
            return self.place_load(UOp(Op.LOAD, (node.src[0], base), Access(offset, 1, 0)))
        predicate = self.predicate(node, condition, lanes)
        one_for_all = predicate is None or predicate.op is Op.SPLAT
        if one_for_all and not base.shape and abs(stride) > 1:
            across = self._transposable_range(node, lanes)
            # A condition on it is true here; in other columns of the block it may be false.
            constrained = {r for c in node.src[2:] for r in self.at.depends[c]}
            if across is not None and across not in constrained:
                if condition is not None:
                    base = self._base_in_memory(condition, base, Access(offset, lanes, stride))
                mask = () if predicate is None else (predicate,)
                return self._load_transposed(node, across, (base, *mask), offset, stride)
        access = Access(offset, 1 if base.shape else lanes, stride)
        if condition is not None and lanes > 1 and not base.shape and abs(stride) == 1:
            base = self._base_in_memory(condition, base, access)
        src = (node.src[0], base) if predicate is None else (node.src[0], base, predicate)
        return self.place_load(UOp(Op.LOAD, src, access))

    def _selected(self, node: UOp, condition: UOp) -> tuple[UOp, UOp] | None:
        """The loads of which a scalar condition selects one, if addresses are all that differs."""
        if condition.shape or self.threads is not None or node.src[1].op is not Op.LOAD:
            return None
        loads = selected_loads(node, self.truths)
        if loads is None or node.src[1].src[0] in self._updated:
            return None
        steps = [{u: k for u, k in self.affine(s.src[1])[0] if self._is_lanes(u)} for s in loads]
        ranges = [
            r for s in loads for u in self.address_values(s.src[1]) for r in self.at.depends[u]
        ]
        return None if steps[0] != steps[1] or any(map(self._is_lanes, ranges)) else loads

    def _is_lanes(self, u: UOp) -> bool:
        return u.op is Op.RANGE and self.env[u].op is Op.LANES

    def _load_either(self, condition: UOp, x: UOp, y: UOp) -> UOp:
        """One of two elements, or vectors, at an address that a condition selects."""
        (base, offset, lanes, stride), (other, start, *_) = (self.address(u.src[1]) for u in (x, y))
        base = self.place(base + (offset - start)) if offset != start else base
        base = self.place(build.where(condition, base, other))
        mask = self.predicate(x, None, lanes)
        src = (x.src[0], base) if mask is None else (x.src[0], base, mask)
        return self.place_load(UOp(Op.LOAD, src, Access(start, lanes, stride)))

    def _memo(self, node: UOp, value: UOp) -> UOp:
        """A value that is stored where later loops find it, or one that an earlier loop stored."""
        base, offset, lanes, stride = self.address(node.src[2])
        predicate = self.predicate(node, None, lanes)
        mask = () if predicate is None else (predicate,)
        access = Access(offset, lanes, stride)
        if len(node.src) == 4:
            return self.append(UOp(Op.LOAD, (node.src[1], base, *mask), access))
        value = self.splat(value, lanes) if lanes > 1 else value
        self.append(UOp(Op.STORE, (node.src[1], base, value, *mask), access))
        return value

    def place_load(self, load: UOp) -> UOp:
        """A load where it belongs: outside of loops, or among the stores to its buffer."""
        # Local memory is written between barriers: its loads keep their position too.
        in_order = load.src[0] in self._updated or load.src[0].op is Op.LOCAL_MEMORY
        return self.append(load) if in_order else self.place(load)

    def _select_element(self, buffer: UOp, base: UOp, offset: int, predicate: UOp) -> UOp:
        """One element under a vector of predicates: loaded once, at a clamped address."""
        count = build.count(buffer.shape)
        if count == 0:
            return const(0, buffer.dtype)
        index = self.place(base + offset) if offset else base
        index = self.place(build.minimum(index, const(count - 1, INT64)))
        index = self.place(build.maximum(index, const(0, INT64)))
        element = self.place_load(UOp(Op.LOAD, (buffer, index), Access(0, 1, 0)))
        zero = const(0, element.dtype, predicate.shape)
        return self.place(build.where(predicate, *self.broadcast([element, zero])))

    def _base_in_memory(self, condition: UOp, base: UOp, access: Access) -> UOp:
        """The base of a masked load, or the buffer's beginning where no lane is loaded.

        See `MASKED_BASE_ELEMENTS`.
        """
        scalars = [
            u
            for u in map(self.value, conjuncts(condition))
            if not u.shape and constant_truth(u) is None
        ]
        if not scalars:
            return base
        any_lane = reduce(lambda x, y: self.place(x & y), scalars)
        start = MASKED_BASE_ELEMENTS if access.stride < 0 else 0
        start -= access.offset // MASKED_BASE_ELEMENTS * MASKED_BASE_ELEMENTS
        return self.place(build.where(any_lane, base, const(start, INT64)))

    def _transposable_range(self, node: UOp, lanes: int) -> UOp | None:
        """An unrolled range of stride 1, as long as the vectors: then blocks are square."""
        terms, _ = self.affine(node.src[1])
        for r, k in terms:
            square = r.op is Op.RANGE and r.arg.place is Place.UPCAST and r.arg.size == lanes
            if square and k == 1 and self.at.trips(r) == lanes:
                return r
        return None

    def _load_transposed(
        self, node: UOp, across: UOp, base: tuple[UOp, ...], offset: int, stride: int
    ) -> UOp:
        """Load a square block by vectors along `across`, and transpose it in registers.

        All coordinates of `across` are emitted at once; gathers would cost a load per element.
        `base` is the address, and a predicate that is equal in all lanes, if there is one.
        """
        present, lanes = self.env[across], across.arg.size
        start = offset - int(present.arg.value)
        rows = [
            self.place(UOp(Op.LOAD, (node.src[0], *base), Access(start + i * stride, lanes, 1)))
            for i in range(lanes)
        ]
        for i, column in enumerate(transpose(rows, self.place)):
            self.env[across] = const(i, INT64)
            self.values[self.key(node)] = column
        self.env[across] = present
        return self.values[self.key(node)]

    # Stores.

    def store(self, store: UOp) -> None:
        """Emit a store at the end of the innermost open loop."""
        buffer, index, source = store.src[:3]
        condition = store.src[3] if len(store.src) == 4 else None
        is_guarded = self._stores_alone and store.arg is not None and self.threads is None
        self._guard = condition if is_guarded else None
        for u in (source, *self.address_values(index), *store.src[3:]):
            self.emit(u)
        base, offset, lanes, stride = self.address(index)
        value = self.value(source)
        truth = None if condition is None else constant_truth(self.value(condition))
        if truth is False:
            return
        predicate = self.predicate(store, None if truth else condition, lanes)
        if lanes > 1:
            value = self.splat(value, lanes)
        src = (buffer, base, value) if predicate is None else (buffer, base, value, predicate)
        self.append(UOp(Op.STORE, src, Access(offset, 1 if base.shape else lanes, stride)))


def _is_converted(u: UOp) -> bool:
    """Whether a value is a half-precision float as one of another width."""
    return u.op is Op.CAST and u.src[0].dtype == FLOAT16


def _one_comparison(a: UOp, b: UOp) -> UOp | None:
    """Whether an index is in bounds, as one comparison of unsigned integers::

    -1 < x and x < n   ->   unsigned x < n
    """
    if a.op is not Op.LT or b.op is not Op.LT or a.src[1] is not b.src[0] or b.shape:
        return None
    x, n = b.src
    if x.dtype != INT64 or n.op is not Op.CONST or a.src[0] is not const(-1, INT64):
        return None
    return UOp(Op.LT, (UOp(Op.BITCAST, (x,), UINT64), const(max(const_value(n), 0), UINT64)))


def constant_truth(u: UOp) -> bool | None:
    """The truth of a condition that unrolled ranges decide, None if it is no constant."""
    return bool(u.arg.value) if u.op is Op.CONST else None
