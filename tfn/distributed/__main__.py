"""Command line: run a script in many processes, and again after a fault.

python -m tfn.distributed run -n 2 --devices 2 train.py --steps 100
python -m tfn.distributed run --hosts host1:CPU*4,host2:CPU*4 --spares host3:CPU*4 train.py
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tfn import config
from tfn.distributed.security import RANGE
from tfn.distributed.specification import parse
from tfn.distributed.supervisor import Plan, supervise
from tfn.errors import ArgumentError, DistributedError, HostSpecificationError, SecurityError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; its exit status, 2 for a command that is refused."""
    parser = argparse.ArgumentParser(prog="python -m tfn.distributed", description=__doc__)
    commands = parser.add_subparsers(required=True)
    run = commands.add_parser("run", help="run a script in many processes")
    run.add_argument("-n", "--processes", type=int, default=1, help="processes of this machine")
    run.add_argument("--devices", type=int, help="devices of each of them")
    run.add_argument("--hosts", help="hosts with their devices: host1:CPU*4,host2:CPU*4")
    run.add_argument("--spares", help="hosts that take the places of those that are lost")
    run.add_argument("--elastic", metavar="MIN,MAX", help="go on with so many hosts")
    run.add_argument("--restarts", type=int, default=3, help="how often to start again")
    run.add_argument("--deadline", type=float, default=300.0, help="seconds to wait for a message")
    run.add_argument("--launcher", default="", help="runs a command on a host, instead of ssh")
    run.add_argument("script")
    run.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help="its arguments")
    options = parser.parse_args(arguments)
    try:
        return supervise(_plan(options), lambda line: print(line, file=sys.stderr, flush=True))
    except (ArgumentError, HostSpecificationError, SecurityError) as error:
        print(error, file=sys.stderr)
        return 2
    except DistributedError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 75


def _plan(options: argparse.Namespace) -> Plan:
    elastic = None
    if options.elastic is not None:
        words = options.elastic.split(",")
        if len(words) != 2 or not all(word.isdecimal() for word in words):
            raise HostSpecificationError(
                "--elastic takes two numbers", got=options.elastic, hint="--elastic 2,4"
            )
        elastic = int(words[0]), int(words[1])
    return Plan(
        (options.script, *options.rest),
        parse(options.hosts) if options.hosts else (),
        options.processes,
        options.devices,
        parse(options.spares) if options.spares else (),
        elastic,
        options.restarts,
        options.deadline,
        options.launcher,
        config.launcher_variables([RANGE]).get(RANGE, ""),
    )


if __name__ == "__main__":
    sys.exit(main())
