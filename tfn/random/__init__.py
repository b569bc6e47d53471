"""Random numbers from explicit keys, equal to JAX's bit for bit.

Files in reading order:
    keys           the state as a value: key, split, fold_in
    distributions  bits, and numbers with a distribution
    choices        permutation, choice, categorical
"""

# ruff: noqa: I001  (reading order)

from tfn.random.keys import (
    Key as Key, KeyLike as KeyLike, KeyType as KeyType, key as key, PRNGKey as PRNGKey,
    split as split, fold_in as fold_in, key_data as key_data, wrap_key_data as wrap_key_data,
    clone as clone, key_impl as key_impl,
)  # fmt: skip
from tfn.random.distributions import (
    bits as bits, uniform as uniform, normal as normal, truncated_normal as truncated_normal,
    gumbel as gumbel, exponential as exponential, laplace as laplace, bernoulli as bernoulli,
    rademacher as rademacher, randint as randint,
)  # fmt: skip
from tfn.random.choices import (
    permutation as permutation, categorical as categorical, choice as choice,
)  # fmt: skip
