"""Rows: the tables of tfn, and the ops, dtypes and opt-ops that each must have a row for.

    DECOMPOSE has no row for ERFCX: add one in tfn/lower/math/decompose.py (a kernel has BASIC ops)

A table is total: a key that it needs has a row, or an excuse with a reason.  `make rows` checks
all of them in about a second, so it is the command to run after adding a member to `Op`.
"""

from __future__ import annotations

import enum
import inspect
import operator
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfn.numpy
from tests.covering import together
from tests.lower import grid_interpreter, random_indices, test_math
from tests.lower.index import test_folds, test_intervals
from tests.lower.loops import test_opt_ops
from tests.numpy import table as numpy_table
from tests.trace import test_oracle
from tests.transforms.cases import CASES
from tfn import dtypes
from tfn.buckets.mask import MASK
from tfn.dtypes import (
    ALL,
    BOOL,
    COMPLEX64,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INT32,
    INTEGERS,
    NARROW,
    NARROW_FLOATS,
    REALS,
    SHORT,
    DType,
)
from tfn.errors import TfnError
from tfn.exporting import codec, signature, wellformed
from tfn.hw.cpu.target import TARGETS
from tfn.hw.webgpu import wgsl
from tfn.lower.codegen.render import llvm, writer
from tfn.lower.codegen.render.c import kernel as c
from tfn.lower.codegen.render.c import values
from tfn.lower.codegen.sort import key_encoding
from tfn.lower.fuse.indexing import VALUE
from tfn.lower.graph import complex_pairs, narrow_types
from tfn.lower.index import folds, intervals
from tfn.lower.loops import grid_opt_ops, opt_ops
from tfn.lower.math.decompose import BASIC, DECOMPOSE, EMULATED, HALF_FLOATS
from tfn.lower.memory.schedule import REGIONS
from tfn.lower.report import cost
from tfn.lower.report.print import instructions, nest
from tfn.nn import safetensors
from tfn.onnx import rules as onnx_rules
from tfn.trace import (
    argument,
    loop_cleanup,
    oracle,
    primitives,
    regions,
    sharding,
)
from tfn.trace.argument import Param
from tfn.trace.axes import AXES
from tfn.trace.op import (
    BINARY,
    COMPARE,
    ELEMENTWISE,
    LOOPS,
    MANUAL,
    MONOIDS,
    MOVEMENT,
    PARTS,
    SEVERAL,
    UNARY,
    Op,
)
from tfn.trace.oracle import MEANING, apply
from tfn.trace.primitives import PRIMITIVES
from tfn.trace.spec import JAXPR_OPS, KERNELS_OPS, LINEAR_OPS, OPS, SPLIT_OPS
from tfn.trace.uop import UOp
from tfn.transforms import jvp, region_rules, runtime_checks
from tfn.transforms.batch import BATCH
from tfn.transforms.jvp import JVP
from tfn.transforms.shard import partition
from tfn.transforms.transpose import SEVERAL_RESULTS, TRANSPOSE

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Table:
    """A table, and the keys that it must have.

    Attributes:
        file: where a row is added.
        rows: the table.
        needed: the keys that must have a row.
        why: what a row is for, in a few words: it ends the message.
        excused: needed keys without a row, by the reason.
    """

    file: str
    rows: Collection[Any]
    needed: Collection[Any]
    why: str
    excused: Mapping[str, Collection[Any]] = field(default_factory=dict)

    def complaints(self, name: str) -> list[str]:
        """One line for each row that is missing, and for each row or excuse too many."""
        excused = {key for keys in self.excused.values() for key in keys}
        rows, needed = set(self.rows), set(self.needed)
        missing, surplus = needed - rows - excused, rows - needed
        stale = excused & rows | excused - needed
        return sorted(
            [
                f"{name} has no row for {called(key)}: add one in {self.file} ({self.why})"
                for key in missing
            ]
            + [
                f"{name} has a row for {called(key)}, which nothing needs: delete it in {self.file}"
                for key in surplus
            ]
            + [
                f"{name} needs no excuse for {called(key)}: delete it in tests/test_rows.py"
                for key in stale
            ]
        )


