"""Tests of tfn.lower.codegen.render.opencl."""
