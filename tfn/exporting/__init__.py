"""Export: functions as C, object files, libraries or WebAssembly; serialization of functions.

In reading order:
    api: `tfn.export`: writes files; its attributes serialize and deserialize functions.
    export: ahead-of-time compilation: traces, lowers and writes files.
    signature: calling convention: inputs and outputs as named fields; the manifest.
    header: the C header: the contract, in words and in types.
    source: C code generation: the program as one C file.
    module: LLVM IR generation: the program as one module, for objects, libraries and WebAssembly.
    load: `tfn.load`: loads a library and calls it from Python.
    symbolic_dims: symbolic dimensions: polynomials in symbols, and constraints on them.
    codec: canonical encoding of plain values as bytes.
    container: container format: magic number, version, digest; functions as rows.
    wellformed: validation of untrusted rows, before anything is built of them.
    portable: a closed function with its signature, independent of the process that traced it.
    generalize: interpolation of traces at several sizes by polynomials in the symbols.
    symbolic: shape-polymorphic functions, proved to fit for all sizes.
    serialize: portable functions to bytes and back.
"""
