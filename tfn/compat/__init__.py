"""Libraries written on JAX's public names, run on tfn unmodified.

Files in reading order:
    settings         JAX's settings, types of values, and `jit` with options without a meaning here
    mesh_utils       devices arranged for a mesh, by hosts
    multihost_utils  agreement of processes, of which there is one
    names            the table: each module of JAX, and the modules of tfn that have its names
    install          `install_as_jax`: modules made from the table, which ``import jax`` returns
"""

from tfn.compat.install import install_as_jax as install_as_jax
