"""tfn: composable transforms of array functions, with a compiler that a person can read."""

import tfn as _tfn  # names of the block below are loaded through the module
from tfn import array as _array
from tfn import at as _at
from tfn import dtypes as dtypes
from tfn import errors as errors
from tfn import numpy as numpy
from tfn._support.lazy import on_demand as _on_demand
from tfn.array import Array as Array
from tfn.trace import runtime as _runtime

with _on_demand(globals()):
    from tfn import checkify as checkify
    from tfn import compat as compat
    from tfn import custom_batching as custom_batching
    from tfn import custom_derivatives as custom_derivatives
    from tfn import debug as debug
    from tfn import distributed as distributed
    from tfn import experimental as experimental
    from tfn import extend as extend
    from tfn import flatten_util as flatten_util
    from tfn import image as image
    from tfn import inspect as inspect
    from tfn import lax as lax
    from tfn import llm as llm
    from tfn import nn as nn
    from tfn import onnx as onnx
    from tfn import ops as ops
    from tfn import profiler as profiler
    from tfn import random as random
    from tfn import scipy as scipy
    from tfn import scopes as scopes
    from tfn import sharding as sharding
    from tfn import torch as torch
    from tfn import tree as tree
    from tfn import tree_util as tree_util
    from tfn.buckets import Buckets as Buckets
    from tfn.eager import run as run
    from tfn.eager import shards as _shards  # noqa: F401  # installed below
    from tfn.eager import transfer as _transfer  # noqa: F401
    from tfn.eager.device_memory import live_arrays as live_arrays
    from tfn.eager.devices import default_backend as default_backend
    from tfn.eager.devices import default_device as default_device
    from tfn.eager.devices import device_count as device_count
    from tfn.eager.devices import devices as devices
    from tfn.eager.devices import local_device_count as local_device_count
    from tfn.eager.devices import local_devices as local_devices
    from tfn.eager.devices import make_mesh as make_mesh
    from tfn.eager.devices import process_count as process_count
    from tfn.eager.devices import process_index as process_index
    from tfn.eager.devices import process_indices as process_indices
    from tfn.eager.run import clear_caches as clear_caches
    from tfn.eager.shards import Shard as Shard
    from tfn.eager.shards import make_array_from_callback as make_array_from_callback
    from tfn.eager.shards import (
        make_array_from_process_local_data as make_array_from_process_local_data,
    )
    from tfn.eager.shards import (
        make_array_from_single_device_arrays as make_array_from_single_device_arrays,
    )
    from tfn.eager.transfer import block_until_ready as block_until_ready
    from tfn.eager.transfer import device_get as device_get
    from tfn.eager.transfer import device_put as device_put
    from tfn.eager.transfer import effects_barrier as effects_barrier
    from tfn.eager.transfer import reshard as reshard
    from tfn.exporting.api import export as export
    from tfn.exporting.load import load as load
    from tfn.hw.cpu.denormals import flush_denormals as flush_denormals
    from tfn.inspect.show import show as show
    from tfn.inspect.tune import tune as tune
    from tfn.inspect.verify import verify as verify
    from tfn.inspect.viewer.view import view as view
    from tfn.kernels import kernel as kernel
    from tfn.lax import bits as _bits  # noqa: F401
    from tfn.lax import updates as _updates  # noqa: F401
    from tfn.lower.target.target import Target as Target
    from tfn.scopes import named_scope as named_scope
    from tfn.sharding import typeof as typeof
    from tfn.trace.mesh import Device as Device
    from tfn.trace.mesh import get_abstract_mesh as get_abstract_mesh
    from tfn.trace.mesh import get_mesh as get_mesh
    from tfn.trace.mesh import set_mesh as set_mesh
    from tfn.trace.named_sharding import NamedSharding as NamedSharding
    from tfn.trace.named_sharding import P as P
    from tfn.trace.refs import Ref as Ref
    from tfn.trace.refs import freeze as freeze
    from tfn.trace.refs import new_ref as new_ref
    from tfn.transforms import checkpoint_policies as checkpoint_policies
    from tfn.transforms.call import call as call
    from tfn.transforms.callback import io_callback as io_callback
    from tfn.transforms.callback import pure_callback as pure_callback
    from tfn.transforms.checkpoint import checkpoint as checkpoint
    from tfn.transforms.checkpoint import checkpoint_name as checkpoint_name
    from tfn.transforms.checkpoint import remat as remat
    from tfn.transforms.closure import closure_convert as closure_convert
    from tfn.transforms.closure import custom_gradient as custom_gradient
    from tfn.transforms.custom_jvp import custom_jvp as custom_jvp
    from tfn.transforms.custom_vjp import custom_vjp as custom_vjp
    from tfn.transforms.disable import disable_jit as disable_jit
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
    from tfn.transforms.make_jaxpr import eval_shape as eval_shape
    from tfn.transforms.make_jaxpr import make_jaxpr as make_jaxpr
    from tfn.transforms.shapes import ShapeDtypeStruct as ShapeDtypeStruct
    from tfn.transforms.shard.pmap import pmap as pmap
    from tfn.transforms.shard.shard_map import shard_map as shard_map
    from tfn.transforms.vmap import vmap as vmap
    from tfn.version import __version__ as __version__

errors.hide_frames()
_runtime.install(
    lambda: _tfn.run,
    lambda jaxpr, kinds: _tfn.inspect.show.view(jaxpr, None, kinds),
    lambda: _tfn._transfer,
)
_array.install(numpy, lambda: _tfn._shards, lambda: _tfn._bits)
_at.install(lambda: _tfn._updates)
dtypes.install(lambda value, dtype: numpy.asarray(value, dtype))
