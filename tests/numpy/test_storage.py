"""Arrays in NumPy's files, there and back."""

import io

import numpy as np

import tfn.numpy as tnp
from tests.numpy.values import close


def test_there_and_back(tmp_path):
    x = tnp.arange(6.0).reshape(2, 3)
    tnp.save(tmp_path / "x.npy", x)
    close(tnp.load(tmp_path / "x.npy"), x)
    close(np.load(tmp_path / "x.npy"), x)
    file = io.BytesIO()
    tnp.savez(file, x, y=x + 1)
    file.seek(0)
    found = tnp.load(file)
    close(found["arr_0"], x)
    close(found["y"], x + 1)
