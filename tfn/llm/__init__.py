"""Language models from files: load one, generate, train and export it.

In reading order:
    model: `load`, and the module that it gives: weights, a call, a step.
    gguf: GGUF files, without trust.
    folder: folders of Hugging Face's.
    blocks: formats of quantized weights as array code.
    weights: quantized and adapted weights, and products with them.
    config: architectures as data.
    network: the layers, and the cache of keys and values.
    tokenizer: texts as tokens.
    generation: prompts and answers for one reader.
    engine: answers to many, computed together.
    answer: an answer in the making.
    sampling: which token follows.
    grammar: the grammar of JSON.
    template: chats as texts, in a process that can do no harm.
    template_worker: that process.
    lora: adapters, by which a model is trained.
    measure: perplexity and speed.
    serve: the server.
    show: facts of a file in words.
    __main__: the command `python -m tfn.llm`.
"""

from tfn.llm.answer import Piece as Piece
from tfn.llm.lora import Adapter as Adapter
from tfn.llm.lora import adapt as adapt
from tfn.llm.lora import adapters as adapters
from tfn.llm.model import Model as Model
from tfn.llm.model import load as load
from tfn.llm.network import Cache as Cache
from tfn.llm.sampling import Sampling as Sampling
