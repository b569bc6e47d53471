"""Arrays and names in blocks: put, get, ls, pin.

    put("run/step-3", {"w": ...})    blocks of w -> tree -> sync -> the name refers to the tree

Blocks that are there are not written again, so that what has not changed since the step before, or
in another run, costs a line of a tree.
"""

from __future__ import annotations

import heapq
import os
import time
import warnings
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tfn._support.background import Background
from tfn.errors import ArgumentError, DamagedError, StateError
from tfn.extend import PathLike, integer
from tfn.nn import safetensors
from tfn.nn.store.folder import CONFIG, REFS, Folder, Item, Place
from tfn.nn.store.hashing import digest
from tfn.nn.store.placement import ranking
from tfn.nn.store.remote import Remote
from tfn.nn.store.trees import Block, Data, Leaf, Part, Ref, Tree, decode, encode

BLOCK_BYTES = 4 << 20
SMALL_BYTES, ALIGNMENT_BYTES = 64 << 10, 64
"""Arrays up to this size share blocks: a file for each would take longer to sync than to write."""
AHEAD = 4
"""Blocks that are read or written beside each other: while some wait for a disk, others hash."""
REF_COPIES = 3
"""Names are small, and have at least so many copies."""
RECENT_BLOCKS = 8
"""Blocks that are kept after a part of them was read."""
TOKEN = "token"  # a file beside store.json, which no server gives away

T = TypeVar("T")


