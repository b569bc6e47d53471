"""Parts of tfn for what extends it from outside: devices, formats, frontends, tools.

Programs need the public functions only.  Parts outside of the core import these and the names
below, never each other's files; what is named in neither may change with any release.

- The language: `Op`, `UOp`, `Shape`, `const`, `walk`, `mapped`, `param`, `function`, `Jaxpr`;
  `build` makes nodes with their types, `argument` has the records of ops, `form` the parts of loops
  and branches, `plain` a function without calls and derivatives of its own.
- Functions: `Jitted` traces and compiles; `ShapeDtypeStruct`, `name_of`, `as_value`, `custom_jvp`,
  `vjp`.
- Operands of functions of arrays: `array_of`, `together`, `inexact`; `concrete` is the array of a
  `Buffer`; messages about arguments: `a_function`, `element_type`, `integer`, `one_of`, `rank`,
  `several`, `shown`, `unfit`.
- The compiler: `pipeline` lowers a function for a `Target`, which may have a `Grid`.  A `Language`
  is what a machine brings: renderers, legal ops, and `Passes`, of which each is a `Pass`; those of
  processors are `CORES`, those of groups of threads in `grids`.  `passes_of` finds them, and
  `no_driver` says that the host runs the steps.  `LANGUAGES` has a row for each architecture.
- Devices: `device` finds one.  `Device` has five parts, of which `Compiler`, `Memory` and `Queue`
  are protocols, as are
  `Executable`, `KernelTimer` and `Learn`; `Buffer` and `HostMemory` are those of the host, `Counts`
  says where objects came from, `no_entry` and `no_share` are for what a device lacks.  A `Program`
  has `Kernel` records; `record` writes its steps out for a queue.  `MAKERS` has a row for each
  device.
- Records and files: `frozen`, `mutable`, `on_demand`, `PathLike`, `replacing`, `parsing`.

Example:
    >>> from tfn import dtypes
    >>> from tfn.extend import argument, param, walk
    >>> x = param(argument.Param(0, (3,), dtypes.FLOAT32))
    >>> [u.op.value for u in walk([x * x])]
    ['param', 'mul']
"""

from tfn._support.lazy import on_demand as on_demand

with on_demand(globals()):
    from tfn._support.files import PathLike as PathLike
    from tfn._support.files import parsing as parsing
    from tfn._support.files import replacing as replacing
    from tfn._support.frozen import frozen as frozen
    from tfn._support.frozen import mutable as mutable
    from tfn._support.validate import a_function as a_function
    from tfn._support.validate import element_type as element_type
    from tfn._support.validate import integer as integer
    from tfn._support.validate import one_of as one_of
    from tfn._support.validate import rank as rank
    from tfn._support.validate import several as several
    from tfn._support.validate import shown as shown
    from tfn._support.validate import unfit as unfit
    from tfn.eager.arrays import concrete as concrete
    from tfn.eager.operands import array_of as array_of
    from tfn.eager.operands import inexact as inexact
    from tfn.eager.operands import together as together
    from tfn.eager.platforms import MAKERS as MAKERS
    from tfn.eager.registry import device as device
    from tfn.hw.buffer import Buffer as Buffer
    from tfn.hw.commands import record as record
    from tfn.hw.compile.object_cache import Counts as Counts
    from tfn.hw.device import Compiler as Compiler
    from tfn.hw.device import Device as Device
    from tfn.hw.device import Executable as Executable
    from tfn.hw.device import KernelTimer as KernelTimer
    from tfn.hw.device import Learn as Learn
    from tfn.hw.device import Memory as Memory
    from tfn.hw.device import Queue as Queue
    from tfn.hw.device import no_entry as no_entry
    from tfn.hw.device import no_share as no_share
    from tfn.hw.memory import HostMemory as HostMemory
    from tfn.lower import grids as grids
    from tfn.lower import pipeline as pipeline
    from tfn.lower.languages import LANGUAGES as LANGUAGES
    from tfn.lower.languages import Language as Language
    from tfn.lower.languages import no_driver as no_driver
    from tfn.lower.languages import passes_of as passes_of
    from tfn.lower.passes import CORES as CORES
    from tfn.lower.passes import Pass as Pass
    from tfn.lower.passes import Passes as Passes
    from tfn.lower.program import Kernel as Kernel
    from tfn.lower.program import Program as Program
    from tfn.lower.target.grid import Grid as Grid
    from tfn.lower.target.target import Target as Target
    from tfn.trace import argument as argument
    from tfn.trace import build as build
    from tfn.trace.inline import plain as plain
    from tfn.trace.jaxpr import Jaxpr as Jaxpr
    from tfn.trace.jaxpr import function as function
    from tfn.trace.jaxpr import param as param
    from tfn.trace.op import Op as Op
    from tfn.trace.op import Shape as Shape
    from tfn.trace.regions import form as form
    from tfn.trace.uop import UOp as UOp
    from tfn.trace.uop import const as const
    from tfn.trace.uop import mapped as mapped
    from tfn.trace.uop import walk as walk
    from tfn.transforms.arguments import as_value as as_value
    from tfn.transforms.arguments import name_of as name_of
    from tfn.transforms.custom_jvp import custom_jvp as custom_jvp
    from tfn.transforms.jit import Jitted as Jitted
    from tfn.transforms.linearize import vjp as vjp
    from tfn.transforms.shapes import ShapeDtypeStruct as ShapeDtypeStruct
