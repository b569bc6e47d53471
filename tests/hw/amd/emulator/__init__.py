"""Tests of the emulator of AMD's GPUs."""
