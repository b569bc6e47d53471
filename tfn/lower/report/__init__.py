"""Reports about compiled programs; nothing here changes one.

Files in reading order:
    print   pretty-printers: the program at each stage, as text
    cost    FLOPs and bytes of a function
    verify  bounds proofs: every access and operand is within its memory
"""
