"""Optimizers: pairs of pure functions, `init` and `update`, by the protocol of optax.

``state = optimizer.init(params)``; then, for each step,
``updates, state = optimizer.update(gradients, state, params)`` and
``params = apply_updates(params, updates)``.  Parts are joined by `chain`.

Files in reading order:
    protocol    the protocol of optimizers, `chain`, `apply_updates`
    transforms  gradient transformations: scaling, momentum, second moments, weight decay
    clipping    gradient clipping
    factored    factored second moments, for adafactor
    optimizers  sgd, adam, adamw, nadam, radam, muon, lion, rmsprop, adagrad, lamb, adafactor
    wrappers    masked, multi_steps, accumulate, apply_if_finite, inject_hyperparams
    schedules   learning rates as functions of the number of steps
"""

# ruff: noqa: I001  (reading order)

from tfn.nn.optim.protocol import (
    EmptyState as EmptyState,
    GradientTransformation as GradientTransformation,
    Params as Params,
    Rate as Rate,
    Schedule as Schedule,
    State as State,
    Updates as Updates,
    apply_updates as apply_updates,
    chain as chain,
    identity as identity,
    stateless as stateless,
)
from tfn.nn.optim.transforms import (
    add_decayed_weights as add_decayed_weights,
    ema as ema,
    scale as scale,
    scale_by_adam as scale_by_adam,
    scale_by_learning_rate as scale_by_learning_rate,
    scale_by_lion as scale_by_lion,
    scale_by_muon as scale_by_muon,
    scale_by_radam as scale_by_radam,
    scale_by_rms as scale_by_rms,
    scale_by_rss as scale_by_rss,
    scale_by_schedule as scale_by_schedule,
    scale_by_stddev as scale_by_stddev,
    scale_by_trust_ratio as scale_by_trust_ratio,
    set_to_zero as set_to_zero,
    trace as trace,
)
from tfn.nn.optim.clipping import (
    clip as clip,
    clip_by_block_rms as clip_by_block_rms,
    clip_by_global_norm as clip_by_global_norm,
    global_norm as global_norm,
)
from tfn.nn.optim.factored import (
    scale_by_factored_rms as scale_by_factored_rms,
    scale_by_param_block_rms as scale_by_param_block_rms,
)
from tfn.nn.optim.optimizers import (
    adafactor as adafactor,
    adagrad as adagrad,
    adam as adam,
    adamw as adamw,
    lamb as lamb,
    lion as lion,
    muon as muon,
    nadam as nadam,
    radam as radam,
    rmsprop as rmsprop,
    sgd as sgd,
)
from tfn.nn.optim.wrappers import (
    accumulate as accumulate,
    apply_if_finite as apply_if_finite,
    inject_hyperparams as inject_hyperparams,
    masked as masked,
    multi_steps as multi_steps,
)
from tfn.nn.optim.schedules import (
    constant_schedule as constant_schedule,
    cosine_decay_schedule as cosine_decay_schedule,
    exponential_decay as exponential_decay,
    join_schedules as join_schedules,
    linear_schedule as linear_schedule,
    piecewise_constant_schedule as piecewise_constant_schedule,
    polynomial_schedule as polynomial_schedule,
    warmup_cosine_decay_schedule as warmup_cosine_decay_schedule,
)
