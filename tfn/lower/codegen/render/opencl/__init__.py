"""OpenCL C renderer: kernels of a grid, as a dialect of the C renderer.

Files in reading order:
    kernel   a kernel's instructions as an OpenCL kernel, by the rows of C and three of its own
    prelude  types, and the words that a kernel uses
"""

from tfn._support.lazy import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.lower.codegen.render.opencl import kernel as kernel
