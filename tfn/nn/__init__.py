"""Neural networks: guests of the house, who use its public face only.

Files in reading order:
    functions     activations, softmax, one_hot
    initializers  first values of parameters
    layers        Linear, Conv2d, pooling, Dropout, norms, Embedding, MLP
    losses        cross entropies and squared errors
    optim         sgd, adam, adamw and the parts they are made of
    schedules     learning rates that depend on the step
"""

# ruff: noqa: I001  (reading order)

from tfn.nn.functions import (
    celu as celu, elu as elu, gelu as gelu, glu as glu, hard_tanh as hard_tanh,
    leaky_relu as leaky_relu, log_sigmoid as log_sigmoid, log_softmax as log_softmax,
    logsumexp as logsumexp, mish as mish, one_hot as one_hot, relu as relu, relu6 as relu6,
    selu as selu, sigmoid as sigmoid, silu as silu, soft_sign as soft_sign, softmax as softmax,
    softplus as softplus, standardize as standardize, swish as swish, tanh as tanh,
)  # fmt: skip
from tfn.nn import initializers as initializers
from tfn.nn.layers import (
    Conv2d as Conv2d, Dropout as Dropout, Embedding as Embedding, LayerNorm as LayerNorm,
    Linear as Linear, MLP as MLP, RMSNorm as RMSNorm, avg_pool as avg_pool, max_pool as max_pool,
    static as static,
)  # fmt: skip
from tfn.nn.losses import (
    huber_loss as huber_loss, l2_loss as l2_loss,
    sigmoid_binary_cross_entropy as sigmoid_binary_cross_entropy,
    softmax_cross_entropy as softmax_cross_entropy,
    softmax_cross_entropy_with_integer_labels as softmax_cross_entropy_with_integer_labels,
    squared_error as squared_error,
)  # fmt: skip
from tfn.nn import optim as optim, schedules as schedules
