"""Libraries written on JAX's public names, run on tfn unmodified.

Files in reading order:
    onedevice  devices, shardings and settings of JAX, for a process with one device
    names      the table: each module of JAX, and the modules of tfn that have its names
    install    `install_as_jax`: modules made from the table, which ``import jax`` returns
"""

from tfn.compat.install import install_as_jax as install_as_jax
