"""Arrays in the manner of NumPy, as `jax.numpy` has them.  Files in reading order:

operands      arguments become values of one dtype and shape; bodies become programs
creation      new arrays: from values, filled, counted
arithmetic    sums, products, quotients, powers, rounding
functions     exp, sin, sqrt and their like
logic         comparisons, logic, bits, choice
reductions    sums, extremes, means, and where the extremes are
manipulation  shapes, orders, joins, splits, repetitions
contraction   dot, matmul, einsum and their like
indexing      x[...], x.at[...], take
sorting       sort, argsort, and what follows from them
"""

import numpy as _numpy

from tfn.array import Array as Array
from tfn.dtypes import (
    bfloat16 as bfloat16,
)
from tfn.dtypes import (
    bool_ as bool_,
)
from tfn.dtypes import (
    finfo as finfo,
)
from tfn.dtypes import (
    float16 as float16,
)
from tfn.dtypes import (
    float32 as float32,
)
from tfn.dtypes import (
    float64 as float64,
)
from tfn.dtypes import (
    iinfo as iinfo,
)
from tfn.dtypes import (
    int8 as int8,
)
from tfn.dtypes import (
    int16 as int16,
)
from tfn.dtypes import (
    int32 as int32,
)
from tfn.dtypes import (
    int64 as int64,
)
from tfn.dtypes import (
    issubdtype as issubdtype,
)
from tfn.dtypes import (
    promote_types as promote_types,
)
from tfn.dtypes import (
    uint8 as uint8,
)
from tfn.dtypes import (
    uint16 as uint16,
)
from tfn.dtypes import (
    uint32 as uint32,
)
from tfn.dtypes import (
    uint64 as uint64,
)
from tfn.numpy.arithmetic import (
    abs as abs,
)
from tfn.numpy.arithmetic import (
    absolute as absolute,
)
from tfn.numpy.arithmetic import (
    add as add,
)
from tfn.numpy.arithmetic import (
    arctan2 as arctan2,
)
from tfn.numpy.arithmetic import (
    atan2 as atan2,
)
from tfn.numpy.arithmetic import (
    ceil as ceil,
)
from tfn.numpy.arithmetic import (
    clip as clip,
)
from tfn.numpy.arithmetic import (
    copysign as copysign,
)
from tfn.numpy.arithmetic import (
    divide as divide,
)
from tfn.numpy.arithmetic import (
    divmod as divmod,
)
from tfn.numpy.arithmetic import (
    fabs as fabs,
)
from tfn.numpy.arithmetic import (
    fix as fix,
)
from tfn.numpy.arithmetic import (
    float_power as float_power,
)
from tfn.numpy.arithmetic import (
    floor as floor,
)
from tfn.numpy.arithmetic import (
    floor_divide as floor_divide,
)
from tfn.numpy.arithmetic import (
    fmax as fmax,
)
from tfn.numpy.arithmetic import (
    fmin as fmin,
)
from tfn.numpy.arithmetic import (
    fmod as fmod,
)
from tfn.numpy.arithmetic import (
    hypot as hypot,
)
from tfn.numpy.arithmetic import (
    logaddexp as logaddexp,
)
from tfn.numpy.arithmetic import (
    logaddexp2 as logaddexp2,
)
from tfn.numpy.arithmetic import (
    maximum as maximum,
)
from tfn.numpy.arithmetic import (
    minimum as minimum,
)
from tfn.numpy.arithmetic import (
    mod as mod,
)
from tfn.numpy.arithmetic import (
    multiply as multiply,
)
from tfn.numpy.arithmetic import (
    negative as negative,
)
from tfn.numpy.arithmetic import (
    positive as positive,
)
from tfn.numpy.arithmetic import (
    pow as pow,
)
from tfn.numpy.arithmetic import (
    power as power,
)
from tfn.numpy.arithmetic import (
    reciprocal as reciprocal,
)
from tfn.numpy.arithmetic import (
    remainder as remainder,
)
from tfn.numpy.arithmetic import (
    rint as rint,
)
from tfn.numpy.arithmetic import (
    round as round,
)
from tfn.numpy.arithmetic import (
    sign as sign,
)
from tfn.numpy.arithmetic import (
    square as square,
)
from tfn.numpy.arithmetic import (
    subtract as subtract,
)
from tfn.numpy.arithmetic import (
    true_divide as true_divide,
)
from tfn.numpy.arithmetic import (
    trunc as trunc,
)
from tfn.numpy.contraction import (
    contract as contract,
)
from tfn.numpy.contraction import (
    cross as cross,
)
from tfn.numpy.contraction import (
    dot as dot,
)
from tfn.numpy.contraction import (
    einsum as einsum,
)
from tfn.numpy.contraction import (
    inner as inner,
)
from tfn.numpy.contraction import (
    kron as kron,
)
from tfn.numpy.contraction import (
    matmul as matmul,
)
from tfn.numpy.contraction import (
    outer as outer,
)
from tfn.numpy.contraction import (
    tensordot as tensordot,
)
from tfn.numpy.contraction import (
    vdot as vdot,
)
from tfn.numpy.contraction import (
    vecdot as vecdot,
)
from tfn.numpy.creation import (
    arange as arange,
)
from tfn.numpy.creation import (
    array as array,
)
from tfn.numpy.creation import (
    asarray as asarray,
)
from tfn.numpy.creation import (
    astype as astype,
)
from tfn.numpy.creation import (
    copy as copy,
)
from tfn.numpy.creation import (
    empty as empty,
)
from tfn.numpy.creation import (
    empty_like as empty_like,
)
from tfn.numpy.creation import (
    eye as eye,
)
from tfn.numpy.creation import (
    from_dlpack as from_dlpack,
)
from tfn.numpy.creation import (
    full as full,
)
from tfn.numpy.creation import (
    full_like as full_like,
)
from tfn.numpy.creation import (
    identity as identity,
)
from tfn.numpy.creation import (
    linspace as linspace,
)
from tfn.numpy.creation import (
    logspace as logspace,
)
from tfn.numpy.creation import (
    meshgrid as meshgrid,
)
from tfn.numpy.creation import (
    ones as ones,
)
from tfn.numpy.creation import (
    ones_like as ones_like,
)
from tfn.numpy.creation import (
    tri as tri,
)
from tfn.numpy.creation import (
    tril as tril,
)
from tfn.numpy.creation import (
    triu as triu,
)
from tfn.numpy.creation import (
    zeros as zeros,
)
from tfn.numpy.creation import (
    zeros_like as zeros_like,
)
from tfn.numpy.functions import (
    acos as acos,
)
from tfn.numpy.functions import (
    acosh as acosh,
)
from tfn.numpy.functions import (
    arccos as arccos,
)
from tfn.numpy.functions import (
    arccosh as arccosh,
)
from tfn.numpy.functions import (
    arcsin as arcsin,
)
from tfn.numpy.functions import (
    arcsinh as arcsinh,
)
from tfn.numpy.functions import (
    arctan as arctan,
)
from tfn.numpy.functions import (
    arctanh as arctanh,
)
from tfn.numpy.functions import (
    asin as asin,
)
from tfn.numpy.functions import (
    asinh as asinh,
)
from tfn.numpy.functions import (
    atan as atan,
)
from tfn.numpy.functions import (
    atanh as atanh,
)
from tfn.numpy.functions import (
    cbrt as cbrt,
)
from tfn.numpy.functions import (
    cos as cos,
)
from tfn.numpy.functions import (
    cosh as cosh,
)
from tfn.numpy.functions import (
    deg2rad as deg2rad,
)
from tfn.numpy.functions import (
    degrees as degrees,
)
from tfn.numpy.functions import (
    exp as exp,
)
from tfn.numpy.functions import (
    exp2 as exp2,
)
from tfn.numpy.functions import (
    expm1 as expm1,
)
from tfn.numpy.functions import (
    log as log,
)
from tfn.numpy.functions import (
    log1p as log1p,
)
from tfn.numpy.functions import (
    log2 as log2,
)
from tfn.numpy.functions import (
    log10 as log10,
)
from tfn.numpy.functions import (
    rad2deg as rad2deg,
)
from tfn.numpy.functions import (
    radians as radians,
)
from tfn.numpy.functions import (
    sin as sin,
)
from tfn.numpy.functions import (
    sinc as sinc,
)
from tfn.numpy.functions import (
    sinh as sinh,
)
from tfn.numpy.functions import (
    sqrt as sqrt,
)
from tfn.numpy.functions import (
    tan as tan,
)
from tfn.numpy.functions import (
    tanh as tanh,
)
from tfn.numpy.indexing import (
    getitem as getitem,
)
from tfn.numpy.indexing import (
    ix_ as ix_,
)
from tfn.numpy.indexing import (
    put_along_axis as put_along_axis,
)
from tfn.numpy.indexing import (
    read_index as read_index,
)
from tfn.numpy.indexing import (
    take as take,
)
from tfn.numpy.indexing import (
    take_along_axis as take_along_axis,
)
from tfn.numpy.indexing import (
    update as update,
)
from tfn.numpy.logic import (
    allclose as allclose,
)
from tfn.numpy.logic import (
    array_equal as array_equal,
)
from tfn.numpy.logic import (
    array_equiv as array_equiv,
)
from tfn.numpy.logic import (
    bitwise_and as bitwise_and,
)
from tfn.numpy.logic import (
    bitwise_invert as bitwise_invert,
)
from tfn.numpy.logic import (
    bitwise_left_shift as bitwise_left_shift,
)
from tfn.numpy.logic import (
    bitwise_not as bitwise_not,
)
from tfn.numpy.logic import (
    bitwise_or as bitwise_or,
)
from tfn.numpy.logic import (
    bitwise_right_shift as bitwise_right_shift,
)
from tfn.numpy.logic import (
    bitwise_xor as bitwise_xor,
)
from tfn.numpy.logic import (
    equal as equal,
)
from tfn.numpy.logic import (
    greater as greater,
)
from tfn.numpy.logic import (
    greater_equal as greater_equal,
)
from tfn.numpy.logic import (
    invert as invert,
)
from tfn.numpy.logic import (
    isclose as isclose,
)
from tfn.numpy.logic import (
    isfinite as isfinite,
)
from tfn.numpy.logic import (
    isinf as isinf,
)
from tfn.numpy.logic import (
    isnan as isnan,
)
from tfn.numpy.logic import (
    isneginf as isneginf,
)
from tfn.numpy.logic import (
    isposinf as isposinf,
)
from tfn.numpy.logic import (
    left_shift as left_shift,
)
from tfn.numpy.logic import (
    less as less,
)
from tfn.numpy.logic import (
    less_equal as less_equal,
)
from tfn.numpy.logic import (
    logical_and as logical_and,
)
from tfn.numpy.logic import (
    logical_not as logical_not,
)
from tfn.numpy.logic import (
    logical_or as logical_or,
)
from tfn.numpy.logic import (
    logical_xor as logical_xor,
)
from tfn.numpy.logic import (
    nan_to_num as nan_to_num,
)
from tfn.numpy.logic import (
    not_equal as not_equal,
)
from tfn.numpy.logic import (
    right_shift as right_shift,
)
from tfn.numpy.logic import (
    select as select,
)
from tfn.numpy.logic import (
    signbit as signbit,
)
from tfn.numpy.logic import (
    where as where,
)
from tfn.numpy.manipulation import (
    append as append,
)
from tfn.numpy.manipulation import (
    array_split as array_split,
)
from tfn.numpy.manipulation import (
    atleast_1d as atleast_1d,
)
from tfn.numpy.manipulation import (
    atleast_2d as atleast_2d,
)
from tfn.numpy.manipulation import (
    atleast_3d as atleast_3d,
)
from tfn.numpy.manipulation import (
    broadcast_arrays as broadcast_arrays,
)
from tfn.numpy.manipulation import (
    broadcast_shapes as broadcast_shapes,
)
from tfn.numpy.manipulation import (
    broadcast_to as broadcast_to,
)
from tfn.numpy.manipulation import (
    column_stack as column_stack,
)
from tfn.numpy.manipulation import (
    concatenate as concatenate,
)
from tfn.numpy.manipulation import (
    diag as diag,
)
from tfn.numpy.manipulation import (
    diagonal as diagonal,
)
from tfn.numpy.manipulation import (
    dstack as dstack,
)
from tfn.numpy.manipulation import (
    expand_dims as expand_dims,
)
from tfn.numpy.manipulation import (
    fill_diagonal as fill_diagonal,
)
from tfn.numpy.manipulation import (
    flip as flip,
)
from tfn.numpy.manipulation import (
    fliplr as fliplr,
)
from tfn.numpy.manipulation import (
    flipud as flipud,
)
from tfn.numpy.manipulation import (
    hsplit as hsplit,
)
from tfn.numpy.manipulation import (
    hstack as hstack,
)
from tfn.numpy.manipulation import (
    matrix_transpose as matrix_transpose,
)
from tfn.numpy.manipulation import (
    moveaxis as moveaxis,
)
from tfn.numpy.manipulation import (
    pad as pad,
)
from tfn.numpy.manipulation import (
    permute_dims as permute_dims,
)
from tfn.numpy.manipulation import (
    ravel as ravel,
)
from tfn.numpy.manipulation import (
    repeat as repeat,
)
from tfn.numpy.manipulation import (
    reshape as reshape,
)
from tfn.numpy.manipulation import (
    roll as roll,
)
from tfn.numpy.manipulation import (
    rollaxis as rollaxis,
)
from tfn.numpy.manipulation import (
    rot90 as rot90,
)
from tfn.numpy.manipulation import (
    split as split,
)
from tfn.numpy.manipulation import (
    squeeze as squeeze,
)
from tfn.numpy.manipulation import (
    stack as stack,
)
from tfn.numpy.manipulation import (
    swapaxes as swapaxes,
)
from tfn.numpy.manipulation import (
    tile as tile,
)
from tfn.numpy.manipulation import (
    trace as trace,
)
from tfn.numpy.manipulation import (
    transpose as transpose,
)
from tfn.numpy.manipulation import (
    unstack as unstack,
)
from tfn.numpy.manipulation import (
    vsplit as vsplit,
)
from tfn.numpy.manipulation import (
    vstack as vstack,
)
from tfn.numpy.operands import (
    ndim as ndim,
)
from tfn.numpy.operands import (
    result_type as result_type,
)
from tfn.numpy.operands import (
    shape as shape,
)
from tfn.numpy.operands import (
    size as size,
)
from tfn.numpy.reductions import (
    all as all,
)
from tfn.numpy.reductions import (
    amax as amax,
)
from tfn.numpy.reductions import (
    amin as amin,
)
from tfn.numpy.reductions import (
    any as any,
)
from tfn.numpy.reductions import (
    argmax as argmax,
)
from tfn.numpy.reductions import (
    argmin as argmin,
)
from tfn.numpy.reductions import (
    average as average,
)
from tfn.numpy.reductions import (
    count_nonzero as count_nonzero,
)
from tfn.numpy.reductions import (
    max as max,
)
from tfn.numpy.reductions import (
    mean as mean,
)
from tfn.numpy.reductions import (
    min as min,
)
from tfn.numpy.reductions import (
    nanmax as nanmax,
)
from tfn.numpy.reductions import (
    nanmean as nanmean,
)
from tfn.numpy.reductions import (
    nanmin as nanmin,
)
from tfn.numpy.reductions import (
    nanprod as nanprod,
)
from tfn.numpy.reductions import (
    nansum as nansum,
)
from tfn.numpy.reductions import (
    prod as prod,
)
from tfn.numpy.reductions import (
    ptp as ptp,
)
from tfn.numpy.reductions import (
    std as std,
)
from tfn.numpy.reductions import (
    sum as sum,
)
from tfn.numpy.reductions import (
    var as var,
)
from tfn.numpy.sorting import (
    argsort as argsort,
)
from tfn.numpy.sorting import (
    digitize as digitize,
)
from tfn.numpy.sorting import (
    lexsort as lexsort,
)
from tfn.numpy.sorting import (
    median as median,
)
from tfn.numpy.sorting import (
    percentile as percentile,
)
from tfn.numpy.sorting import (
    quantile as quantile,
)
from tfn.numpy.sorting import (
    searchsorted as searchsorted,
)
from tfn.numpy.sorting import (
    sort as sort,
)

ndarray = Array
pi, e, inf, nan, newaxis = _numpy.pi, _numpy.e, _numpy.inf, _numpy.nan, None
euler_gamma = _numpy.euler_gamma
generic, number, integer, signedinteger, unsignedinteger, inexact, floating = (
    _numpy.generic, _numpy.number, _numpy.integer, _numpy.signedinteger,
    _numpy.unsignedinteger, _numpy.inexact, _numpy.floating,
)  # fmt: skip
