"""Primitive functions: no promotion, no broadcasting, one or few ops of the language each.

Files in reading order:
    operand           operands: arrays of one dtype, and Python scalars that take it
    elementary        exp, sin, erf and other functions of one operand
    elementwise       arithmetic, comparisons, bitwise functions, select, casts
    number_parts      sign, rounding, real and imaginary parts
    bits              population count, bitcasts, nextafter, reduced precision
    movement          reshape, transpose, broadcast, slices, padding, concatenation, iota
    contraction       dot, dot_general
    window_padding    padding of windows, in words or in pairs
    convolution       convolutions, transposed ones, patches
    ragged            products of groups of rows with matrices of their own
    composites        composite: operations with a name that are composed of others
    fourier           the discrete Fourier transform
    reduction         reductions over axes and windows, argmax, argmin
    result_shapes     shapes of convolutions and of reductions over windows
    dynamic_indexing  dynamic slices, sort, optimization_barrier
    partial_sort      top_k, approx_max_k, approx_min_k
    gather_scatter    gather and scatter in JAX's layouts
    closed_functions  closure conversion of the functions of loops and branches
    loop_blocks       strip-mined loops: unrolled, or checkpointed
    loops             scan, while_loop, fori_loop, map
    branches          cond, switch
    updates           functions of elements, as often as an index names them
    custom_solve      custom_root, custom_linear_solve
    associative       associative_scan
    cumulative        cumsum, cumprod, cummax, cummin, cumlogsumexp
    generators        Threefry and Philox: random bits and the words of new keys
    rng               random bits from an explicit state
    logbeta           logarithms of beta functions and of rising factorials
    special           incomplete gamma functions, zeta
    incomplete_beta   the incomplete beta function
    bessel            modified Bessel functions
    exchanges         collectives over several names as exchanges along one axis each
    parallel          psum, all_gather, ppermute and other collectives along named axes
    sharding_constraint  constraints on the division of values among devices
    linalg            matrix factorisations and solves
"""

# ruff: noqa: I001  (reading order)
# fmt: off

