"""Geometry in space, in the manner of `scipy.spatial`.

distance   distances between the rows of matrices
transform  rotations as quaternions, and their interpolation
"""

from tfn.extend import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.scipy.spatial import distance as distance
    from tfn.scipy.spatial import transform as transform
