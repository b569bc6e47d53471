"""Random numbers from explicit keys, equal to JAX's bit for bit.

Files in reading order:
    keys           the state of the generator as a value: key, split, fold_in
    distributions  random bits; uniform, normal, exponential, integers
    transformed    cauchy, logistic, pareto and others, by one formula each
    gamma_family   gamma, and beta, dirichlet, t and others derived from it
    discrete       poisson, binomial, multinomial
    multivariate   multivariate_normal, orthogonal
    choices        permutation, choice, categorical
"""

# ruff: noqa: I001  (reading order)
# fmt: off

from tfn._support.lazy import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.random.keys import (
        Key as Key, KeyLike as KeyLike, key as key, PRNGKey as PRNGKey, split as split,
        fold_in as fold_in, key_data as key_data, key_dtype as key_dtype,
        wrap_key_data as wrap_key_data,
        clone as clone,
        key_impl as key_impl,
    )
    from tfn.random.distributions import (
        bits as bits, uniform as uniform, normal as normal, truncated_normal as truncated_normal,
        gumbel as gumbel, exponential as exponential, laplace as laplace, bernoulli as bernoulli,
        rademacher as rademacher, randint as randint,
    )
    from tfn.random.transformed import (
        cauchy as cauchy, logistic as logistic, maxwell as maxwell,
        double_sided_maxwell as double_sided_maxwell, pareto as pareto, lognormal as lognormal,
        rayleigh as rayleigh, weibull_min as weibull_min, wald as wald, triangular as triangular,
        geometric as geometric,
    )
    from tfn.random.gamma_family import (
        ball as ball, beta as beta, chisquare as chisquare, dirichlet as dirichlet, f as f,
        gamma as gamma, generalized_normal as generalized_normal, loggamma as loggamma, t as t,
    )
    from tfn.random.discrete import (
        binomial as binomial, multinomial as multinomial, poisson as poisson,
    )
    from tfn.random.multivariate import (
        multivariate_normal as multivariate_normal, orthogonal as orthogonal,
    )
    from tfn.random.choices import (
        permutation as permutation, categorical as categorical, choice as choice,
    )
