"""Tests of `tfn.lower.pack`."""
