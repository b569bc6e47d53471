"""The face in the manner of NumPy, file by file."""