class Store:
    """A content-addressed store: a folder, or folders of several hosts with copies.

    Args:
        places: the folder of a store, which is made if it is not there; or several folders and URLs
            of servers, which make up one store from then on.  Each of them leads to the others.
        replicas: copies of each block, on as many places; as before, or 1, if None.
        token: for servers; the text of the file ``token`` in the folder if None.
        create: whether folders are made.
        block_bytes: the length of new blocks.

    Attributes:
        places: that make up the store.
        replicas: copies of each block.
        mends: whether a damaged copy that is met is written anew.

    Raises:
        StateError: if a folder is no store, or cannot be reached and is not known.
        ArgumentError: for more copies than places.

    Example:
        >>> import tempfile
        >>> store = Store(tempfile.mkdtemp())
        >>> _ = store.put("run/1", {"w": np.arange(3.0)}, metadata={"step": "1"})
        >>> store.get("run/1")["w"].tolist(), store.ls(), store.tree("run/1").metadata
        ([0.0, 1.0, 2.0], ['run/1'], {'step': '1'})
    """

    def __init__(
        self,
        places: PathLike | Sequence[PathLike],
        *,
        replicas: int | None = None,
        token: str | None = None,
        create: bool = True,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        if one := isinstance(places, (str, os.PathLike)):
            places = [places]
        given = [os.fspath(place) for place in places]
        self.block_bytes = integer("Store", "block_bytes", block_bytes, 1)
        self._token = token
        self._recent: OrderedDict[str, Any] = OrderedDict()
        self._short = False
        self.mends = True
        known, copies = self._known(given)
        wanted = copies if replicas is None else replicas
        self.replicas = integer("Store", "replicas", wanted, 1)
        count = len({*given, *known.values()} if one else {*given})
        if self.replicas > count:
            raise ArgumentError(
                "copies of a block lie on different places",
                got=f"replicas={self.replicas}, {count} places",
                hint="name as many folders or URLs",
            )
        found = [self._place(address, known, create) for address in given]
        if one:
            own = {place.id for place in found}
            rest = [(name, at) for name, at in known.items() if name not in own]
            found += [self._place(at, {name: at}, False) for name, at in rest]
        self.places: list[Place] = found
        names = {place.id: place.address for place in found}
        if names != known or self.replicas != copies:
            for folder in self.folders():
                folder.configure(names, self.replicas)

    def _known(self, given: Sequence[str]) -> tuple[dict[str, str], int]:
        """The places and the copies that folders of this host know of."""
        known: dict[str, str] = {}
        copies = 1
        for path in given:
            if (Path(path) / CONFIG).exists():
                folder = Folder(path)
                record = folder.config()
                known |= record["places"] | {folder.id: folder.address}
                copies = record["replicas"]
                if self._token is None and (folder.root / TOKEN).exists():
                    self._token = (folder.root / TOKEN).read_text().strip()
        return known, copies

    def _place(self, address: str, known: Mapping[str, str], create: bool) -> Place:
        if "://" in address:
            names = [name for name, at in known.items() if at == address.rstrip("/")]
            remote = Remote(address, self._token or "", "".join(names))
            try:
                remote.id  # noqa: B018  (asks for it)
            except OSError as error:
                raise StateError(f"{address} cannot be reached", got=str(error)) from error
            return remote
        folder = Folder(address)
        names = [name for name, at in known.items() if at == folder.address]
        if (folder.root / CONFIG).exists():
            return folder
        if names:  # of a disk that is not mounted, in whose place nothing is made
            return Folder(address, *names)
        if not create:
            raise StateError(f"there is no store at {address}", hint="name the folder of one")
        folder.create()
        return folder

    def folders(self) -> list[Folder]:
        """The places that are folders of this host, and there."""
        found = [place for place in self.places if isinstance(place, Folder)]
        return [folder for folder in found if (folder.root / CONFIG).exists()]

    def ranked(self, name: str) -> list[Place]:
        """The places in the order in which they have copies of a block, by its digest."""
        if len(self.places) == 1:
            return self.places
        return [self.places[i] for i in ranking(name, [place.id for place in self.places])]

    # Blocks.

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold off the collection of garbage, until what was written is referred to."""
        with ExitStack() as stack:
            for folder in self.folders():
                stack.enter_context(folder.lock())
            self._short = False
            yield

    def put_block(self, data: Any) -> Block:
        """Writes a block, if it is not there; its name is on the disk after `sync`.

        Raises:
            OSError: if no place takes it.
        """
        block = Block(digest(data), memoryview(data).nbytes)
        self._spread(block.path, block.digest, data, self.replicas)
        return block

    def _spread(
        self, path: str, name: str, data: Any, copies: int, *, replace: bool = False
    ) -> None:
        """Write copies of a file: if a place fails, the next one gets its copy."""
        written, errors = 0, []
        for place in self.ranked(name):
            try:
                place.write(path, data, replace=replace)
            except OSError as error:
                errors.append(error)
                continue
            written += 1
            if written == copies:
                return
        if not written:
            raise errors[-1]
        self._short |= written < min(copies, self.replicas)

    def sync(self) -> None:
        """Wait until all that was written is on the disks.

        Raises:
            OSError: if so many places are lost that a block may have no copy.
        """
        errors = []
        for place in self.places:
            try:
                place.sync()
            except OSError as error:
                errors.append(error)
        if errors and (self._short or len(errors) >= self.replicas):
            raise errors[-1]
        if errors or self._short:
            warnings.warn(
                "blocks have fewer copies than they should: a place is lost, or full; "
                "scrub the store when it is back",
                stacklevel=3,
            )

    def block(self, block: Block) -> Any:
        """The bytes of a block, compared with its digest; damaged copies are mended on the way.

        Raises:
            DamagedError: if no copy is what was written.
        """
        data, damaged = self._copy(block)
        if data is not None:
            for other in damaged if self.mends else ():
                self._mended(other, block, data)
            return data
        where = ", ".join(f"{place.address}/{block.path}" for place in damaged)
        raise DamagedError(
            f"a block is {'damaged' if damaged else 'gone'}: {where or block.path}",
            got="another digest than its name" if damaged else "no place has it",
            hint="it holds " + ("; ".join(self.uses({block.digest})[block.digest]) or "nothing"),
        )

    def _copy(self, block: Block) -> tuple[Any, list[Place]]:
        """The bytes of a whole copy, or None, and the places of damaged ones met before it."""
        damaged: list[Place] = []
        for place in self.ranked(block.digest):
            try:
                data = place.read(block.path)
            except OSError:
                continue
            if len(data) == block.size_bytes and digest(data) == block.digest:
                return data, damaged
            damaged.append(place)
        return None, damaged

    def _mended(self, place: Place, block: Block, data: Any) -> None:
        uses = "; ".join(self.uses({block.digest})[block.digest])
        warnings.warn(f"{place.address}/{block.path} was damaged: {uses}", stacklevel=4)
        with suppress(OSError):  # the disk may take no more; another copy is whole
            place.write(block.path, data, replace=True)

    def uses(self, digests: set[str]) -> dict[str, list[str]]:
        """The contents of blocks: names, arrays, and bytes of their parts, as people read them."""
        found: dict[str, list[str]] = {name: [] for name in digests}
        for name, ref in self.refs(broken=set()):
            assert ref.tree is not None
            if ref.tree.digest in found:
                found[ref.tree.digest].append(f"{name}: its tree")
            data, _ = self._copy(ref.tree)
            try:
                tree = decode(data or b"")
            except DamagedError:
                continue
            for array, leaf in tree.arrays.items():
                for part in leaf.parts:
                    at = -part.offset
                    size = prod(part.shape) * leaf.numpy_dtype.itemsize
                    for block in part.blocks:
                        if block.digest in found:
                            begin, end = max(at, 0), min(at + block.size_bytes, size)
                            where = f"{array}{[*part.start] if any(part.start) else ''}"
                            found[block.digest].append(f"{name}: {where} bytes {begin:,}:{end:,}")
                        at += block.size_bytes
        return found

    # Arrays.

    def put(
        self, name: str, arrays: Mapping[str, Any], *, metadata: Mapping[str, str] | None = None
    ) -> str:
        """Writes arrays, and lets a name refer to them once all are on the disk.

        Args:
            name: parts of letters, digits, and ``_ . -``, between slashes.
            arrays: by name.
            metadata: texts to store with them.

        Returns:
            The digest of the tree.

        Raises:
            ArgumentError: for an array of a dtype that is not stored, or a wrong name.
            OSError: if the system refuses; then the name refers to what it did.
        """
        data = {key: safetensors.checked(key, x) for key, x in arrays.items()}
        with self.writing():
            extents = self.put_data(np.ascontiguousarray(x) for x in data.values())
            leaves = {
                key: Leaf(
                    safetensors.NAMES[x.dtype],
                    x.shape,
                    ((),) * x.ndim,
                    (Part((0,) * x.ndim, x.shape, *extent),),
                )
                for (key, x), extent in zip(data.items(), extents, strict=True)
            }
            return self.put_tree(name, Tree(leaves, dict(metadata or {})))

    def put_data(self, data: Iterable[Data]) -> list[tuple[int, tuple[Block, ...]]]:
        """Writes the bytes of arrays; gives for each an offset and blocks, as of a `Part`."""
        offsets: list[int] = []
        blocks: list[list[Block]] = []

        def jobs() -> Iterator[tuple[list[int], Any]]:
            shared, members = bytearray(), list[int]()
            for i, x in enumerate(data):
                raw = x.reshape(-1).view(np.uint8)
                large = raw.size > min(SMALL_BYTES, self.block_bytes)
                if not large and len(shared) + raw.size > self.block_bytes:
                    yield members, shared
                    shared, members = bytearray(), []
                offsets.append(0 if large else len(shared))
                blocks.append([])
                if large:
                    for at in range(0, raw.size, self.block_bytes):
                        yield [i], raw[at : at + self.block_bytes]
                elif raw.size:
                    members.append(i)
                    shared += raw.data
                    shared += bytes(-len(shared) % ALIGNMENT_BYTES)
                else:
                    offsets[i] = 0
            if members:
                yield members, shared

        def job(members: list[int], raw: Any) -> tuple[list[int], Block]:
            return members, self.put_block(raw)

        for members, block in in_order(partial(job, *pair) for pair in jobs()):
            for i in members:
                blocks[i].append(block)
        return [(at, tuple(found)) for at, found in zip(offsets, blocks, strict=True)]

    def put_tree(self, name: str, tree: Tree) -> str:
        """Writes a tree whose blocks are written, and lets a name refer to it.

        Raises:
            OSError: if the system refuses; then the name refers to what it did.
        """
        block = self.put_block(encode(tree))
        self.sync()
        self._set(name, block)
        return block.digest

    def get(self, name: str) -> dict[str, Data]:
        """Reads the arrays that a name refers to; all bytes are compared with their digests.

        Raises:
            StateError: if there is no such name.
            DamagedError: if a block has no copy that is whole.
        """
        found = {}
        for key, leaf in self.tree(name).arrays.items():
            out = found[key] = np.empty(leaf.shape, leaf.numpy_dtype)
            for part in leaf.parts:
                at = tuple([slice(a, a + n) for a, n in zip(part.start, part.shape, strict=True)])
                whole = out if len(leaf.parts) == 1 else np.empty(part.shape, out.dtype)
                self.read(part, 0, whole.reshape(-1).view(np.uint8))
                if whole is not out:
                    out[at] = whole
        return found

    def read(self, part: Part, begin: int, out: Data) -> None:
        """Fills memory with bytes of a part of an array, from one on.

        Raises:
            DamagedError: if a block has no copy that is whole.
        """
        at, end = -part.offset - begin, out.size
        wanted = []
        for block in part.blocks:
            low, high = max(at, 0), min(at + block.size_bytes, end)
            if low < high:
                wanted.append((block, low - at, low, high))
            at += block.size_bytes
        jobs = (partial(self._part, block, high - low) for block, _, low, high in wanted)
        for data, (_, first, low, high) in zip(in_order(jobs), wanted, strict=True):
            out[low:high] = np.frombuffer(data, np.uint8, high - low, first)

    def _part(self, block: Block, size: int) -> Any:
        """A block of which so much is needed: kept, if that is not all."""
        data = self._recent.get(block.digest)
        if data is None:
            data = self.block(block)
            if size < block.size_bytes:
                self._recent[block.digest] = data
                while len(self._recent) > RECENT_BLOCKS:
                    self._recent.popitem(last=False)
        return data

    # Names.

    def tree(self, name: str) -> Tree:
        """The tree that a name refers to.

        Raises:
            StateError: if there is no such name.
            DamagedError: if it is not what was written.
        """
        found = self.ref(name)
        if found is None or found.tree is None:
            raise StateError(
                f"the store has no {name}", got=", ".join(self.ls(limit=5)) or "none", hint="see ls"
            )
        return self._decoded(found.tree)

    def _decoded(self, block: Block) -> Tree:
        return decode(self._part(block, 0), f"the tree {block.digest[:16]}")

    def ref(self, name: str, *, strict: bool = False) -> Ref | None:
        """The record of a name: the newest of its copies; None if there is none.

        Args:
            name: the name.
            strict: whether all places that may have a copy must answer.

        Raises:
            DamagedError: if all copies are damaged.
            OSError: if a place does not answer, and `strict`.
        """
        newest = self._newest(name, strict)
        return None if newest is None or newest.tree is None else newest

    def _newest(self, name: str, strict: bool = False) -> Ref | None:
        """The newest record of a name, which may be that it was deleted."""
        path, found, broken = f"{REFS}/{name}", list[Ref](), list[tuple[Place, DamagedError]]()
        ranked = self.ranked(digest(name.encode()))
        for i, place in enumerate(ranked):
            if i >= max(self.replicas, REF_COPIES) and found and not strict:
                break
            try:
                found.append(Ref.decoded(place.read(path), f"{place.address}/{path}"))
            except DamagedError as error:
                broken.append((place, error))
            except FileNotFoundError:
                continue
            except OSError:
                if strict:
                    raise
        if broken and not found:
            raise broken[0][1]
        newest = max(found, key=lambda ref: ref.time_ns, default=None)
        if newest is not None:
            for place, reason in broken if self.mends else ():
                warnings.warn(f"{reason.what}; it is mended", stacklevel=3)
                with suppress(OSError):
                    place.write(path, newest.encoded(), replace=True)
        return newest

    def _set(self, name: str, tree: Block | None, pinned: bool | None = None) -> None:
        """Let a name refer to a tree, or to none; it stays pinned or not if `pinned` is None."""
        before = None
        with suppress(DamagedError):  # what it was is lost
            before = self._newest(name)
        now = time.time_ns()
        if before is not None:  # the clock of another host may be ahead
            now = max(now, before.time_ns + 1)
            pinned = before.pinned if pinned is None else pinned
        ref = Ref(tree, now, bool(pinned))
        key, copies = digest(name.encode()), max(self.replicas, REF_COPIES)
        self._spread(f"{REFS}/{name}", key, ref.encoded(), copies, replace=True)
        self.sync()

    def pin(self, name: str, pinned: bool = True) -> None:
        """Keeps a name from being deleted, or lets it be deleted again.

        Raises:
            StateError: if there is no such name.
        """
        found = self.ref(name)
        if found is None:
            raise StateError(f"the store has no {name}", hint="see ls")
        with self.writing():
            self._set(name, found.tree, pinned)

    def delete(self, name: str) -> None:
        """Deletes a name, if there is one; `gc` then deletes blocks to which none refers.

        Raises:
            StateError: if it is pinned.
        """
        try:
            found = self.ref(name)
            if found is None:
                return
            if found.pinned:
                raise StateError(f"{name} is pinned", hint="pin(name, False), or the command unpin")
        except DamagedError:
            pass  # it refers to nothing
        if len(self.places) == 1 and isinstance(self.places[0], Folder):
            self.places[0].delete(f"{REFS}/{name}")
            return
        with self.writing():  # a copy that is away now must not come back later
            self._set(name, None, False)

    def ls(self, prefix: str = "", *, after: str = "", limit: int | None = None) -> list[str]:
        """Names, in their order: those that begin so, after one, and not more than so many.

        Raises:
            ArgumentError: for a limit below 1.
        """
        if limit is not None:
            integer("ls", "limit", limit, 1)
        found: list[str] = []
        for name, _ in self.refs(prefix, after):
            if limit is not None and len(found) >= limit:
                break
            found.append(name)
        return found

    def refs(
        self,
        prefix: str = "",
        after: str = "",
        broken: set[str] | None = None,
        *,
        strict: bool = False,
        deleted: bool = False,
    ) -> Iterator[tuple[str, Ref]]:
        """Names and what they refer to, in the order of names.

        Args:
            prefix: of the names.
            after: a name that they follow.
            broken: gets names all of whose copies are damaged.
            strict: whether all places must answer, to the end.
            deleted: whether names that were deleted are among them.

        Raises:
            OSError: if no place can be asked, or one, and `strict`.
            DamagedError: for a damaged name, if there is no `broken`.
        """
        begin = f"{REFS}/{max(after, prefix[:-1])}"
        errors: list[OSError] = []

        def listed(place: Place) -> Iterator[Item]:
            try:
                yield from place.items(REFS, begin)
            except OSError as error:  # the others have copies
                errors.append(error)
                if strict or len(errors) == len(self.places):
                    raise

        last = ""
        for item in heapq.merge(*map(listed, self.places)):
            name = item.path.removeprefix(f"{REFS}/")
            if name > prefix and not name.startswith(prefix):
                break
            if name == last or not name.startswith(prefix) or name <= after:
                continue
            last = name
            try:
                ref = self._newest(name, strict)
            except DamagedError:
                if broken is None:
                    raise
                broken.add(name)
                continue
            if ref is not None and (deleted or ref.tree is not None):
                yield name, ref


def in_order(jobs: Iterable[Callable[[], T]], ahead: int = AHEAD) -> Iterator[T]:
    """The results of functions, of which some run beside each other, on threads.

    Example:
        >>> [*in_order(partial(pow, 2, n) for n in range(4))]
        [1, 2, 4, 8]
    """
    running: deque[Background[T]] = deque()
    for job in jobs:
        if len(running) == ahead:
            yield running.popleft().result()
        running.append(Background(job))
    while running:
        yield running.popleft().result()


def located(path: PathLike) -> tuple[str, str] | None:
    """The folder of the store that a path leads into, and the name there; None of another path.

    Example:
        >>> _ = Store("/tmp/tfn-example-store")
        >>> located("/tmp/tfn-example-store/run/step-3")
        ('/tmp/tfn-example-store', 'run/step-3')
    """
    path = Path(os.path.abspath(path))
    for folder in (path, *path.parents):
        if (folder / CONFIG).is_file():
            name = path.relative_to(folder).as_posix()
            return str(folder), "" if name == "." else name
    return None
