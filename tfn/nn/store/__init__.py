"""A content-addressed store: blocks named by digests, on the disks of one or many hosts.

A block is written once, by the first that has it; the tree of a name is replaced as a whole; all
that is read is compared with its digest, and mended from another copy if it differs.

    s/store.json                     which folders belong together
    s/blocks/ab/ab12...              at most 4 MiB, named by BLAKE3
    s/refs/run/step-000000300  ->    a tree: arrays, their dtypes, shapes and blocks

Files in reading order:
    hashing    BLAKE3 as array code, on any device
    folder     the files of one host: written whole, named by their content
    trees      arrays by name, and the blocks that hold them, as bytes with a digest
    remote     the files of another host, by HTTP
    server     a host's files for others, by HTTP
    placement  which hosts have which block
    repository arrays and names: put, get, ls, pin
    upkeep     verify, mend, collect garbage, measure
    dataset    rows of arrays, for batches
    __main__   the command: ls, du, pin, verify, scrub, gc, serve
"""

# ruff: noqa: I001  (reading order)

from tfn.extend import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.nn.store.hashing import blake3 as blake3
    from tfn.nn.store.hashing import digest as digest
    from tfn.nn.store.trees import Tree as Tree
    from tfn.nn.store.placement import ranking as ranking
    from tfn.nn.store.repository import Store as Store
    from tfn.nn.store.repository import located as located
    from tfn.nn.store.server import serve as serve
    from tfn.nn.store.upkeep import Damage as Damage
    from tfn.nn.store.upkeep import du as du
    from tfn.nn.store.upkeep import gc as gc
    from tfn.nn.store.upkeep import scrub as scrub
    from tfn.nn.store.upkeep import verify as verify
    from tfn.nn.store.dataset import Stored as Stored