def called(key: Any) -> str:
    """A key as people write it: ``ERFCX``, ``float32``, ``Split``."""
    if isinstance(key, enum.Enum):
        return key.name
    return key.__name__ if isinstance(key, type) else str(key)


@cache
def accepted(dtype: DType) -> frozenset[Op]:
    """The elementwise ops that may have operands of a dtype, asked of the type rules."""
    x = UOp(Op.PARAM, (), Param(0, (2,), dtype))
    condition = UOp(Op.PARAM, (), Param(1, (2,), BOOL))
    found = set()
    operands = ((x,), (x, x), (x, x, x), (condition, x, x), (x,) * 4)
    for op, src in product(ELEMENTWISE & PRIMITIVES.keys(), operands):
        try:
            UOp(op, src, dtype if op in (Op.CAST, Op.BITCAST) else None)
        except (TfnError, ValueError, IndexError):  # another number of operands, another dtype
            continue
        found.add(op)
    return frozenset(found)


@cache
def gives_nan() -> frozenset[Op]:
    """The functions whose result may be NaN where no operand is."""
    points = np.array([0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.5, np.inf, -np.inf])
    grids = {n: [a.ravel() for a in np.meshgrid(*[points] * n)] for n in (1, 2, 3)}
    found = set()
    for op in (accepted(FLOAT64) & MEANING.keys()) - {Op.CAST, Op.BITCAST, Op.WHERE}:
        count = 1 if op in UNARY | {Op.DETACH} else 3 if op is Op.FMA else 2
        if np.isnan(apply(op, None, *grids[count])).any():
            found.add(op)
    return frozenset(found)


def classes(module: Any) -> set[type]:
    """The records of a module that have a method `apply`: the opt-ops."""
    return {
        value
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == module.__name__ and "apply" in dir(value)
    }


def arguments(ops: Collection[Op]) -> set[type]:
    """The records of `tfn.trace` that are named as one of some ops, and the divisions of values."""
    names = {op.name for op in ops} | {"PARTITION"}
    return {
        value
        for name, value in {**vars(argument), **vars(sharding)}.items()
        if isinstance(value, type) and name.upper() in names
    }


def numpy_functions(prefix: str, module: Any, theirs: Any) -> dict[str, Any]:
    """The functions of a module of tfn that NumPy has too, by their names."""
    return {
        prefix + name: value
        for name, value in ((name, getattr(module, name)) for name in dir(module))
        if name[0] != "_"
        and inspect.isfunction(value)
        and value.__module__.startswith("tfn")
        and callable(getattr(theirs, name, None))
    }


ALL_OPT_OPS = classes(opt_ops) | classes(grid_opt_ops)
EXACT = {op for op in ELEMENTWISE & PRIMITIVES.keys() if PRIMITIVES[op].exact}
ROUNDED = ELEMENTWISE - EXACT - {Op.DETACH}
LACKED = frozenset().union(c.LACKS, *(target.lacks for target in TARGETS.values()))
LEAF_OPS = {Op.CONST, Op.PARAM, Op.IOTA, Op.FUNCTION, Op.AXIS}
DEVICES = MANUAL - {Op.CONSTRAIN}
LEAVES = {"it has no sources": LEAF_OPS}
INSIDE = {Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.SHRINK, Op.FLIP}
AT_USE = {"it is written where it is used": {Op.CONST, Op.PARAM, Op.LANES}}
GRIDS = {
    "grids alone have it": {
        *(Op.LOCAL_MEMORY, Op.BARRIER, Op.RANGE, Op.COPY, Op.COPY_GROUP, Op.COPY_WAIT),
        *(Op.EXCHANGE, Op.FRAGMENT, Op.WARP_MMA, Op.GROUP_MMA, Op.GROUP_WAIT),
    }
}
LANES = {Op.SPLAT, Op.SHUFFLE, Op.ACROSS}
CUDA = GRIDS["grids alone have it"] - {Op.BARRIER, Op.LOCAL_MEMORY, Op.RANGE}
WITHOUT_FUNCTIONS = {Op.SORT, Op.TUPLE, Op.HOST, Op.KERNEL}
OWN_KERNELS = {
    "it has a kernel or a step of its own": {
        *(Op.SCATTER, Op.SORT, Op.HOST, Op.KERNEL, Op.GET, Op.TUPLE, Op.FUNCTION),
        *LOOPS,
    },
    "it is a buffer": {Op.PARAM},
}
SIZES = {codec.RECORDS["Polynomial"], codec.RECORDS["Ratio"]}
STRUCTURE_OF_MESH = partition.STRUCTURE.keys()
STEPPED = LOOPS | {Op.HOST}

