"""Neural networks: layers, losses, optimizers, data and checkpoints.

Files in reading order:
    functions      activations, softmax, one_hot
    initializers   initial values of parameters
    module         frozen dataclasses that are pytrees; tree_at, partition, combine, summary
    layers         Linear, Embedding, Dropout, DropPath, MLP, Sequential
    convolution    Conv1d to Conv3d, and transposed ones
    pooling        max pooling and average pooling
    normalization  LayerNorm, RMSNorm, GroupNorm, InstanceNorm, BatchNorm
    attention      dot-product and multi-head attention, rotary positions, key-value cache
    recurrent      LSTM and GRU, as cells and over sequences
    transformer    feed-forward networks, transformer blocks, stacks of equal modules
    losses         cross entropies and squared errors
    optim          sgd, adam and other optimizers, gradient transformations, schedules
    quantize       int8 networks: calibration, requantization, quantization-aware training
    safetensors    files of named arrays: bytes, headers, checksums
    fields         static fields of modules as texts in files
    state          trees of arrays in files of the format safetensors
    store          blocks named by their digests, on one or many hosts
    hosts          the processes that train together, and their agreements
    checkpoint     checkpoints of a run, of any mesh and number of hosts, written meanwhile
    permutation    orders of rows that no memory holds
    data           batches in an order that a key determines, from any position
    writers        numbers of a training loop in CSV files and event files of TensorBoard
    progress       a progress bar with losses and speed, log lines, and plots of them

The last nine are loaded at their first use.  All files use the public API of tfn.
"""

# ruff: noqa: I001  (reading order)

from tfn._support.lazy import on_demand as _on_demand
from tfn.nn.functions import (
    celu as celu,
    elu as elu,
    gelu as gelu,
    glu as glu,
    hard_sigmoid as hard_sigmoid,
    hard_silu as hard_silu,
    hard_swish as hard_swish,
    hard_tanh as hard_tanh,
    identity as identity,
    leaky_relu as leaky_relu,
    log1mexp as log1mexp,
    log_sigmoid as log_sigmoid,
    log_softmax as log_softmax,
    logmeanexp as logmeanexp,
    logsumexp as logsumexp,
    mish as mish,
    one_hot as one_hot,
    relu as relu,
    relu6 as relu6,
    selu as selu,
    sigmoid as sigmoid,
    silu as silu,
    soft_sign as soft_sign,
    softmax as softmax,
    softplus as softplus,
    sparse_plus as sparse_plus,
    sparse_sigmoid as sparse_sigmoid,
    squareplus as squareplus,
    standardize as standardize,
    swish as swish,
    tanh as tanh,
)
from tfn.nn import initializers as initializers
from tfn.nn.module import (
    cast as cast,
    combine as combine,
    filter as filter,
    is_array as is_array,
    is_inexact_array as is_inexact_array,
    module as module,
    parameter_count as parameter_count,
    partition as partition,
    static as static,
    summary as summary,
    tree_at as tree_at,
)
from tfn.nn.layers import (
    Dropout as Dropout,
    DropPath as DropPath,
    Embedding as Embedding,
    Lambda as Lambda,
    Linear as Linear,
    MLP as MLP,
    Sequential as Sequential,
)
from tfn.nn.convolution import (
    Conv1d as Conv1d,
    Conv2d as Conv2d,
    Conv3d as Conv3d,
    ConvTranspose1d as ConvTranspose1d,
    ConvTranspose2d as ConvTranspose2d,
    ConvTranspose3d as ConvTranspose3d,
)
from tfn.nn.pooling import (
    adaptive_avg_pool as adaptive_avg_pool,
    avg_pool as avg_pool,
    max_pool as max_pool,
)
from tfn.nn.normalization import (
    BatchNorm as BatchNorm,
    BatchNormState as BatchNormState,
    GroupNorm as GroupNorm,
    InstanceNorm as InstanceNorm,
    LayerNorm as LayerNorm,
    RMSNorm as RMSNorm,
)
from tfn.nn.attention import (
    KVCache as KVCache,
    MultiheadAttention as MultiheadAttention,
    dot_product_attention as dot_product_attention,
    rotary as rotary,
)
from tfn.nn.recurrent import (
    GRU as GRU,
    GRUCell as GRUCell,
    LSTM as LSTM,
    LSTMCell as LSTMCell,
    LSTMState as LSTMState,
)
from tfn.nn.transformer import (
    FeedForward as FeedForward,
    Stack as Stack,
    TransformerBlock as TransformerBlock,
)
from tfn.nn.losses import (
    cosine_similarity as cosine_similarity,
    hinge_loss as hinge_loss,
    huber_loss as huber_loss,
    kl_divergence as kl_divergence,
    l2_loss as l2_loss,
    log_cosh as log_cosh,
    sigmoid_binary_cross_entropy as sigmoid_binary_cross_entropy,
    softmax_cross_entropy as softmax_cross_entropy,
    softmax_cross_entropy_with_integer_labels as softmax_cross_entropy_with_integer_labels,
    smooth_labels as smooth_labels,
    squared_error as squared_error,
)
from tfn.nn import optim as optim
from tfn.nn.optim import schedules as schedules

with _on_demand(globals()):
    from tfn.nn import checkpoint as checkpoint
    from tfn.nn import data as data
    from tfn.nn import hosts as hosts
    from tfn.nn import permutation as permutation
    from tfn.nn import progress as progress
    from tfn.nn import quantize as quantize
    from tfn.nn import state as state
    from tfn.nn import store as store
    from tfn.nn import writers as writers
