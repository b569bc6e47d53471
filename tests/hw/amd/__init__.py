"""Tests of tfn.hw.amd: its machine code runs on the emulator; LLVM's tools read it."""