LAX_NAMES = frozenset(
    re.findall(r"\b(\w+) as \1\b", (ROOT / "tfn" / "lax" / "__init__.py").read_text())
)

DTYPE_NAMES = frozenset(
    name.rstrip("_")
    for name in re.findall(r"\b(\w+) as \1\b", (ROOT / "tfn/numpy/__init__.py").read_text())
)
NUMPY = {
    **numpy_functions("", tfn.numpy, np),
    **numpy_functions("linalg.", tfn.numpy.linalg, np.linalg),
    **numpy_functions("fft.", tfn.numpy.fft, np.fft),
}
COMPARED = {
    operator.attrgetter(name)(tfn.numpy) for name in (*numpy_table.TABLE, *numpy_table.ELSEWHERE)
}

# fmt: off
TABLES: dict[str, Table] = {
    # The language: types, meaning, regions.
    "OPS": Table("tfn/trace/spec.py", frozenset().union(*OPS.values()), Op,
        "the stages at which graphs may hold it",
        {"running traces alone hold it": {Op.LEAF}, "it lives within a transform": {Op.LINEAR}}),
    "PRIMITIVES": Table("tfn/trace/primitives.py", PRIMITIVES, Op, "its type rule"),
    "_KINDS": Table("tfn/trace/primitives.py", primitives._KINDS,
        UNARY | BINARY | {Op.FMA, Op.THREEFRY, Op.QUOTIENT}, "the dtypes of its operands"),
    "MEANING": Table("tfn/trace/oracle.py", MEANING, JAXPR_OPS,
        "its definition in NumPy, which all else is held against",
        {"its value is given": {Op.PARAM}, "it is called, not computed": {Op.FUNCTION},
         "it means something on the stack of the values of all devices: `shard.stack` makes other "
         "ops of it before a program runs": DEVICES}),
    "REDUCTIONS": Table("tfn/trace/oracle.py", oracle.REDUCTIONS, MONOIDS,
        "its reduction in NumPy"),
    "regions._LIKE": Table("tfn/trace/regions.py", {*regions._LIKE, *regions._NAMED}, SEVERAL,
        "the types of its results"),
    "regions.ROWS": Table("tfn/trace/regions.py", regions.ROWS, LOOPS | {Op.CUSTOM},
        "how its operands reach the functions"),
    "regions.TYPES": Table("tfn/trace/regions.py", regions.TYPES, LOOPS | {Op.CUSTOM, Op.KERNEL},
        "the check that its functions fit its operands"),
    "loop_cleanup._STEPS": Table("tfn/trace/loop_cleanup.py", loop_cleanup._STEPS, LOOPS,
        "which two may be one"),
    "loop_cleanup._JOINS": Table("tfn/trace/loop_cleanup.py", loop_cleanup._JOINS, LOOPS,
        "how two become one"),

    "RULES of onnx": Table("tfn/onnx/rules/__init__.py", onnx_rules.RULES, JAXPR_OPS,
        "nodes of ONNX for it; or ONNX lacks it, which an error says",
        {"its value is given": {Op.PARAM}, "it is called, not computed": {Op.FUNCTION},
         "complex values are pairs of real ones before": {*PARTS, Op.FFT},
         "a function of the host or a kernel of the user": {Op.HOST, Op.KERNEL},
         "files are of one device": DEVICES}),

    # Transforms.
    "JVP": Table("tfn/transforms/jvp.py", JVP, JAXPR_OPS | {Op.LINEAR},
        "its tangent, or `_zero`", LEAVES),
    "MODULES": Table("tfn/transforms/region_rules.py", region_rules.MODULES, LOOPS | {Op.CUSTOM},
        "the module of its rules in `JVP`, `SEVERAL_RESULTS` and `BATCH`"),
    "jvp._REDUCE": Table("tfn/transforms/jvp.py", jvp._REDUCE, MONOIDS,
        "the tangent of a reduction by it"),
    "jvp._SCATTER": Table("tfn/transforms/jvp.py", jvp._SCATTER, {*MONOIDS, Op.WHERE},
        "the tangent of a scatter by it"),
    "TRANSPOSE": Table("tfn/transforms/transpose.py", TRANSPOSE,
        {op for op, row in PRIMITIVES.items() if row.linear},
        "its row of PRIMITIVES says that it is linear"),
    "SEVERAL_RESULTS": Table("tfn/transforms/transpose.py", SEVERAL_RESULTS, SEVERAL,
        "the cotangents of all its operands together"),
    "MASK": Table("tfn/buckets/mask.py", MASK, JAXPR_OPS - {Op.PARAM, Op.FUNCTION},
        "what keeps padding out of its result"),
    "BATCH": Table("tfn/transforms/batch.py", BATCH, JAXPR_OPS | {Op.LINEAR},
        "where the batched axis goes", LEAVES),
    "STRUCTURE": Table("tfn/transforms/runtime_checks.py", runtime_checks.STRUCTURE, STEPPED,
        "how checks inside it come out"),
    "CHECKS": Table("tfn/transforms/runtime_checks.py", runtime_checks.CHECKS,
        gives_nan() | {Op.FLOORDIV, Op.REDUCE, Op.DOT, Op.CONV, Op.FFT, Op.GATHER, Op.SCATTER},
        "its result may be NaN or out of bounds where its operands are not"),

    "AXES": Table("tfn/trace/axes.py", AXES, JAXPR_OPS - STRUCTURE_OF_MESH,
        "which axes of its operands become which of its result",
        {"its value is given": {Op.PARAM}, "it is called, not computed": {Op.FUNCTION},
         "its function has been inlined": {Op.CUSTOM}}),

    # Lowering.
    "PAIRS": Table("tfn/lower/graph/complex_pairs.py", complex_pairs.PAIRS,
        accepted(COMPLEX64) | PARTS | MOVEMENT | (JAXPR_OPS & {
            Op.CONST, Op.IOTA, Op.REDUCE, Op.DOT, Op.CONV, Op.FFT, Op.GATHER, Op.SCATTER,
            Op.AFTER, Op.GBARRIER}),
        "what it does to real and imaginary parts, since its type rule takes complex operands",
        {"it is lowered to other operations, or to the host": {Op.FFT}}),
    "complex_pairs._SEVERAL_RESULTS": Table("tfn/lower/graph/complex_pairs.py",
        complex_pairs._SEVERAL_RESULTS, WITHOUT_FUNCTIONS, "its results, some of which are pairs",
        {"it takes and gives real arrays": {Op.KERNEL}}),
    "VALUE": Table("tfn/lower/fuse/indexing.py", VALUE, KERNELS_OPS | ELEMENTWISE,
        "its element at an index", OWN_KERNELS),
    "FOLDS": Table("tfn/lower/index/folds.py", folds.FOLDS, EXACT | {Op.LOAD},
        "its row of PRIMITIVES says that it is exact, so that constants are folded"),
    "INTERVAL": Table("tfn/lower/index/intervals.py", intervals.INTERVAL,
        accepted(INT32) | accepted(BOOL) | MOVEMENT
        | {Op.CONST, Op.RANGE, Op.IOTA, Op.LANES, Op.SPLAT, Op.GBARRIER, Op.LOAD},
        "its least and largest value, or an excuse if it may be anything",
        {"kernels have MIN and MAX instead": {Op.SIGN},
         "it may be anything": {Op.LOAD, Op.PAD, Op.CONCAT}}),
    "DECOMPOSE": Table("tfn/lower/math/decompose.py", DECOMPOSE, ELEMENTWISE,
        "kernels have BASIC ops only; or add it to BASIC and to each RENDER",
        {"renderers have a row for it": BASIC - {Op.CAST, Op.MOD, Op.SHL, Op.SHR}}),
    "EMULATED": Table("tfn/lower/math/decompose.py", EMULATED, LACKED & ELEMENTWISE,
        "some target or language lacks it"),
    "RENDER of llvm": Table("tfn/lower/codegen/render/llvm.py", llvm.RENDER,
        LINEAR_OPS - ELEMENTWISE | BASIC, "its instruction in LLVM IR",
        {**AT_USE, **GRIDS, "`legalize` makes others of it": {Op.FLOORDIV, Op.MOD}}),
    "RENDER of c": Table("tfn/lower/codegen/render/c/kernel.py", c.RENDER,
        LINEAR_OPS - ELEMENTWISE | BASIC, "its expression in C",
        {**AT_USE, **GRIDS, "C lacks it": c.LACKS,
         "`legalize` makes others of it": {Op.FLOORDIV, Op.MOD}}),
    "ROWS of wgsl": Table("tfn/hw/webgpu/wgsl.py", wgsl.ROWS,
        LINEAR_OPS - ELEMENTWISE | BASIC, "its expression in WGSL",
        {**AT_USE, "WGSL lacks it": wgsl.LACKS, "a thread computes one element": LANES,
         "it is named before": {Op.LOCAL_MEMORY, Op.RANGE}, "CUDA's grids alone have it": CUDA,
         "`legalize` makes others of it": {Op.FLOORDIV, Op.MOD}}),
    "values.WORD": Table("tfn/lower/codegen/render/c/values.py", values.WORD,
        {op for op, row in c.RENDER.items()
         if row in (values.arithmetic, values.compare, values.call)},
        "the name of its word", {"words of the same name": {Op.MAX, Op.MIN}}),
    "REGIONS": Table("tfn/lower/memory/schedule.py", REGIONS, STEPPED, "its steps"),

    # Reports.
    "PRINT of nests": Table("tfn/lower/report/print/nest.py", nest.PRINT,
        SPLIT_OPS - ELEMENTWISE | {Op.PARAM}, "its line in a picture of loops",
        {"it is part of an expression": {Op.CONST, Op.RANGE, Op.GET},
         "it is a kernel of its own": {Op.SORT, Op.KERNEL}}),
    "PRINT of instructions": Table("tfn/lower/report/print/instructions.py", instructions.PRINT,
        LINEAR_OPS - ELEMENTWISE, "its line in a list of instructions",
        {**AT_USE, "it is named where it is used": {Op.LOCAL_MEMORY, Op.RANGE},
         "it is a function of its sources": {
            Op.QUOTIENT, Op.SPLAT, Op.SHUFFLE, Op.DOT2, Op.MMA, Op.SPILL, Op.ROW}}),
    "GROUPWISE": Table("tests/lower/grid_interpreter.py", grid_interpreter.GROUPWISE,
        {Op.BARRIER, Op.COPY, Op.COPY_GROUP, Op.COPY_WAIT},
        "what it does in a group, without a value"),
    "cost.ARITHMETIC": Table("tfn/lower/report/cost.py", cost.ARITHMETIC,
        BASIC & accepted(FLOAT64) | {Op.LDEXP}, "whether it counts as an operation",
        {"it counts twice": {Op.FMA}, "it computes nothing": {
            Op.WHERE, Op.CAST, Op.BITCAST, Op.LDEXP, *COMPARE}}),

    # Files and exported functions.
    "wellformed.FORMS": Table("tfn/exporting/wellformed.py", wellformed.FORMS, JAXPR_OPS,
        "its sources and its argument, in bytes that are read",
        {"no exported function has it": {Op.HOST, Op.KERNEL, Op.CUSTOM, Op.TUPLE}}),
    "codec.RECORDS": Table("tfn/exporting/codec.py", codec.RECORDS.values(),
        {*arguments(wellformed.FORMS), *SIZES}, "the name of the record in bytes"),
    "wellformed.FIELDS": Table("tfn/exporting/wellformed.py", wellformed.FIELDS,
        codec.RECORDS.values(), "the kinds of its fields, in bytes that are read",
        {"it has a check of its own": {argument.Const, *SIZES}}),

    # Names that users call.
    "public names": Table("tfn/lax/__init__.py",
        {op for op in ELEMENTWISE | PARTS if op.value in LAX_NAMES}, ELEMENTWISE | PARTS,
        "a function of tfn.lax whose name is the value of the op",
        {"it has another name": {
            Op.NOT, Op.AND, Op.OR, Op.XOR, Op.SHR, Op.MOD},
         "other functions use it": {Op.FLOORDIV, Op.FMA, Op.LDEXP, Op.THREEFRY}}),

    # Element types.
    "dtypes.SHORT": Table("tfn/dtypes.py", SHORT, ALL, "its name in jaxprs"),
    "dtypes._ABOVE": Table("tfn/dtypes.py", dtypes._ABOVE, {*SHORT.values(), "i*", "f*", "c*"},
        "the dtypes just above it in the promotion lattice"),
    "names of dtypes": Table("tfn/numpy/__init__.py",
        {d for d in ALL if d.name in DTYPE_NAMES}, ALL, "its name in tfn.numpy"),
    "HALF_FLOATS": Table("tfn/lower/math/decompose.py", HALF_FLOATS,
        {d for d in FLOATS - NARROW if d.itemsize < FLOAT32.itemsize}, "it is computed in float32"),
    "narrow_types.FORMATS": Table("tfn/lower/graph/narrow_types.py", narrow_types.FORMATS,
        NARROW_FLOATS, "its bits", {"it is an exponent alone": {dtypes.float8_e8m0fnu.dtype}}),
    "key_encoding._INFINITY_BITS": Table("tfn/lower/codegen/sort/key_encoding.py",
        key_encoding._INFINITY_BITS, {d.itemsize for d in FLOATS - NARROW},
        "how floats of this size in bytes are sorted"),
    "signature.TYPES": Table("tfn/exporting/signature.py", signature.TYPES,
        {d.name for d in ALL if d not in INTEGERS - NARROW}, "its type in C headers"),
    "TYPES of llvm": Table("tfn/lower/codegen/render/writer.py", writer.TYPES, REALS,
        "its type in a register"),
    "intervals._LIMITS": Table("tfn/lower/index/intervals.py", intervals._LIMITS,
        INTEGERS - NARROW | {BOOL}, "its least and largest value"),
    "safetensors.DTYPES": Table("tfn/nn/safetensors.py",
        {d for d in safetensors.DTYPES.values() if d in ALL}, ALL,
        "its name in safetensors files"),

    # Opt-ops.
    "OPT_OPS": Table("tfn/lower/loops/opt_ops.py", opt_ops.OPT_OPS.values(), ALL_OPT_OPS,
        "the name under which it is printed and kept on disk"),

    # Tests.
    "CASES": Table("tests/transforms/cases.py", {case.op for case in CASES},
        JAXPR_OPS - LEAF_OPS, "a case: finite differences, adjoints, batching and jit follow",
        {"one device has no value of it: tests/transforms/shard has its cases":
            DEVICES - LEAF_OPS}),
    "TABLE of numpy": Table("tests/numpy/table.py",
        {name for name, function in NUMPY.items() if function in COMPARED}, NUMPY,
        "how it is compared with NumPy's; or a reason in ELSEWHERE"),
    "FUNCTIONS of test_math": Table("tests/lower/test_math.py", test_math.FUNCTIONS, ROUNDED,
        "the promised error in ulp; if all targets give the same bits, say exact=True in its row "
        "of PRIMITIVES"),
    "FUNCTIONS of test_oracle": Table("tests/trace/test_oracle.py",
        test_oracle.FUNCTIONS.keys() - EXACT, ROUNDED, "the same function in mpmath",
        {"two operands: test_special_pairs": {Op.ATAN2, Op.POW}}),
    "SPECIAL of test_oracle": Table("tests/trace/test_oracle.py", test_oracle.SPECIAL,
        UNARY & accepted(FLOAT64), "its values at zeros, infinities and borders"),
    "BYTES of test_intervals": Table("tests/lower/index/test_intervals.py",
        test_intervals.BYTES, intervals.INTERVAL, "the rule is tested on all bytes",
        {"it is tested by cases": {
            Op.CONST, Op.RANGE, Op.IOTA, Op.LANES, Op.SPLAT, Op.CAST, Op.WHERE, Op.DETACH,
            Op.GBARRIER, *INSIDE}}),
    "OPS of random_indices": Table("tests/lower/random_indices.py",
        {*random_indices.OPS, *random_indices.COMPARISONS, *random_indices.LOGIC},
        intervals.INTERVAL.keys() & ELEMENTWISE, "random index expressions have it",
        {"passes make no indices of it": {Op.SHL, Op.SHR, Op.DETACH},
         "it is tested by cases": {Op.CAST, Op.BITCAST}}),
    "FLOAT_OPS of test_folds": Table("tests/lower/index/test_folds.py", test_folds.FLOAT_OPS,
        accepted(FLOAT64) & EXACT, "simplified graphs of it have the same bits",
        {"it is drawn around WHERE": COMPARE, "it changes the dtype": {Op.CAST, Op.BITCAST},
         "it has three operands": {Op.FMA}}),
    "INTEGER_OPS of test_folds": Table("tests/lower/index/test_folds.py", test_folds.INTEGER_OPS,
        accepted(INT32) & EXACT, "simplified graphs of it have the same bits",
        {"it is drawn around WHERE": COMPARE, "it changes the dtype": {Op.CAST, Op.BITCAST}}),
    "EXAMPLES of test_opt_ops": Table("tests/lower/loops/test_opt_ops.py",
        set(map(type, test_opt_ops.EXAMPLES)), ALL_OPT_OPS,
        "an example that is printed, kept on disk and read again"),
}
# fmt: on


