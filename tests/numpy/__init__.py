"""Tests of tfn.numpy, file by file."""
