"""Language models from files: load one, generate, train and export it.

In reading order:
    model: `load`, and the module that it gives: weights, a call, a step.
    gguf: GGUF files, without trust.
    blocks: formats of quantized weights as array code.
    weights: quantized and adapted weights, and products with them.
    config: architectures as data.
    network: the layers, and the cache of keys and values.
    tokenizer: texts as tokens.
    show: facts of a file in words.
    __main__: the command `python -m tfn.llm`.
"""

from tfn.llm.model import Model as Model
from tfn.llm.model import load as load
from tfn.llm.network import Cache as Cache