@together("name", TABLES)
def test_every_table_is_total(name: str) -> None:
    lines = TABLES[name].complaints(name)
    if lines:
        pytest.fail("\n".join(lines), pytrace=False)


@together("name", TABLES)
def test_a_row_that_is_deleted_is_named(name: str) -> None:
    table = TABLES[name]
    key = min(set(table.rows), key=called)
    without = replace(table, rows=set(table.rows) - {key})
    expected = f"{name} has no row for {called(key)}: add one in {table.file} ("
    assert any(line.startswith(expected) for line in without.complaints(name))


def variable(name: str) -> str:
    """The name of a table in its file: ``RENDER`` of ``RENDER of llvm``."""
    return name.partition(" of ")[0].rpartition(".")[2]


def test_tables_are_in_the_files_that_are_named() -> None:
    for name, table in TABLES.items():
        text = (ROOT / table.file).read_text()
        is_there = re.search(rf"^{variable(name)}\b", text, re.MULTILINE)
        assert is_there or name in ("public names", "names of dtypes"), f"{name} in {table.file}"


def test_every_table_of_ops_is_listed() -> None:
    """Each dict by op in tfn has a row in `TABLES`, or in `PARTIAL` with a reason."""
    listed = {(table.file, variable(name)) for name, table in TABLES.items()}
    excused = {(file, name) for file, names in PARTIAL.items() for name in names}
    found = set(tables_of_ops())
    missing = sorted(found - listed - excused)
    assert not missing, f"TABLES in tests/test_rows.py has no row for {missing}"
    assert not excused - found, "PARTIAL in tests/test_rows.py has rows for tables that are gone"


