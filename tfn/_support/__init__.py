"""Python utilities without arrays in them, imported by every package; private.

Files in reading order:
    sections  fork-safe sections, for which a fork and the end of the process wait
    background  calls on threads of their own
    files     files written whole or not at all, and read with limits
    dlpack    export of memory to other libraries
    validate  checks of arguments, with errors that tell the cure
    events    event log of the process: traces, compilations, programs, callbacks
    cache     bounded caches that evict what was used least recently, within one limit for all
    frozen    dataclasses with slots whose methods are compiled at first use
    lazy      packages whose names are imported at first access
    members   enumerations with fast attribute access and hashing
"""
