"""Sparse arrays, as trees of dense ones that every transform takes.

Files in reading order:
    coordinates  data and indices: what the functions need of them
    conversions  to and from dense arrays, other layouts; sorted and unique indices
    movement     transpose, reshape, slice, concatenate
    arithmetic   sums and products, element by element
    contraction  products of matrices: dot_general
    row_loops    products with vectors and few columns, as loops on processors
    bcoo         the class `BCOO`
    bcsr         the class `BCSR`: compressed rows
    matrices     the classes `COO`, `CSR`, `CSC`
    derivatives  grad and Jacobians by the stored elements
    creation     empty arrays, identities, random arrays
    dense_functions  functions of dense arrays that take sparse ones
    linalg       linear systems
"""

# ruff: noqa: I001  (reading order)
# fmt: off

from tfn.extend import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.experimental.sparse.conversions import (
        bcoo_extract as bcoo_extract, bcoo_sort_indices as bcoo_sort_indices,
        bcoo_sum_duplicates as bcoo_sum_duplicates, bcoo_update_layout as bcoo_update_layout,
    )
    from tfn.experimental.sparse.movement import (
        bcoo_broadcast_in_dim as bcoo_broadcast_in_dim, bcoo_concatenate as bcoo_concatenate,
        bcoo_dynamic_slice as bcoo_dynamic_slice, bcoo_reshape as bcoo_reshape,
        bcoo_rev as bcoo_rev, bcoo_slice as bcoo_slice, bcoo_squeeze as bcoo_squeeze,
        bcoo_transpose as bcoo_transpose,
    )
    from tfn.experimental.sparse.arithmetic import (
        bcoo_conv_general_dilated as bcoo_conv_general_dilated,
        bcoo_multiply_dense as bcoo_multiply_dense, bcoo_multiply_sparse as bcoo_multiply_sparse,
        bcoo_reduce_sum as bcoo_reduce_sum,
    )
    from tfn.experimental.sparse.contraction import (
        bcoo_dot_general as bcoo_dot_general, bcoo_dot_general_sampled as bcoo_dot_general_sampled,
    )
    from tfn.experimental.sparse.bcoo import (
        BCOO as BCOO, bcoo_fromdense as bcoo_fromdense, bcoo_todense as bcoo_todense,
    )
    from tfn.experimental.sparse.bcsr import (
        BCSR as BCSR, bcsr_broadcast_in_dim as bcsr_broadcast_in_dim,
        bcsr_concatenate as bcsr_concatenate, bcsr_dot_general as bcsr_dot_general,
        bcsr_extract as bcsr_extract, bcsr_fromdense as bcsr_fromdense,
        bcsr_sum_duplicates as bcsr_sum_duplicates, bcsr_todense as bcsr_todense,
    )
    from tfn.experimental.sparse.matrices import (
        COO as COO, CSC as CSC, CSR as CSR, coo_fromdense as coo_fromdense,
        coo_matmat as coo_matmat, coo_matvec as coo_matvec, coo_todense as coo_todense,
        csr_fromdense as csr_fromdense, csr_matmat as csr_matmat, csr_matvec as csr_matvec,
        csr_todense as csr_todense,
    )
    from tfn.experimental.sparse.derivatives import (
        JAXSparse as JAXSparse, grad as grad, jacfwd as jacfwd, jacobian as jacobian,
        jacrev as jacrev, value_and_grad as value_and_grad,
    )
    from tfn.experimental.sparse.creation import (
        empty as empty, eye as eye, random_bcoo as random_bcoo, todense as todense,
    )
    from tfn.experimental.sparse.dense_functions import sparsify as sparsify
    from tfn.experimental.sparse import linalg as linalg
