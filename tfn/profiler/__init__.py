"""Profiler: the time of every program, always on; traces, tables, and formats of other tools.

    print(tfn.profiler.latest())               programs, compilations, callbacks of the last while
    with tfn.profiler.trace("step.json"): ...  a file for ui.perfetto.dev
    print(tfn.profiler.kernels(step, *args))   each kernel beside the limits of the machine
    python -m tfn.profiler run train.py        a script, and then its table

Files in reading order:
    profile       events of a while: the latest ones, or those of a block; annotations
    kernel_events events of kernels with the names that people know
    buffers       makers and last readers of the buffers of a trace
    units         times and sizes in the units that people read them in
    tables        profiles as tables for terminals, and as HTML for notebooks
    clocks        traces of several processes as one, on one clock
    export        profiles as Chrome and Perfetto traces, speedscope profiles and CSV
    pprof         profiles as protocol buffers of pprof
    kernel_times  kernels of a program, timed one by one, and what the machine could do
    __main__      `python -m tfn.profiler`: runs a script and prints its profile
"""

from tfn._support.events import Event as Event
from tfn._support.events import enable as enable
from tfn.extend import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.profiler.buffers import BufferLife as BufferLife
    from tfn.profiler.clocks import merge as merge
    from tfn.profiler.kernel_times import kernels as kernels
    from tfn.profiler.profile import Profile as Profile
    from tfn.profiler.profile import StepTraceAnnotation as StepTraceAnnotation
    from tfn.profiler.profile import TraceAnnotation as TraceAnnotation
    from tfn.profiler.profile import annotate as annotate
    from tfn.profiler.profile import annotate_function as annotate_function
    from tfn.profiler.profile import latest as latest
    from tfn.profiler.profile import start_trace as start_trace
    from tfn.profiler.profile import stop_trace as stop_trace
    from tfn.profiler.profile import trace as trace
