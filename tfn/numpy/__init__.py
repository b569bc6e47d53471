"""Arrays in the manner of NumPy, as `jax.numpy` has them.  Files in reading order:

creation            new arrays: from values, or filled
inspection          capabilities of the namespace; limits of dtypes
ranges              numbers by steps, evenly spaced, or of evenly spaced logarithms
matrices            structured matrices: the identity, triangles, powers
arithmetic          sums, products, quotients, powers
rounding            rounding to whole numbers
forward_mode        derivatives that are the same in each order and mode
complex             complex numbers and their parts
elementary          exponentials, logarithms, trigonometric and hyperbolic functions
logic               comparisons, logic, bits, choice
number_parts        mantissas, exponents, neighbours, divisors, bits
reductions          sums, extremes, means, and the indices of extremes
manipulation        reshape, transpose, broadcast, flip, diagonals
concatenation       arrays joined, split, repeated and shifted
padding             elements added at both ends of axes
contraction         sums of products: dot, matmul, tensordot
einstein_summation  einsum, and the order of its contractions
indexing            x[...], take
updates             x.at[...]
cumulative          cumulative sums and products, differences
nan_reductions      reductions that ignore NaN
sorting             sorted elements, the indices that sort, binary search
quantiles           quantiles and medians
searching           indices of elements that are not zero, selection by masks
sets                distinct elements, unions, intersections, differences
histograms          counts of elements in bins
index_grids         index arrays of triangles, diagonals and grids
functional          Python functions applied to arrays
interpolation       interpolation, integrals, values of polynomials, covariance
fft                 discrete Fourier transforms
polynomials         polynomials by their coefficients
signals             convolutions, gradients, phases, windows, correlations
insert_delete       insertion, deletion, replacement, blocks
storage             arrays in NumPy's files
linalg              norms, systems of equations, factorisations
"""

# ruff: noqa: I001  (one line for each name would hide the order)
# fmt: off
import numpy as _numpy

