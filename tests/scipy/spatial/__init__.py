"""Geometry in space, held against SciPy."""
