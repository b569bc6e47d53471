"""`optax_runs.py` is a program: it imports what is there only in a process of its own."""

collect_ignore = ["optax_runs.py"]
