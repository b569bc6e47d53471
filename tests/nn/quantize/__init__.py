"""Quantized networks: tests file by file."""
