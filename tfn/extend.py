"""Parts of tfn for what extends it from outside: devices, formats, frontends, tools.

Programs need the public functions only.  Parts outside of the core import these and the names
below, never each other's files; what is named in neither may change with any release.

- The language: `Op`, `UOp`, `Shape`, `const`, `walk`, `param`, `Jaxpr`;
  `function` makes a Jaxpr, `close` and `inline` bind and unfold one, `print_jaxpr` writes it.
  `build` makes nodes with their types, `argument` has the records of ops, `regions` the parts of
  loops and branches (`form`), `plain` gives a function without calls and derivatives of its own.
  Ops of `SEVERAL` have several results.
- Tracing: `traces` has the running ones, `bind` records an op in them, `runtime` executes it,
  `run` is what executes; `tracing` runs a function, `source_lines` are those that made nodes.
- Functions: `Jitted` traces and compiles; `ShapeDtypeStruct`, `name_of`, `as_value`, `custom_jvp`;
  `by_forward_mode` has the same derivatives in each mode, also beside branches not taken;
  `wraps` copies names and docstrings, `Argnums` are numbers of arguments, `of_whole` undoes a mesh.
- Operands of functions of arrays: `operands`; `concrete` is the array of a `Buffer`.  Errors of
  arguments: `a_function`, `element_type`, `file_path`, `integer`, `one_of`, `rank`, `real_number`,
  `several`, `shown`, `size_limit`, `unfit`.
- The compiler: `pipeline` lowers a function for a `Target`, which may have a `Grid`.  A `Language`
  is what a machine brings: renderers, legal ops, and `Passes`, of which each is a `Pass`; those of
  processors are `CORES`, those of groups of threads in `grids`.  `passes_of` finds them, and
  `no_driver` says that the host runs the steps.  `LANGUAGES` has a row for each architecture.
  `host` is the processor of this machine, `requested` the one that was asked for; `LlvmCompiler`
  makes their objects, `read_ir` reads a file of LLVM IR.
- Programs: a `Program` has `Kernel` records, which a `Launch` runs on slots of a `Space`;
  `all_launches` finds these steps, `launch_runs` how often each runs.
- Devices: `device` finds one.  A `Device` has five parts, of which `Compiler`, `Memory` and `Queue`
  are protocols, as are `Executable`, `KernelTimer` and `Learn`; an `Entry` of an `EntryForm` runs a
  program natively.
  `Buffer` is that of the host; `memory` has its pool, and errors for those of others; `no_entry`
  and `no_share` are for what a device lacks.  `commands` writes the steps of a program out for a
  queue, `driven` is what devices have whose driver copies and launches, `object_cache` keeps
  objects on disk.  `MAKERS` has a row for each device; `platforms` says who drives one, `devices`
  lists them.
- Meshes and processes: an `Exchange` of a `Partition` over an `Axis` is a `Collective`; `processes`
  are those that run a program together, by a `Message` each time.
- Records and files: `frozen`, `mutable`, `section`, `on_demand`, `PathLike`, `replacing` and
  `parsing`; `events` is the log of the process.

Example:
    >>> from tfn import dtypes
    >>> from tfn.extend import argument, param, walk
    >>> x = param(argument.Param(0, (3,), dtypes.FLOAT32))
    >>> [u.op.value for u in walk([x * x])]
    ['param', 'mul']
"""

from tfn._support.lazy import on_demand as on_demand

