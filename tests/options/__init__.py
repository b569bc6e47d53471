"""Every keyword of every public function, at odd values, against NumPy, SciPy or recorded JAX."""
