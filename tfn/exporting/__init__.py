"""Programs for others: one function in C, an object, a library or WebAssembly, with a header.

In reading order:
    api: `tfn.export`: what writes files, and beside it what makes bytes.
    export: a function traced, lowered and written to files.
    verify: `tfn.verify`: every load and store is in bounds, by proof.
    signature: what the function takes and gives, by the names a caller uses.
    header: the contract in C, in words and in types.
    source: the same program as one C file.
    module: the same as one module of LLVM IR, for objects, libraries and WebAssembly.
    load: `tfn.load`: a library called from Python.
    symbolic_dims: sizes that are not known yet, and what constraints say of them.
    codec: plain values as canonical bytes.
    container: a head by which bytes are known to be whole, and functions as rows.
    wellformed: rows that others may have written, checked before anything is made of them.
    portable: a closed function with its signature, for other processes and machines.
    generalize: traces at several sizes, as one whose integers are polynomials.
    symbolic: one function for many sizes.
    serialize: portable functions as bytes, and back.
"""
