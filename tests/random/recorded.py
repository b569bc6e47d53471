"""Recorded results of `jax.random`, by the names that JAX and tfn share.

Run with JAX, it records what there is to compare with:

    python tests/random/recorded.py > tests/data/random.json
    JAX_ENABLE_X64=1 python tests/random/recorded.py > tests/data/random_x64.json
"""

import json

import numpy as np

f = np.float32
FLOATING = ("float32", "float16", "bfloat16")
N = (5,)


def cases(random, jnp, grad):
    """Name and function of each thing to draw."""
    key = random.key(7)

    def simple(name, *arguments, shape=N, **options):
        return name, lambda: getattr(random, name)(key, *arguments, shape, **options)

    for dtype in FLOATING:
        for name in ("cauchy", "logistic", "maxwell"):
            yield f"{name} {dtype}", simple(name, dtype=dtype)[1]
    yield "bernoulli high", lambda: random.bernoulli(key, 0.3, N, mode="high")
    yield "gumbel high", lambda: random.gumbel(key, N, mode="high")
    logits = np.log(f([0.1, 0.2, 0.7]))
    yield "categorical high", lambda: random.categorical(key, logits, shape=N, mode="high")
    yield simple("double_sided_maxwell", f(1), f(2))
    yield simple("pareto", f(2.5))
    yield simple("lognormal", f(0.5))
    yield simple("rayleigh", f(2))
    yield simple("weibull_min", f(2), f(1.5))
    yield simple("wald", f(1.5))
    yield simple("triangular", f(-1), f(0.5), f(2))
    for p in (0.1, 0.5, 0.9):
        yield f"geometric {p}", simple("geometric", f(p))[1]
    for a in (0.05, 0.3, 1.0, 2.5, 100.0):
        yield f"gamma {a}", simple("gamma", f(a))[1]
        yield f"loggamma {a}", simple("loggamma", f(a))[1]
    yield "gamma half", lambda: random.gamma(key, np.float16(0.7), N, "float16")
    yield "gamma rows", lambda: random.gamma(key, jnp.array([[0.5], [3.0]]), (2, 3))
    yield "beta", lambda: random.beta(key, f(0.5), jnp.array([2.0, 0.1]), (3, 2))
    yield "dirichlet", lambda: random.dirichlet(key, jnp.array([0.5, 1.0, 3.0]), (2,))
    yield simple("chisquare", f(3))
    yield simple("f", f(3), f(4))
    yield simple("t", f(3))
    yield simple("generalized_normal", 1.5)
    yield "ball 2", lambda: random.ball(key, 3, 2, N)
    yield "ball 1", lambda: random.ball(key, 2, 1, N)
    for rate in (0.0, 0.5, 9.9, 10.0, 37.0, 1e4):
        yield f"poisson {rate}", simple("poisson", f(rate))[1]
    yield "poisson rows", lambda: random.poisson(key, jnp.array([0.1, 50.0]), (3, 2))
    for n, p in (
        (10, 0.3),
        (10, 0.7),
        (1000, 0.5),
        (1000, 0.9),
        (0, 0.5),
        (5, 0.0),
        (5, 1.0),
        (-1, 0.5),
        (np.inf, 0.5),
        (3, np.nan),
    ):
        yield f"binomial {n} {p}", simple("binomial", f(n), f(p))[1]
    yield "multinomial", lambda: random.multinomial(key, f(100), jnp.array([0.2, 0.3, 0.5]))
    rows = jnp.array([[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]])
    yield "multinomial rows", lambda: random.multinomial(key, jnp.array([10.0, 20.0]), rows)
    cov = jnp.array([[2.0, 0.5], [0.5, 1.0]])
    yield (
        "multivariate_normal",
        lambda: random.multivariate_normal(key, jnp.array([1.0, 2]), cov, N),
    )
    for n, shape, m in ((3, (), None), (3, (2,), 2), (2, (), 4)):
        yield (
            f"orthogonal {n} {shape} {m}",
            lambda n=n, s=shape, m=m: random.orthogonal(key, n, s, m=m),
        )
    for a in (0.3, 2.5, 30.0):
        yield f"grad gamma {a}", lambda a=a: grad(lambda a: random.gamma(key, a))(f(a))
        yield f"grad loggamma {a}", lambda a=a: grad(lambda a: random.loggamma(key, a))(f(a))
        yield f"grad beta {a}", lambda a=a: grad(lambda a: random.beta(key, a, f(2)))(f(a))
        yield f"grad t {a}", lambda a=a: grad(lambda a: random.t(key, a))(f(a))

    for name in ("normal", "uniform", "exponential", "gumbel", "laplace", "rademacher"):
        yield simple(name)
    yield "bits", lambda: random.bits(key, N) % 65521  # which float64 holds
    yield "randint", lambda: random.randint(key, N, -5, 1000)
    yield "bernoulli", lambda: random.bernoulli(key, 0.3, N)
    yield "truncated_normal", lambda: random.truncated_normal(key, -1, 2, N)
    yield "categorical", lambda: random.categorical(key, logits, shape=N)
    yield "choice", lambda: random.choice(key, 9, N)
    yield "choice p", lambda: random.choice(key, 3, N, p=f([0.1, 0.2, 0.7]))
    yield "choice distinct", lambda: random.choice(key, 9, N, replace=False)
    yield "permutation", lambda: random.permutation(key, 9)


def flat(x):
    """The shape and the numbers of an array."""
    return [list(np.shape(x)), np.asarray(x, np.float64).ravel().tolist()]


if __name__ == "__main__":
    import jax

    found = {name: flat(case()) for name, case in cases(jax.random, jax.numpy, jax.grad)}
    print("{" + ",\n".join(f"{json.dumps(n)}: {json.dumps(v)}" for n, v in found.items()) + "}")