@cache
def tables_of_ops() -> tuple[tuple[str, str], ...]:
    """The file and the name of each annotated dict of tfn whose keys are ops."""
    return tuple(
        (path.relative_to(ROOT).as_posix(), match[1])
        for path in sorted((ROOT / "tfn").rglob("*.py"))
        for match in re.finditer(r"^(\w+): (?:dict|Mapping)\[Op, .* = \{", path.read_text(), re.M)
    )


PARTIAL: dict[str, dict[str, str]] = {
    "tfn/experimental/sparse/dense_functions.py": {
        "RULES": "the others have no sparse result, which an error says",
    },
    "tfn/lower/codegen/coordinates.py": {"_ARITHMETIC": "bounds of ranges have no others"},
    "tfn/lower/codegen/render/hexagon.py": {
        "ROWS": "rows in place of those of llvm, for what the back end gets wrong",
    },
    "tfn/lower/codegen/render/nvptx.py": {"ROWS": "rows beside those of llvm, for warps"},
    "tfn/lower/codegen/render/amdgcn.py": {"ROWS": "rows beside those of llvm, for waves"},
    "tfn/lower/codegen/render/llvm.py": dict.fromkeys(
        ("_ARITHMETIC", "_CALLS", "_COMPARE", "_EXTREME"), "they are parts of RENDER"
    ),
    "tfn/lower/graph/narrow_types.py": {
        "_RULES": "the others are widened",
        "_SEVERAL_RESULTS": "the others have functions",
    },
    "tfn/lower/index/folds.py": {"_OWN": "the others have the folds of all ops"},
    "tfn/lower/math/words.py": {"RULES": "the others need no numbers of 64 bits"},
    "tfn/lower/report/verify/kernels.py": {"_NAMES": "the others are printed as expressions"},
    **{
        f"tfn/onnx/rules/{name}.py": {"RULES": "they are parts of those of the package"}
        for name in ("control", "elementwise", "movement", "products")
    },
    "tfn/transforms/shard/parts.py": {"LOCAL": "all other ops are the same on parts"},
    "tfn/lower/codegen/legalize.py": {"LEGAL": "languages have the others"},
    "tfn/trace/axes.py": {"PART": "the others are the same on parts"},
    "tfn/transforms/shard/factors.py": {"CROSSINGS": "the others have no windows in AXES"},
    "tfn/transforms/shard/partition.py": {"STRUCTURE": "the others have a row in AXES"},
    "tfn/transforms/shard/layout_rules.py": {
        "_STRUCTURE": "the others follow from the factors of AXES",
        "_KEPT": "the others are divided as AXES says",
    },
    "tfn/transforms/shard/vary.py": {"_RULES": "results of the others vary as their operands do"},
    "tfn/trace/spec.py": {"_OVER_RANGES": "the others may look as they like"},
}
"""Tables by op that are not total, by file: the name, and why an op without a row is no mistake."""


def test_records_say_the_kinds_of_all_their_fields() -> None:
    for record, kinds in wellformed.FIELDS.items():
        names = {f.name for f in fields(record) if f.compare}
        missing = names ^ set(kinds)
        assert not missing, f"FIELDS[{record.__name__}] in tfn/exporting/wellformed.py: {missing}"
