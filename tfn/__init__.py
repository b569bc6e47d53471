"""tfn: composable transforms of array functions, with a compiler that a person can read."""

from tfn import array as _array
from tfn import dtypes as dtypes
from tfn import lax as lax
from tfn import numpy as numpy
from tfn import random as random
from tfn import run as run
from tfn import tree as tree
from tfn.array import Array as Array
from tfn.trace import bind as _bind

_bind.plug(run.Runner())
_array.plug(numpy)
