"""The DSP: its linker, its memory, its commands."""
