"""The version of tfn; `pyproject.toml` reads it here."""

__version__ = "0.2.0"
