"""A network in a package of Python and in one of Rust: both give the numbers of tfn."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import network_in_packages
import numpy as np
import pytest

from tfn import numpy as jnp

X = ("0.1", "-2", "0.3", "4")
CARGO = shutil.which("cargo") or shutil.which("cargo", path=Path.home() / ".cargo/bin")


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packages")
    assert network_in_packages.main(["--folder", str(folder)]) == 0
    return folder


def run(folder: Path, *command: str, **environment: str) -> str:
    ended = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended.stdout


def expect_probabilities(text: str) -> None:
    x = jnp.array([float(x) for x in X])
    expected = network_in_packages.probabilities(network_in_packages.drawn(), x)
    np.testing.assert_allclose([float(p) for p in text.split()], expected, atol=1e-6)


def test_the_package_of_python_holds_all_that_it_needs(packages: Path) -> None:
    """What its build puts into a wheel runs where no installed package can be imported."""
    pytest.importorskip("setuptools", reason="setuptools, which builds the package, is missing")
    built = packages / "installed"
    run(packages / "python", sys.executable, "setup.py", "-q", "build", f"--build-lib={built}")
    expect_probabilities(run(packages / "installed", sys.executable, "-S", "-m", "network", *X))


def test_the_package_of_python_names_a_wrong_number_of_features(packages: Path) -> None:
    source = "import network\ntry: network.probabilities([1])\nexcept ValueError as e: print(e)"
    text = run(packages / "python", sys.executable, "-S", "-c", source)
    assert text == "the network takes 4 features, got 1\n"


@pytest.mark.skipif(not CARGO, reason="cargo, of Rust, is not installed")
@pytest.mark.skipif(
    not (shutil.which("cc") and shutil.which("ar")), reason="there is no C compiler"
)
def test_the_crate_gives_the_same_numbers(packages: Path) -> None:
    crate = packages / "rust"
    search = f"{Path(str(CARGO)).parent}{os.pathsep}{os.environ['PATH']}"
    text = run(crate, str(CARGO), "run", "--quiet", "--offline", "--", *X, PATH=search)
    expect_probabilities(text)
