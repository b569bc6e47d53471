"""Tests of tfn.hw.opencl: they run on any OpenCL device, of which pocl is one."""
