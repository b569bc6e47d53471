"""Libraries written on JAX's public names, run on tfn unmodified.

Files in reading order:
    onedevice  what JAX says of devices, shardings and settings, of a process with one device
    names      the table: each module of JAX, and where tfn has its names
    install    `install_as_jax`: the table becomes modules that ``import jax`` finds
"""

from tfn.compat.install import install_as_jax as install_as_jax
