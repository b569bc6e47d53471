"""Every keyword of public functions at odd values, against NumPy, SciPy, or recorded JAX, optax."""