with on_demand(globals()):
    from tfn._support import events as events
    from tfn._support.files import PathLike as PathLike
    from tfn._support.files import parsing as parsing
    from tfn._support.files import replacing as replacing
    from tfn._support.frozen import frozen as frozen
    from tfn._support.frozen import mutable as mutable
    from tfn._support.sections import section as section
    from tfn._support.validate import a_function as a_function
    from tfn._support.validate import element_type as element_type
    from tfn._support.validate import file_path as file_path
    from tfn._support.validate import integer as integer
    from tfn._support.validate import one_of as one_of
    from tfn._support.validate import rank as rank
    from tfn._support.validate import real_number as real_number
    from tfn._support.validate import several as several
    from tfn._support.validate import shown as shown
    from tfn._support.validate import size_limit as size_limit
    from tfn._support.validate import unfit as unfit
    from tfn.eager import devices as devices
    from tfn.eager import operands as operands
    from tfn.eager import platforms as platforms
    from tfn.eager import run as run
    from tfn.eager.arrays import concrete as concrete
    from tfn.eager.placement import of_whole as of_whole
    from tfn.eager.platforms import MAKERS as MAKERS
    from tfn.eager.registry import device as device
    from tfn.hw import commands as commands
    from tfn.hw import driven as driven
    from tfn.hw import memory as memory
    from tfn.hw.buffer import Buffer as Buffer
    from tfn.hw.compile import object_cache as object_cache
    from tfn.hw.compile.llvm import LlvmCompiler as LlvmCompiler
    from tfn.hw.cpu.ir import read_ir as read_ir
    from tfn.hw.cpu.target import host as host
    from tfn.hw.cpu.target import requested as requested
    from tfn.hw.device import Compiler as Compiler
    from tfn.hw.device import Device as Device
    from tfn.hw.device import Entry as Entry
    from tfn.hw.device import EntryForm as EntryForm
    from tfn.hw.device import Executable as Executable
    from tfn.hw.device import KernelTimer as KernelTimer
    from tfn.hw.device import Learn as Learn
    from tfn.hw.device import Memory as Memory
    from tfn.hw.device import Queue as Queue
    from tfn.hw.device import no_entry as no_entry
    from tfn.hw.device import no_share as no_share
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
    from tfn.lower.program import Launch as Launch
    from tfn.lower.program import Program as Program
    from tfn.lower.program import Space as Space
    from tfn.lower.program import all_launches as all_launches
    from tfn.lower.program import launch_runs as launch_runs
    from tfn.lower.target.grid import Grid as Grid
    from tfn.lower.target.target import Target as Target
    from tfn.numpy.forward_mode import by_forward_mode as by_forward_mode
    from tfn.trace import argument as argument
    from tfn.trace import bind as bind
    from tfn.trace import build as build
    from tfn.trace import regions as regions
    from tfn.trace import runtime as runtime
    from tfn.trace import source_lines as source_lines
    from tfn.trace import traces as traces
    from tfn.trace.inline import plain as plain
    from tfn.trace.jaxpr import Jaxpr as Jaxpr
    from tfn.trace.jaxpr import close as close
    from tfn.trace.jaxpr import function as function
    from tfn.trace.jaxpr import inline as inline
    from tfn.trace.jaxpr import param as param
    from tfn.trace.jaxpr import print_jaxpr as print_jaxpr
    from tfn.trace.op import SEVERAL as SEVERAL
    from tfn.trace.op import Op as Op
    from tfn.trace.op import Shape as Shape
    from tfn.trace.processes import Message as Message
    from tfn.trace.processes import processes as processes
    from tfn.trace.regions import form as form
    from tfn.trace.sharding import Axis as Axis
    from tfn.trace.sharding import Collective as Collective
    from tfn.trace.sharding import Exchange as Exchange
    from tfn.trace.sharding import Partition as Partition
    from tfn.trace.uop import UOp as UOp
    from tfn.trace.uop import const as const
    from tfn.trace.uop import walk as walk
    from tfn.transforms import tracing as tracing
    from tfn.transforms.arguments import Argnums as Argnums
    from tfn.transforms.arguments import as_value as as_value
    from tfn.transforms.arguments import name_of as name_of
    from tfn.transforms.arguments import wraps as wraps
    from tfn.transforms.custom_jvp import custom_jvp as custom_jvp
    from tfn.transforms.jit import Jitted as Jitted
    from tfn.transforms.shapes import ShapeDtypeStruct as ShapeDtypeStruct
