"""tfn: composable transforms of array functions, with a compiler that a person can read."""

import importlib as _importlib
from typing import Any as _Any

from tfn import array as _array
from tfn import debug as debug
from tfn import dtypes as dtypes
from tfn import errors as errors
from tfn import lax as lax
from tfn import numpy as numpy
from tfn import random as random
from tfn import run as run
from tfn import tree as tree
from tfn.array import Array as Array
from tfn.lower.kernel import Target as Target
from tfn.show import show as show
from tfn.trace import bind as _bind
from tfn.transfer import block_until_ready as block_until_ready
from tfn.transfer import device_get as device_get
from tfn.transfer import device_put as device_put
from tfn.transfer import effects_barrier as effects_barrier
from tfn.transforms import checkpoint_policies as checkpoint_policies
from tfn.transforms.call import call as call
from tfn.transforms.callback import io_callback as io_callback
from tfn.transforms.callback import pure_callback as pure_callback
from tfn.transforms.checkpoint import checkpoint as checkpoint
from tfn.transforms.checkpoint import checkpoint_name as checkpoint_name
from tfn.transforms.checkpoint import remat as remat
from tfn.transforms.closure import closure_convert as closure_convert
from tfn.transforms.closure import custom_gradient as custom_gradient
from tfn.transforms.forward import custom_jvp as custom_jvp
from tfn.transforms.grad import grad as grad
from tfn.transforms.grad import stop_gradient as stop_gradient
from tfn.transforms.grad import value_and_grad as value_and_grad
from tfn.transforms.jacobian import hessian as hessian
from tfn.transforms.jacobian import jacfwd as jacfwd
from tfn.transforms.jacobian import jacrev as jacrev
from tfn.transforms.jit import jit as jit
from tfn.transforms.linearize import jvp as jvp
from tfn.transforms.linearize import linear_transpose as linear_transpose
from tfn.transforms.linearize import linearize as linearize
from tfn.transforms.linearize import vjp as vjp
from tfn.transforms.reverse import custom_vjp as custom_vjp
from tfn.transforms.shapes import ShapeDtypeStruct as ShapeDtypeStruct
from tfn.transforms.stage import eval_shape as eval_shape
from tfn.transforms.stage import make_jaxpr as make_jaxpr
from tfn.transforms.vmap import vmap as vmap

errors.hide_frames()
_bind.plug(run.Runner())
_array.plug(numpy)
dtypes.plug(numpy.asarray)

_ON_DEMAND = ("checkify", "compat", "custom_derivatives", "flatten_util", "nn", "ops", "scipy",
              "tree_util")  # fmt: skip
"""Modules that are imported when they are first asked for."""
_FUNCTIONS = {
    "export": "tfn.exporting.door",
    "kernel": "tfn.kernels",
    "load": "tfn.exporting.load",
    "verify": "tfn.exporting.verify",
    "tune": "tfn.tuning",
}
"""Functions whose modules are."""


def __getattr__(name: str) -> _Any:
    if name in _ON_DEMAND:
        return _importlib.import_module(f"tfn.{name}")
    if name in _FUNCTIONS:
        return getattr(_importlib.import_module(_FUNCTIONS[name]), name)
    raise AttributeError(f"module 'tfn' has no attribute {name!r}")
