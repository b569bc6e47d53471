"""Job: steps that are saved, until one process does what FOLDER/how says, once.

job_steps.py FOLDER STEPS AT
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import tfn
from tfn import numpy as tnp
from tfn.nn.checkpoint import Checkpoints, manifest
from tfn.sharding import NamedSharding
from tfn.sharding import PartitionSpec as P

SIGNALS = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP}


def fill(folder: Path) -> None:
    """Take all room of the disk."""
    with open(folder / "filler", "wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 16))


def act(folder: Path) -> None:
    """What goes wrong, once: in the last process, or in the first, which writes manifests."""
    how = folder / "how"
    text = how.read_text() if how.exists() else ""
    actor = 0 if text in ("between", "full") else tfn.process_count() - 1
    if text == "computes" and tfn.process_index() != actor:
        time.sleep(60)
    if not text or tfn.process_index() != actor:
        return
    (folder / "hit").write_text(repr(time.time()))
    how.unlink()
    if text == "computes":  # the others send no message, and are far from their deadline
        os.kill(os.getpid(), signal.SIGKILL)
    if text == "raises":
        raise ValueError("a mistake of the user")
    if text == "between":  # parts are written, and then the manifest would be
        manifest.write = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    elif text == "full":
        fill(folder / "saved")
    elif text == "link":
        subprocess.run(["ip", "link", "set", "eth0", "down"], check=True)
    else:
        os.kill(os.getpid(), SIGNALS[text])


def early(folder: Path) -> None:
    """Die before the others are joined, once."""
    how = folder / "how"
    last = os.environ.get("OMPI_COMM_WORLD_RANK") == "1"
    if last and how.exists() and how.read_text() == "early":
        (folder / "hit").write_text(repr(time.time()))
        how.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Run the steps."""
    folder, steps, at = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    early(folder)
    tfn.distributed.initialize()
    mesh = tfn.make_mesh((len(tfn.devices()),), ("d",))
    x = tfn.device_put(np.linspace(0, 1, 64, dtype="float32"), NamedSharding(mesh, P("d")))
    step: Any = tfn.jit(lambda x: tnp.sin(x) + 0.01 * x.sum())
    with Checkpoints(folder / "saved") as checkpoints:
        done, x = checkpoints.resume(x)
        begin = done
        while done < steps:
            tfn.distributed.progress(done, begin)
            if done == at:
                act(folder)
            x = step(x)
            done += 1
            if begin and done == begin + 1 and tfn.process_index() == 0:
                seconds = time.time() - float((folder / "hit").read_text())
                print(f"stepping again after {seconds:.3f} s", flush=True)
            if done % 5 == 0:
                checkpoints.save(done, x)
    found = tfn.distributed.process_allgather(x)
    if tfn.process_index() == 0:
        print("result", found.tobytes().hex(), flush=True)


if __name__ == "__main__":
    main()
