"""Geometry in space, in the manner of `scipy.spatial`.  The only file:

transform  rotations as quaternions, and their interpolation
"""

from tfn.extend import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.scipy.spatial import transform as transform
