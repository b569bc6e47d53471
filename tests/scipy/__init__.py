"""Functions in the manner of SciPy, held against SciPy."""
