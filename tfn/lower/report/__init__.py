"""Reports about compiled programs; nothing here changes one.

Files in reading order:
    print   pictures of each stage, as text
    cost    FLOPs and bytes of a function
    verify  proofs that every access is in bounds
"""
