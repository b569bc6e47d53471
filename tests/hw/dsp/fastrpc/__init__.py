"""Tests of `tfn.hw.dsp.fastrpc`."""
