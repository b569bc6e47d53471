"""Export: functions as C, objects, libraries, WebAssembly or pages; serialization of functions.

In reading order:
    api: `tfn.export`: writes files; its attributes serialize and deserialize functions.
    export: ahead-of-time compilation: writes files.
    programs: a function is traced, lowered and proved, and becomes C or binary code.
    carry: a state that is kept from call to call.
    weights: layout: embedded weights as products read them.
    signature: calling convention: inputs and outputs as named fields; the manifest.
    header: the C header: the contract, in words and in types.
    source: C code generation: the program as one C file.
    microcontrollers: targets: 32-bit processors without a system.
    compilers: bytes of code and of the stack, as a compiler of the target makes them.
    figures: a table by layer: code, memory, stack, multiply-adds and cycles.
    folders: projects around C: a library of CMake, or of Arduino with a sketch.
    module: LLVM IR generation: the program as one module, for objects, libraries and WebAssembly.
    page: a module of JavaScript with its types, weights and WebAssembly.
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

from tfn.extend import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.exporting import generalize as generalize
    from tfn.exporting import symbolic_dims as symbolic_dims
    from tfn.exporting.portable import Input as Input
    from tfn.exporting.portable import Outline as Outline
    from tfn.exporting.portable import Portable as Portable
    from tfn.exporting.serialize import deserialize as deserialize
    from tfn.exporting.symbolic import Symbolic as Symbolic
    from tfn.exporting.symbolic import anyhow as anyhow
    from tfn.exporting.symbolic_dims import Numbers as Numbers
    from tfn.exporting.symbolic_dims import Polynomial as Polynomial
    from tfn.exporting.symbolic_dims import symbolic_shape as symbolic_shape
