"""Runs of optax on a small problem, by the public names of JAX alone.

Run with JAX, it records what there is to compare with:

    python tests/compat/optax_runs.py > tests/data/optax.json

With ``--tfn``, ``import jax`` means tfn.
"""

import json
import sys

if "--tfn" in sys.argv:
    from tfn.compat import install_as_jax

    install_as_jax()

import jax
import jax.numpy as jnp
import numpy as np
import optax

STEPS = 10

# fmt: off
OPTIMISERS = {
    "adabelief": (0.1,), "adadelta": (1.0,), "adafactor": (0.1,), "adagrad": (0.5,),
    "adam": (0.1,), "adamax": (0.1,), "adamaxw": (0.1,), "adamw": (0.1,), "adan": (0.1,),
    "amsgrad": (0.1,), "fromage": (0.1,), "lamb": (0.1,), "lars": (0.1,), "lbfgs": (),
    "lion": (0.1,), "nadam": (0.1,), "nadamw": (0.1,), "noisy_sgd": (0.1, 0.01, 0.55, 7),
    "novograd": (0.1,),
    "optimistic_adam": (0.1,), "optimistic_adam_v2": (0.1,),
    "optimistic_gradient_descent": (0.1,), "polyak_sgd": (), "radam": (0.1,), "rmsprop": (0.1,),
    "rprop": (0.1,), "sgd": (0.1,), "sign_sgd": (0.1,), "signum": (0.1,), "sm3": (0.1,),
    "yogi": (0.1,),
}
MORE = {
    "adam-factors": lambda: optax.adafactor(0.1, min_dim_size_to_factor=2),
    "sgd-nesterov": lambda: optax.sgd(0.1, momentum=0.9, nesterov=True),
    "rmsprop-centered": lambda: optax.rmsprop(0.1, centered=True, momentum=0.9),
    "chain": lambda: optax.chain(
        optax.clip_by_global_norm(0.1), optax.scale_by_adam(), optax.add_decayed_weights(0.01),
        optax.scale_by_learning_rate(optax.warmup_cosine_decay_schedule(0.0, 0.5, 3, 9))),
    "multi-steps": lambda: optax.MultiSteps(optax.adam(0.1), 2),
    "masked": lambda: optax.masked(optax.sgd(0.1), {"b": False, "w": True}),
    "hyperparameters": lambda: optax.inject_hyperparams(optax.sgd)(
        optax.linear_schedule(0.1, 0.0, 10)),
    "finite": lambda: optax.apply_if_finite(optax.adam(0.1), 2),
    "average": lambda: optax.chain(optax.sgd(0.1), optax.ema(0.5)),
}
SCHEDULES = {
    "constant": lambda: optax.constant_schedule(0.3),
    "linear": lambda: optax.linear_schedule(1.0, 0.0, 8, 2),
    "polynomial": lambda: optax.polynomial_schedule(1.0, 0.1, 2, 7),
    "exponential": lambda: optax.exponential_decay(1.0, 3, 0.5, staircase=True),
    "cosine": lambda: optax.cosine_decay_schedule(1.0, 9, 0.1),
    "warmup_cosine": lambda: optax.warmup_cosine_decay_schedule(0.0, 1.0, 4, 11),
    "warmup_exponential": lambda: optax.warmup_exponential_decay_schedule(0.0, 1.0, 3, 4, 0.5),
    "piecewise": lambda: optax.piecewise_constant_schedule(1.0, {3: 0.5, 6: 0.1}),
    "interpolated": lambda: optax.piecewise_interpolate_schedule("cosine", 1.0, {3: 0.5, 8: 0.1}),
    "one_cycle": lambda: optax.cosine_onecycle_schedule(12, 1.0),
    "restarts": lambda: optax.sgdr_schedule([
        {"init_value": 0.0, "peak_value": 1.0, "decay_steps": 5, "warmup_steps": 1},
        {"init_value": 0.0, "peak_value": 0.5, "decay_steps": 7, "warmup_steps": 2}]),
}
# fmt: on

X = np.sin(1.3 * np.arange(24, dtype="float32")).reshape(8, 3)
Y = np.stack([np.sin(3 * X.sum(1)), np.cos(X[:, 0])], 1).astype("float32")
W = np.cos(np.arange(6, dtype="float32")).reshape(3, 2)
FIRST = {"w": W, "b": np.float32([0.5, -0.5])}
LABELS = np.array([0, 1, 1, 0, 1, 0, 0, 1])
LOGITS = np.float32(np.sin(np.arange(16) * 1.7).reshape(8, 2) * 3)
TARGETS = np.float32(np.eye(2)[LABELS])

