"""Upkeep of a store: compare all copies with their digests, mend and move them, delete garbage.

Every copy of every block is read once.  Of a damaged one it is said which file it is, and the bytes
of which arrays it holds; it is written anew from a whole copy, where there is one.  Copies that are
missing where they belong are made, and those that belong elsewhere now are deleted after that, as
when a host has come or gone.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

import numpy as np

from tfn.errors import ArgumentError, DamagedError, StateError
from tfn.nn.store.folder import BLOCKS, REFS, Folder, Item, Place
from tfn.nn.store.hashing import digest
from tfn.nn.store.placement import U64
from tfn.nn.store.repository import REF_COPIES, Store
from tfn.nn.store.trees import Block, Ref, Tree

DAY_SECONDS = 86_400.0
"""Blocks that no name refers to are kept so long: another host may be about to name them."""

Progress = Callable[[int, int], None]
"""Called with the number of files done, and of their bytes."""


class Damage(NamedTuple):
    """A copy of a block, or of a name, that is not as it was written.

    Attributes:
        file: which one it is.
        what: "damaged", "missing", "old", as of a name on a host that was away, or "misplaced": a
            copy that belongs to other places now.
        holds: the names, the arrays and the bytes of their parts that are in it.
        mended: whether all is well again.
    """

    file: str
    what: str
    holds: tuple[str, ...]
    mended: bool


class Usage(NamedTuple):
    """The size of what a name refers to.

    Attributes:
        name: the name; empty for the store as a whole.
        size_bytes: of its arrays.
        stored_bytes: of its blocks, each once.
        own_bytes: of those blocks that no other name refers to.
    """

    name: str
    size_bytes: int
    stored_bytes: int
    own_bytes: int


def verify(store: Store, *, progress: Progress | None = None) -> list[Damage]:
    """Reads all copies of all blocks and names, and compares them with their digests.

    Args:
        store: the store.
        progress: called as the work goes on.

    Returns:
        What is damaged, or missing and referred to.

    Example:
        >>> import tempfile
        >>> store = Store(tempfile.mkdtemp())
        >>> _ = store.put("a", {"w": np.arange(99_000.0)})
        >>> w = next(block.path for block in store.tree("a").blocks())
        >>> _ = (store.folders()[0].root / w).write_bytes(b"other bytes")
        >>> [(damage.what, damage.holds) for damage in verify(store)]
        [('damaged', ('a: w bytes 0:792,000',))]
    """
    found = scrub(store, dry_run=True, progress=progress)
    return [damage for damage in found if damage.what != "misplaced"]


def scrub(store: Store, *, dry_run: bool = False, progress: Progress | None = None) -> list[Damage]:
    """Mends a store: damaged copies are written anew, missing ones made, misplaced ones moved.

    Args:
        store: the store; places that do not answer are left as they are.
        dry_run: whether nothing is written.
        progress: called as the work goes on.

    Returns:
        What was found, and whether it was mended.

    Example:
        >>> import tempfile
        >>> store = Store(tempfile.mkdtemp())
        >>> _ = store.put("a", {"w": np.zeros(9)})
        >>> wide = Store([*[p.address for p in store.places], tempfile.mkdtemp()], replicas=2)
        >>> {damage.what for damage in scrub(wide)}, scrub(wide)
        ({'missing'}, [])
    """
    before, store.mends = store.mends, False
    try:
        with store.writing():
            names = _names(store, dry_run)
            blocks = [*_blocks(store, dry_run, progress)]
            uses = store.uses({row[0] for row in blocks})
            if not dry_run:
                store.sync()
    finally:
        store.mends = before
    return names + [Damage(file, what, tuple(uses[x]), mended) for x, file, what, mended in blocks]


def _blocks(
    store: Store, dry_run: bool, progress: Progress | None
) -> Iterator[tuple[str, str, str, bool]]:
    """Digests, files, what is wrong with them, and whether they are mended."""
    done = size = 0
    seen = array("Q")
    for place, item in _items(store, BLOCKS):
        name, path = item.path[-64:], item.path
        done, size = done + 1, size + item.size_bytes
        if progress is not None:
            progress(done, size)
        seen.append(int(name[:16], 16))
        ranked = store.ranked(name)
        data = _read(place, path)
        if data is None:
            continue
        if digest(data) != name:
            copies = (_whole(other, path) for other in ranked if other is not place)
            data = next((copy for copy in copies if copy is not None), None)
            mended = data is not None and not dry_run and _write(place, path, data)
            yield name, f"{place.address}/{path}", "damaged", mended
        if data is None:
            continue
        homes = ranked[: store.replicas]
        lacking = [home for home in homes if home is not place and not _has(home, path)]
        if lacking and place is next(p for p in ranked if p is place or _has(p, path)):
            for home in lacking:  # the first of those that have it tells
                mended = not dry_run and _write(home, path, data)
                yield name, f"{home.address}/{path}", "missing", mended
        if place not in homes and all(_whole(home, path) is not None for home in homes):
            moved = isinstance(place, Folder) and not dry_run
            if isinstance(place, Folder) and not dry_run:
                place.delete(path)
            yield name, f"{place.address}/{path}", "misplaced", moved
    known, lost = np.unique(np.frombuffer(seen, np.uint64)), dict[str, str]()
    for _, tree, own in _trees(store, set()):
        blocks = own, *(tree.blocks() if tree else ())
        there = np.isin(_heads(blocks), known, kind="sort")
        lost |= {blocks[i].digest: blocks[i].path for i in np.flatnonzero(~there)}
    for name, path in lost.items():
        yield name, path, "missing", False


def _heads(blocks: Sequence[Block]) -> U64:
    """The first 64 bits of digests: all that memory holds of the blocks of a store."""
    return np.array([int(block.digest[:16], 16) for block in blocks], np.uint64)


def _items(store: Store, kind: str) -> Iterator[tuple[Place, Item]]:
    """All files of all places that answer."""
    for place in store.places:
        items = place.items(kind)
        with suppress(OSError):
            for item in items:
                yield place, item


def _read(place: Place, path: str) -> Any:
    """The bytes of a file; None where there is none, or no answer."""
    try:
        return place.read(path)
    except OSError:
        return None


def _whole(place: Place, path: str) -> Any:
    """The bytes of a block, if a place has them as they were written."""
    data = _read(place, path)
    return data if data is not None and digest(data) == path[-64:] else None


def _has(place: Place, path: str) -> bool:
    """Whether a place has a file; a damaged one is found when it is read."""
    if isinstance(place, Folder):
        return (place.root / path).exists()
    return _read(place, path) is not None


def _write(place: Place, path: str, data: Any) -> bool:
    try:
        place.write(path, data, replace=True)
    except OSError:
        return False
    return True


def _trees(
    store: Store, broken: set[str], prefix: str = "", *, strict: bool = False
) -> Iterator[tuple[str, Tree | None, Block]]:
    """Names, their trees, and the blocks of these; those that cannot be read are told."""
    for name, ref in store.refs(prefix, broken=broken, strict=strict):
        assert ref.tree is not None
        try:
            yield name, store.tree(name), ref.tree
        except StateError:
            broken.add(name)
            yield name, None, ref.tree


def _names(store: Store, dry_run: bool) -> list[Damage]:
    """Damaged copies of names, and those that are missing or old where they belong."""
    found: dict[str, Damage] = {}
    for place, item in _items(store, REFS):
        name = item.path.removeprefix(f"{REFS}/")
        if _ref(_read(place, item.path)) is None:
            copies = [_ref(_read(p, item.path)) for p in store.places if p is not place]
            newest = max(filter(None, copies), key=lambda ref: ref.time_ns, default=None)
            mended = newest is not None and not dry_run
            if newest is not None and not dry_run:
                mended = _write(place, item.path, newest.encoded())
            file = f"{place.address}/{item.path}"
            found[file] = Damage(file, "damaged", (name,), mended)
    for name, ref in store.refs(broken=set(), deleted=True):
        path = f"{REFS}/{name}"
        for place in store.ranked(digest(name.encode()))[: max(store.replicas, REF_COPIES)]:
            file, raw = f"{place.address}/{path}", _read(place, path)
            wanted = raw is not None or ref.tree is not None
            if wanted and raw != ref.encoded() and file not in found:
                mended = not dry_run and _write(place, path, ref.encoded())
                found[file] = Damage(file, "missing" if raw is None else "old", (name,), mended)
    return [*found.values()]


def _ref(raw: Any) -> Ref | None:
    try:
        return Ref.decoded(raw or b"")
    except DamagedError:
        return None


def gc(store: Store, *, age_seconds: float = DAY_SECONDS, dry_run: bool = False) -> tuple[int, int]:
    """Deletes blocks to which no name refers, from the folders of this host.

    Args:
        store: the store.
        age_seconds: younger ones are kept, since another host may be about to name them.
        dry_run: whether nothing is deleted.

    Returns:
        How many blocks, and how many bytes.

    Raises:
        ArgumentError: for an age below 0.
        StateError: if a run is saving, or a tree or a place cannot be read: what it refers to is
            not known.

    Example:
        >>> import tempfile
        >>> store = Store(tempfile.mkdtemp())
        >>> _ = store.put("a", {"w": np.zeros(9)})
        >>> store.delete("a")
        >>> gc(store), gc(store, age_seconds=0)
        ((0, 0), (2, 296))
    """
    if age_seconds < 0:
        raise ArgumentError(
            "garbage has an age", got=f"age_seconds={age_seconds}", hint="0 or more"
        )
    count = size = 0
    with ExitStack() as stack:
        for folder in store.folders():
            stack.enter_context(folder.lock(exclusive=True))
        used = _used(store)
        for folder in store.folders():
            for item in folder.items(BLOCKS):
                name = np.uint64(int(item.path[-64:][:16], 16))
                at = int(np.searchsorted(used, name))
                if at < len(used) and used[at] == name:
                    continue
                if item.used <= time.time() - age_seconds:
                    count, size = count + 1, size + item.size_bytes
                    if not dry_run:
                        folder.delete(item.path)
            if not dry_run:
                size += folder.sweep(age_seconds)
                if len(store.places) > 1:
                    _forget(store, folder, age_seconds)
    return count, size


def _forget(store: Store, folder: Folder, age_seconds: float) -> None:
    """Delete records that names were deleted, where no place has such a name any more."""
    for item in folder.items(REFS):
        old = item.used <= time.time() - age_seconds
        if old and all(_deleted(place, item.path) for place in store.places):
            folder.delete(item.path)


def _deleted(place: Place, path: str) -> bool:
    """Whether a place surely has no name, or a record that it was deleted."""
    try:
        ref = _ref(place.read(path))
    except OSError as error:
        return isinstance(error, FileNotFoundError)
    return ref is not None and ref.tree is None


def _used(store: Store) -> U64:
    """The first 64 bits of digests of blocks in use, in order: two that agree are both kept."""
    broken: set[str] = set()
    used = [np.zeros(0, np.uint64)]
    try:
        for _, tree, own in _trees(store, broken, strict=True):
            used.append(_heads([own, *(tree.blocks() if tree else ())]))
    except OSError as error:
        raise StateError(
            "a place cannot be asked for names", got=str(error), hint="it may have some"
        ) from error
    if broken:
        raise StateError(
            "trees that cannot be read may refer to any block",
            got=", ".join(sorted(broken)),
            hint="scrub the store, or delete these names",
        )
    return np.unique(np.concatenate(used))


def du(store: Store, prefix: str = "") -> list[Usage]:
    """The sizes of what names refer to, and of the store as a whole, which comes last.

    Args:
        store: the store.
        prefix: only names that begin so.

    Example:
        >>> import tempfile
        >>> store = Store(tempfile.mkdtemp())
        >>> for name in "ab":
        ...     _ = store.put(name, {"w": np.arange(9), "v": np.full(99_000, ord(name))})
        >>> [tuple(usage) for usage in du(store, "a")]
        [('a', 792072, 792128, 792128), ('', 792072, 792128, 792128)]
    """
    rows: list[Usage] = []
    owners: dict[str, int] = {}  # the number of the name, or -1 for several
    sizes: dict[str, int] = {}
    for name, tree, _ in _trees(store, set(), prefix):
        if tree is None:
            continue
        blocks = {*tree.blocks()}
        for block in blocks:
            owners[block.digest] = -1 if block.digest in owners else len(rows)
            sizes[block.digest] = block.size_bytes
        rows.append(Usage(name, tree.size_bytes, sum(b.size_bytes for b in blocks), 0))
    own = [0] * (len(rows) + 1)
    for name, row in owners.items():
        own[row] += sizes[name]
    rows = [row._replace(own_bytes=n) for row, n in zip(rows, own, strict=False)]
    total = sum(sizes.values())
    return [*rows, Usage("", sum(row.size_bytes for row in rows), total, total)]