from tfn._support.lazy import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.lax.elementary import (
        acos as acos, acosh as acosh, asin as asin, asinh as asinh, atan as atan, atan2 as atan2,
        atanh as atanh, cbrt as cbrt, cos as cos, cosh as cosh, digamma as digamma, erf as erf,
        erf_inv as erf_inv, erfc as erfc, exp as exp, exp2 as exp2, expm1 as expm1,
        lgamma as lgamma, log as log, log1p as log1p, log2 as log2, logistic as logistic,
        rsqrt as rsqrt, sin as sin, sinh as sinh, sqrt as sqrt, tan as tan, tanh as tanh,
    )
    from tfn.lax.elementwise import (
        square as square, reciprocal as reciprocal, pow as pow, integer_pow as integer_pow,
        add as add, sub as sub, mul as mul, div as div, rem as rem, max as max, min as min,
        clamp as clamp, bitwise_not as bitwise_not, bitwise_and as bitwise_and,
        bitwise_or as bitwise_or, bitwise_xor as bitwise_xor, shift_left as shift_left,
        shift_right_arithmetic as shift_right_arithmetic,
        shift_right_logical as shift_right_logical, eq as eq, ne as ne, lt as lt, le as le,
        gt as gt, ge as ge, select as select, select_n as select_n,
        convert_element_type as convert_element_type,
    )
    from tfn.lax.number_parts import (
        RoundingMethod as RoundingMethod, abs as abs, ceil as ceil, complex as complex,
        conj as conj, floor as floor, imag as imag, is_finite as is_finite, neg as neg,
        real as real, round as round, sign as sign, trunc as trunc,
    )
    from tfn.lax.bits import (
        population_count as population_count, clz as clz, mulhi as mulhi,
        bitcast_convert_type as bitcast_convert_type, nextafter as nextafter,
        reduce_precision as reduce_precision,
    )
    from tfn.lax.movement import (
        full as full, full_like as full_like, iota as iota, broadcasted_iota as broadcasted_iota,
        reshape as reshape, transpose as transpose, expand_dims as expand_dims, squeeze as squeeze,
        collapse as collapse, broadcast as broadcast, broadcast_in_dim as broadcast_in_dim,
        rev as rev, concatenate as concatenate, split as split, tile as tile, pad as pad,
        stack as stack, unstack as unstack, broadcast_shapes as broadcast_shapes,
        broadcast_to_rank as broadcast_to_rank, slice as slice, slice_in_dim as slice_in_dim,
        index_in_dim as index_in_dim,
    )
    from tfn.lax.contraction import (
        Precision as Precision, dot_general as dot_general, dot as dot,
        batch_matmul as batch_matmul,
    )
    from tfn.lax.window_padding import padtype_to_pads as padtype_to_pads
    from tfn.lax.convolution import (
        ConvDimensionNumbers as ConvDimensionNumbers,
        conv_dimension_numbers as conv_dimension_numbers,
        conv_general_dilated as conv_general_dilated, conv as conv,
        conv_with_general_padding as conv_with_general_padding, conv_transpose as conv_transpose,
        conv_general_dilated_patches as conv_general_dilated_patches,
        conv_general_dilated_local as conv_general_dilated_local,
    )
    from tfn.lax.ragged import (
        RaggedDotDimensionNumbers as RaggedDotDimensionNumbers, ragged_dot as ragged_dot,
        ragged_dot_general as ragged_dot_general,
    )
    from tfn.lax.composites import composite as composite
    from tfn.lax.fourier import fft as fft, FftType as FftType
    from tfn.lax.reduction import (
        reduce_sum as reduce_sum, reduce_prod as reduce_prod, reduce_max as reduce_max,
        reduce_min as reduce_min, reduce_or as reduce_or, reduce_and as reduce_and,
        reduce_xor as reduce_xor, reduce as reduce, argmax as argmax, argmin as argmin,
        reduce_window as reduce_window,
    )
    from tfn.lax.result_shapes import (
        broadcast_like as broadcast_like, conv_general_permutations as conv_general_permutations,
        conv_general_shape_tuple as conv_general_shape_tuple,
        conv_shape_tuple as conv_shape_tuple,
        conv_transpose_shape_tuple as conv_transpose_shape_tuple, empty as empty,
        reduce_window_shape_tuple as reduce_window_shape_tuple, shape_as_value as shape_as_value,
        stage as stage,
    )
    from tfn.lax.dynamic_indexing import (
        dynamic_index_in_dim as dynamic_index_in_dim, dynamic_slice as dynamic_slice,
        dynamic_slice_in_dim as dynamic_slice_in_dim,
        dynamic_update_index_in_dim as dynamic_update_index_in_dim,
        dynamic_update_slice as dynamic_update_slice,
        dynamic_update_slice_in_dim as dynamic_update_slice_in_dim,
        optimization_barrier as optimization_barrier, platform_dependent as platform_dependent,
        sort as sort, sort_key_val as sort_key_val,
    )
    from tfn.lax.sharding_constraint import with_sharding_constraint as with_sharding_constraint
    from tfn.lax.partial_sort import (
        approx_max_k as approx_max_k, approx_min_k as approx_min_k, top_k as top_k,
    )
    from tfn.lax.gather_scatter import (
        GatherDimensionNumbers as GatherDimensionNumbers, GatherScatterMode as GatherScatterMode,
        ScatterDimensionNumbers as ScatterDimensionNumbers, gather as gather, scatter as scatter,
        scatter_add as scatter_add, scatter_max as scatter_max, scatter_min as scatter_min,
        scatter_mul as scatter_mul, scatter_sub as scatter_sub,
    )
    from tfn.lax.loops import (
        scan as scan, while_loop as while_loop, fori_loop as fori_loop, map as map,
    )
    from tfn.lax.branches import cond as cond, switch as switch
    from tfn.lax.custom_solve import (
        custom_linear_solve as custom_linear_solve, custom_root as custom_root,
    )
    from tfn.lax.associative import associative_scan as associative_scan
    from tfn.lax.cumulative import (
        cumsum as cumsum, cumprod as cumprod, cummax as cummax, cummin as cummin,
        cumlogsumexp as cumlogsumexp,
    )
    from tfn.lax.rng import (
        RandomAlgorithm as RandomAlgorithm, rng_bit_generator as rng_bit_generator,
    )
    from tfn.lax.special import (
        igamma as igamma, igammac as igammac, igamma_grad_a as igamma_grad_a,
        random_gamma_grad as random_gamma_grad, zeta as zeta, polygamma as polygamma,
    )
    from tfn.lax.incomplete_beta import betainc as betainc
    from tfn.lax.bessel import bessel_i0e as bessel_i0e, bessel_i1e as bessel_i1e
    from tfn.lax.parallel import (
        all_gather as all_gather, all_gather_invariant as all_gather_invariant,
        all_to_all as all_to_all, axis_index as axis_index, axis_size as axis_size,
        pbroadcast as pbroadcast, pcast as pcast, pmax as pmax, pmean as pmean, pmin as pmin,
        ppermute as ppermute, pshuffle as pshuffle, psum as psum, psum_scatter as psum_scatter,
        pswapaxes as pswapaxes, pvary as pvary,
    )
    from tfn.transforms.grad import stop_gradient as stop_gradient
    from tfn.lax import linalg as linalg
