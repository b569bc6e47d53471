"""tfn: composable transforms of array functions, with a compiler that a person can read."""

from tfn import run as run
from tfn.array import Array as Array
from tfn.trace import bind as _bind

_bind.plug(run.Runner())
