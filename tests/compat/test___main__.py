"""Programs for JAX, run by ``python -m tfn.compat``."""

import subprocess
import sys


def run(*arguments, cwd=None):
    """The end of a process."""
    command = [sys.executable, "-m", "tfn.compat", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=120)


def test_programs_import_jax(tmp_path):
    (tmp_path / "beside.py").write_text("steps = 3\n")
    program = tmp_path / "train.py"
    program.write_text(
        "import sys, jax, jax.numpy as jnp, beside\n"
        "print(__name__, sys.argv[1:], jax.grad(jnp.sin)(0.0), beside.steps)\n"
    )
    done = run(str(program), "--steps", "2")
    assert done.stdout == "__main__ ['--steps', '2'] 1.0 3\n", done.stderr


def test_usage():
    done = run()
    assert done.returncode == 1 and "usage" in done.stderr
