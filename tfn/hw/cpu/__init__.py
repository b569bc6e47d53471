"""This machine's cores.

In reading order:
    target: what the machine is.
    compiler_rt: conversions that a CPU may lack; float16.ll, bfloat16.ll.
    loader: objects to addresses.
    denormals: kept, or flushed to zero.
    ir: the text of `.ll` files, with their holes filled.
    thread_pool: the native part of the thread pool; thread_pool.ll, thread_choice.ll,
        sleep_futex.ll, sleep_poll.ll.
    threads: the workers.
    kernel_timer: kernels timed in another process.
    native: layouts that native code and Python share; buffers.ll, pytrees.ll,
        entry.ll, operators.ll, operator_slot.ll, guard_hooks.ll.
    interpreter: the Python/C API: builtins and types of native code.
    pool: the native memory pool.
    clock: ticks of the processor's counter as nanoseconds.
    call_log: the ring of native calls, for the profiler.
    kernel_log: the ring of the times of kernels, which drivers write.
    use_log: the ring of the uses of buffers, which is on while a trace records.
    operators: operators of arrays, from the slots of their type to entries.
    dispatch: the entries of programs, builtins that run them on a user's arguments.
    callbacks: functions of the host, called from within a program.
    batched_call: a loop of calls of a C function.
    queue: programs ready to run.
    exchange: tables of steps over memory that processes share; exchange.ll.
    device: the five parts together.
"""

from tfn._support.lazy import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.hw.cpu import kernel_timer as kernel_timer
