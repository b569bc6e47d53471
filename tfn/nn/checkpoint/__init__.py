"""Checkpoints of training runs, of any number of devices and processes.

Files in reading order:
    folder    the checkpoints of a run: save, resume, and which are kept
    steps     their files in a folder
    stored    their blocks in a store
    pieces    which process writes which part of which array
    files     files of pieces: written, read back, read in part
    manifest  where all pieces are, their digests, and what else is known, as data
    restore   trees from checkpoints, on any mesh
    workers   pieces of workers, which a controller tells to write and read them
    writer    the thread that writes while the run goes on
    convert   checkpoints as single files, and of other numbers of files
    __main__  the command: ls, verify, convert
"""

# ruff: noqa: I001  (reading order)

from tfn.extend import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.nn.checkpoint.folder import Checkpoints as Checkpoints
    from tfn.nn.checkpoint.restore import load as load
    from tfn.nn.checkpoint.convert import to_checkpoint as to_checkpoint
    from tfn.nn.checkpoint.convert import to_file as to_file
    from tfn.nn.checkpoint.convert import verify as verify
    from tfn.nn.checkpoint.manifest import Manifest as Manifest
    from tfn.nn.checkpoint.stored import read as read
    from tfn.nn.checkpoint import workers as workers
