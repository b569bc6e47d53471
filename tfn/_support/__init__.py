"""Python utilities without arrays in them, imported by every package; private.

Files in reading order:
    frozen   dataclasses with slots whose methods are compiled at first use
    lazy     packages whose names are imported at first access
    members  enumerations with fast attribute access and hashing
"""