LOSSES = {
    "squared_error": lambda x: optax.squared_error(x, TARGETS),
    "l2_loss": lambda x: optax.l2_loss(x, TARGETS),
    "huber_loss": lambda x: optax.huber_loss(x, TARGETS, delta=0.5),
    "log_cosh": lambda x: optax.log_cosh(x, TARGETS),
    "cosine_distance": lambda x: optax.cosine_distance(x, TARGETS),
    "sigmoid_binary_cross_entropy": lambda x: optax.sigmoid_binary_cross_entropy(x, TARGETS),
    "softmax_cross_entropy": lambda x: optax.softmax_cross_entropy(x, TARGETS),
    "integer_labels": lambda x: optax.softmax_cross_entropy_with_integer_labels(x, LABELS),
    "poly": lambda x: optax.losses.poly_loss_cross_entropy(x, TARGETS, epsilon=2.0),
    "hinge": lambda x: optax.hinge_loss(x, 2 * TARGETS - 1),
    "kl_divergence": lambda x: optax.kl_divergence(jax.nn.log_softmax(x), TARGETS),
    "generalized_kl": lambda x: optax.losses.generalized_kl_divergence(
        jax.nn.log_softmax(x), TARGETS + 0.5
    ),
    "focal": lambda x: optax.sigmoid_focal_loss(x, TARGETS, alpha=0.3),
    "smoothed": lambda x: optax.softmax_cross_entropy(x, optax.smooth_labels(TARGETS, 0.1)),
    "triplet": lambda x: optax.losses.triplet_margin_loss(x, TARGETS, x[::-1]),
    "ntxent": lambda x: optax.ntxent(x, LABELS),
    "ranking": lambda x: optax.losses.ranking_softmax_loss(x, TARGETS),
    "ctc": lambda x: optax.ctc_loss(
        x.reshape(2, 4, 2), np.zeros((2, 4), "f"), np.ones((2, 2), "i"), np.zeros((2, 2), "f")
    ),
    "sparsemax": lambda x: optax.losses.sparsemax_loss(x, TARGETS),
}


def loss(params, x=X, y=Y):
    """The squared error of one layer."""
    return jnp.mean((jnp.tanh(x @ params["w"] + params["b"]) - y) ** 2)


def flat(params):
    """All numbers of a tree."""
    return [float(v) for leaf in jax.tree.leaves(params) for v in np.ravel(np.asarray(leaf))]


def train(optimiser, compiled=True):
    """The parameters after some steps."""
    if hasattr(optimiser, "gradient_transformation"):  # MultiSteps
        optimiser = optimiser.gradient_transformation()
    optimiser = optax.with_extra_args_support(optimiser)

    def step(params, state):
        value, grads = jax.value_and_grad(loss)(params)
        updates, state = optimiser.update(
            grads, state, params, value=value, grad=grads, value_fn=loss
        )
        return optax.apply_updates(params, updates), state

    step = jax.jit(step) if compiled else step
    params = jax.tree.map(jnp.asarray, FIRST)
    state = optimiser.init(params)
    for _ in range(STEPS):
        params, state = step(params, state)
    return flat(params)


def scanned():
    """Ten steps of adam as one loop, for three learning rates side by side."""

    def run(rate):
        optimiser = optax.adam(rate)

        def step(carry, _):
            params, state = carry
            value, grads = jax.value_and_grad(loss)(params)
            updates, state = optimiser.update(grads, state)
            return (optax.apply_updates(params, updates), state), value

        first = jax.tree.map(jnp.asarray, FIRST)
        (params, _), values = jax.lax.scan(step, (first, optimiser.init(first)), None, STEPS)
        return params, values

    return flat(jax.jit(jax.vmap(run))(jnp.array([0.01, 0.1, 0.3])))


def unrolled():
    """The derivative of a loss after three steps to the learning rate."""

    def after(rate):
        optimiser = optax.sgd(rate, momentum=0.9)
        params = jax.tree.map(jnp.asarray, FIRST)
        state = optimiser.init(params)
        for _ in range(3):
            updates, state = optimiser.update(jax.grad(loss)(params), state)
            params = optax.apply_updates(params, updates)
        return loss(params)

    return flat(jax.value_and_grad(after)(0.1))


def losses(name):
    """The values of a loss and the gradient of their sum."""
    values = jax.jit(LOSSES[name])(LOGITS)
    return flat((values, jax.grad(lambda x: LOSSES[name](x).sum())(LOGITS)))


def scheduled(name):
    """The values of a schedule at the first steps, by themselves and as lanes of a vmap."""
    schedule = SCHEDULES[name]()
    return flat([[schedule(i) for i in range(12)], jax.vmap(schedule)(jnp.arange(12))])


def cases():
    """Name and function of each thing to do."""
    for name, arguments in OPTIMISERS.items():
        yield f"optimiser {name}", lambda n=name, a=arguments: train(getattr(optax, n)(*a))
    for name, make in MORE.items():
        yield f"optimiser {name}", lambda m=make: train(m())
    for name in SCHEDULES:
        yield f"schedule {name}", lambda n=name: scheduled(n)
    for name in LOSSES:
        yield f"loss {name}", lambda n=name: losses(n)
    yield "eager adam", lambda: train(optax.adam(0.1), compiled=False)
    yield "scan and vmap", scanned
    yield "grad through steps", unrolled


def main():
    """Print what each case gives, as JSON; what breaks is a text."""
    actual = {}
    for name, case in cases():
        try:
            actual[name] = case()
        except Exception as error:
            if "--tfn" not in sys.argv:
                raise
            actual[name] = f"{type(error).__name__}: {error}"
    print("{" + ",\n".join(f"{json.dumps(n)}: {json.dumps(v)}" for n, v in actual.items()) + "}")


if __name__ == "__main__":
    main()
