"""Python utilities without arrays in them, imported by every package; private.

Files in reading order:
    sections  code that no other thread may be inside of when the process forks or ends
    files     files written whole or not at all, and read with limits
    validate  checks of arguments, with errors that tell the cure
    cache     bounded caches that evict what was used least recently, within one limit for all
    frozen    dataclasses with slots whose methods are compiled at first use
    lazy      packages whose names are imported at first access
    members   enumerations with fast attribute access and hashing
"""