from tfn.array import Array as Array
from tfn.dtypes import (
    bfloat16 as bfloat16, bool_ as bool_, complex_ as complex_, complex64 as complex64,
    complex128 as complex128, float_ as float_,
    float4_e2m1fn as float4_e2m1fn, float8_e3m4 as float8_e3m4, float8_e4m3 as float8_e4m3,
    float8_e4m3b11fnuz as float8_e4m3b11fnuz, float8_e4m3fn as float8_e4m3fn,
    float8_e4m3fnuz as float8_e4m3fnuz, float8_e5m2 as float8_e5m2,
    float8_e5m2fnuz as float8_e5m2fnuz, float8_e8m0fnu as float8_e8m0fnu,
    float16 as float16, float32 as float32, float64 as float64, int2 as int2, int4 as int4,
    int_ as int_, int8 as int8, int16 as int16, int32 as int32, int64 as int64,
    issubdtype as issubdtype, promote_types as promote_types, uint2 as uint2, uint4 as uint4,
    uint8 as uint8,
    uint as uint, uint16 as uint16, uint32 as uint32, uint64 as uint64,
)
from tfn._support.lazy import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.eager.operands import (
        ndim as ndim, result_type as result_type, shape as shape, size as size,
    )
    from tfn.numpy.creation import (
        array as array, asarray as asarray, astype as astype, copy as copy, empty as empty,
        empty_like as empty_like, from_dlpack as from_dlpack, frombuffer as frombuffer,
        fromfile as fromfile, fromiter as fromiter, fromstring as fromstring, full as full,
        full_like as full_like, ones as ones, ones_like as ones_like, zeros as zeros,
        zeros_like as zeros_like,
    )
    from tfn.numpy.inspection import (
        __array_namespace_info__ as __array_namespace_info__, array_repr as array_repr,
        array_str as array_str, can_cast as can_cast, finfo as finfo, iinfo as iinfo,
        isdtype as isdtype, isscalar as isscalar, iterable as iterable,
    )
    from tfn.numpy.ranges import (
        arange as arange, geomspace as geomspace, linspace as linspace, logspace as logspace,
    )
    from tfn.numpy.matrices import (
        eye as eye, identity as identity, tri as tri, tril as tril, triu as triu, vander as vander,
    )
    from tfn.numpy.arithmetic import (
        abs as abs, absolute as absolute, add as add, arctan2 as arctan2, atan2 as atan2,
        clip as clip, copysign as copysign, divide as divide, divmod as divmod,
        float_power as float_power, floor_divide as floor_divide, fmax as fmax, fmin as fmin,
        fmod as fmod, hypot as hypot, logaddexp as logaddexp, logaddexp2 as logaddexp2,
        maximum as maximum, minimum as minimum, mod as mod, multiply as multiply,
        negative as negative, positive as positive, pow as pow, power as power,
        reciprocal as reciprocal, remainder as remainder, sign as sign, square as square,
        subtract as subtract, true_divide as true_divide,
    )
    from tfn.numpy.rounding import (
        ceil as ceil, fix as fix, floor as floor, rint as rint, around as around, round as round,
        trunc as trunc,
    )
    from tfn.numpy.complex import (
        angle as angle, conj as conj, conjugate as conjugate, imag as imag, iscomplex as iscomplex,
        iscomplexobj as iscomplexobj, isreal as isreal, isrealobj as isrealobj, real as real,
    )
    from tfn.numpy.elementary import (
        acos as acos, acosh as acosh, arccos as arccos, arccosh as arccosh, arcsin as arcsin,
        arcsinh as arcsinh, arctan as arctan, arctanh as arctanh, asin as asin, asinh as asinh,
        atan as atan, atanh as atanh, cbrt as cbrt, cos as cos, cosh as cosh, deg2rad as deg2rad,
        degrees as degrees, exp as exp, exp2 as exp2, expm1 as expm1, fabs as fabs, log as log,
        log10 as log10, log1p as log1p, log2 as log2, rad2deg as rad2deg, radians as radians,
        sin as sin, sinc as sinc, sinh as sinh, sqrt as sqrt, tan as tan, tanh as tanh,
    )
    from tfn.numpy.logic import (
        allclose as allclose, array_equal as array_equal, array_equiv as array_equiv,
        bitwise_and as bitwise_and, bitwise_invert as bitwise_invert,
        bitwise_left_shift as bitwise_left_shift, bitwise_not as bitwise_not,
        bitwise_or as bitwise_or, bitwise_right_shift as bitwise_right_shift,
        bitwise_xor as bitwise_xor, equal as equal, greater as greater,
        greater_equal as greater_equal, invert as invert, isclose as isclose, isfinite as isfinite,
        isinf as isinf, isnan as isnan, isneginf as isneginf, isposinf as isposinf,
        left_shift as left_shift, less as less, less_equal as less_equal,
        logical_and as logical_and, logical_not as logical_not, logical_or as logical_or,
        logical_xor as logical_xor, nan_to_num as nan_to_num, not_equal as not_equal,
        right_shift as right_shift, select as select, signbit as signbit,
    )
    from tfn.numpy.number_parts import (
        bitwise_count as bitwise_count, frexp as frexp, gcd as gcd, heaviside as heaviside,
        lcm as lcm, ldexp as ldexp, modf as modf, nextafter as nextafter, packbits as packbits,
        spacing as spacing, unpackbits as unpackbits,
    )
    from tfn.numpy.reductions import (
        all as all, amax as amax, amin as amin, any as any, argmax as argmax, argmin as argmin,
        average as average, count_nonzero as count_nonzero, max as max, mean as mean, min as min,
        prod as prod, ptp as ptp, std as std, sum as sum, var as var,
    )
    from tfn.numpy.manipulation import (
        atleast_1d as atleast_1d, atleast_2d as atleast_2d, atleast_3d as atleast_3d,
        broadcast_arrays as broadcast_arrays, broadcast_shapes as broadcast_shapes,
        broadcast_to as broadcast_to, diag as diag, diagonal as diagonal,
        expand_dims as expand_dims, fill_diagonal as fill_diagonal, flip as flip, fliplr as fliplr,
        flipud as flipud, matrix_transpose as matrix_transpose, moveaxis as moveaxis,
        permute_dims as permute_dims, ravel as ravel, reshape as reshape, rollaxis as rollaxis,
        rot90 as rot90, squeeze as squeeze, swapaxes as swapaxes, trace as trace,
        transpose as transpose,
    )
    from tfn.numpy.concatenation import (
        append as append, array_split as array_split, column_stack as column_stack,
        concat as concat, concatenate as concatenate, dstack as dstack, hsplit as hsplit,
        hstack as hstack, repeat as repeat, roll as roll, split as split, stack as stack,
        tile as tile, unstack as unstack, vsplit as vsplit, vstack as vstack,
    )
    from tfn.numpy.creation import resolved as resolved
    from tfn.numpy.padding import pad as pad
    from tfn.numpy.contraction import (
        cross as cross, dot as dot, inner as inner, kron as kron, matmul as matmul,
        matvec as matvec, outer as outer, tensordot as tensordot, vdot as vdot,
        vecdot as vecdot, vecmat as vecmat,
    )
    from tfn.numpy.einstein_summation import einsum as einsum, einsum_path as einsum_path
    from tfn.numpy.indexing import (
        getitem as getitem, starts_operand as starts_operand, take as take,
        take_along_axis as take_along_axis,
    )
    from tfn.numpy.updates import put_along_axis as put_along_axis, update as update
    from tfn.numpy.cumulative import (
        cumprod as cumprod, cumsum as cumsum, cumulative_prod as cumulative_prod,
        cumulative_sum as cumulative_sum, diff as diff,
    )
    from tfn.numpy.nan_reductions import (
        nanargmax as nanargmax, nanargmin as nanargmin, nancumprod as nancumprod,
        nancumsum as nancumsum, nanmax as nanmax, nanmean as nanmean, nanmin as nanmin,
        nanprod as nanprod, nanstd as nanstd, nansum as nansum, nanvar as nanvar,
    )
    from tfn.numpy.sorting import (
        argsort as argsort, digitize as digitize, lexsort as lexsort, searchsorted as searchsorted,
        sort as sort, sort_complex as sort_complex,
    )
    from tfn.numpy.quantiles import (
        median as median, nanmedian as nanmedian, nanpercentile as nanpercentile,
        nanquantile as nanquantile, percentile as percentile, quantile as quantile,
    )
    from tfn.numpy.searching import (
        argwhere as argwhere, compress as compress, extract as extract, flatnonzero as flatnonzero,
        nonzero as nonzero, where as where,
    )
    from tfn.numpy.sets import (
        intersect1d as intersect1d, isin as isin, setdiff1d as setdiff1d, setxor1d as setxor1d,
        union1d as union1d, unique as unique, unique_all as unique_all,
        unique_counts as unique_counts, unique_inverse as unique_inverse,
        unique_values as unique_values,
    )
    from tfn.numpy.histograms import (
        bincount as bincount, histogram as histogram, histogram2d as histogram2d,
        histogram_bin_edges as histogram_bin_edges, histogramdd as histogramdd,
    )
    from tfn.numpy.index_grids import (
        c_ as c_, diag_indices as diag_indices, index_exp as index_exp, indices as indices,
        ix_ as ix_, meshgrid as meshgrid, mgrid as mgrid, ogrid as ogrid, r_ as r_,
        ravel_multi_index as ravel_multi_index, s_ as s_, tril_indices as tril_indices,
        tril_indices_from as tril_indices_from, triu_indices as triu_indices,
        triu_indices_from as triu_indices_from, unravel_index as unravel_index,
    )
    from tfn.numpy.interpolation import (
        cov as cov, interp as interp, polyval as polyval, trapezoid as trapezoid,
    )
    from tfn.numpy.functional import (
        apply_along_axis as apply_along_axis, apply_over_axes as apply_over_axes,
        fromfunction as fromfunction, frompyfunc as frompyfunc, piecewise as piecewise,
        ufunc as ufunc, vectorize as vectorize,
    )
    from tfn.numpy.polynomials import (
        poly as poly, polyadd as polyadd, polyder as polyder, polydiv as polydiv,
        polyfit as polyfit, polyint as polyint, polymul as polymul, polysub as polysub,
        roots as roots,
    )
    from tfn.numpy.signals import (
        bartlett as bartlett, blackman as blackman, convolve as convolve, corrcoef as corrcoef,
        correlate as correlate, gradient as gradient, hamming as hamming, hanning as hanning,
        i0 as i0, kaiser as kaiser, unwrap as unwrap,
    )
    from tfn.numpy.insert_delete import (
        argpartition as argpartition, block as block, choose as choose, delete as delete,
        diag_indices_from as diag_indices_from, diagflat as diagflat, dsplit as dsplit,
        ediff1d as ediff1d, insert as insert, mask_indices as mask_indices, partition as partition,
        place as place, put as put, resize as resize, trim_zeros as trim_zeros,
    )
    from tfn.numpy.storage import load as load, save as save, savez as savez
    from tfn.numpy import fft as fft, linalg as linalg

__array_api_version__ = "2024.12"
ndarray = Array
dtype = _numpy.dtype
bool = bool_
pi, e, inf, nan, newaxis = _numpy.pi, _numpy.e, _numpy.inf, _numpy.nan, None
euler_gamma = _numpy.euler_gamma
generic, number, integer, signedinteger, unsignedinteger, inexact, floating, complexfloating = (
    _numpy.generic, _numpy.number, _numpy.integer, _numpy.signedinteger,
    _numpy.unsignedinteger, _numpy.inexact, _numpy.floating,
    _numpy.complexfloating,
)
character, flexible, object_ = _numpy.character, _numpy.flexible, _numpy.object_
single, double, csingle, cdouble = float32, float64, complex64, complex128
get_printoptions, printoptions, set_printoptions = (
    _numpy.get_printoptions, _numpy.printoptions, _numpy.set_printoptions,
)
