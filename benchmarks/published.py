"""Examples that libraries publish, with what is changed in them: fewer steps, and other data.

A row says what `programs.py` runs: repository, path, edits of the text (old, new), modules that
`stand_ins.py` has in the place of others, text that is run after it, and of a page the part whose
doctests are run. `STEPS` in an edit or text is the number of training steps, and
`__timed__(x)` iterates over `x`, or `range(x)`, and notes the time of each step.
"""

from __future__ import annotations

from typing import Any

TIMED = ("range(steps)", "__timed__(steps)")
TIMED_NUMBER = ("range(num_steps)", "__timed__(num_steps)")
EQUINOX, DIFFRAX = "patrick-kidger/equinox", "patrick-kidger/diffrax"


def row(repository: str, path: str, steps: int | None = None, **more: Any) -> dict[str, Any]:
    """A row: `steps` is the number of training steps."""
    return {"kind": "published", "repository": repository, "path": path, "steps": steps, **more}


def equinox(name: str, *edits: tuple[str, str], **more: Any) -> dict[str, Any]:
    """An example notebook of equinox."""
    return row(EQUINOX, f"docs/examples/{name}.ipynb", edits=edits, **more)


def diffrax(name: str, *edits: tuple[str, str], **more: Any) -> dict[str, Any]:
    """An example notebook of diffrax."""
    return row(DIFFRAX, f"docs/examples/{name}.ipynb", edits=edits, **more)


MNIST_ENDS = """
import sys
sys.path.insert(0, BENCHMARKS)
from stand_ins import batches
import types
get_datasets = lambda config: (batches(config.batch_size, STEPS), batches(config.batch_size, 2))
logging.info = print
sys.path.insert(0, "configs")
from default import get_config
config = get_config()
config.num_epochs = 1
train_and_evaluate(config, "out")
"""

LM1B_ENDS = """
import sys, numpy as np
from configs.default import get_config
config = get_config()
config.update(dict(vocab_size=2048, num_layers=2, emb_dim=128, qkv_dim=128, mlp_dim=512,
    num_heads=4, per_device_batch_size=16, max_target_length=64, use_bfloat16=False,
    warmup_steps=20))
model_config = models.TransformerConfig(vocab_size=2048, output_vocab_size=2048,
    logits_via_embedding=False, dtype=jnp.float32, emb_dim=128, num_heads=4, num_layers=2,
    qkv_dim=128, mlp_dim=512, max_len=64)
mesh = Mesh(utils.create_device_mesh(config), config.mesh_axes)
rates = create_learning_rate_schedule(config.learning_rate, config.warmup_steps)
optimizer = optax.adamw(rates, b1=0.9, b2=0.98, eps=1e-9, weight_decay=config.weight_decay)
rng = jax.random.PRNGKey(config.seed)
state, annotations = utils.setup_initial_state(
    models.TransformerLM(model_config.replace(deterministic=True)), optimizer, config, rng, mesh)
data = NamedSharding(mesh, P(*config.data_sharding))
step = jax.jit(train_step, in_shardings=(annotations, data, None),
    out_shardings=(annotations, None), static_argnums=(2, 3, 4), donate_argnums=0)
tokens = np.random.zipf(1.3, (64, 16, 64)) % 2047 + 1
for i in __timed__(STEPS):
    batch = {"inputs": jnp.asarray(tokens[i % 64], jnp.int32)}
    state, metrics = step(state, batch, model_config, rates, 0.0, rng)
    if i % 10 == 0:
        print(i, {k: float(metrics[k]) for k in sorted(metrics)})
"""

PUBLISHED = [
    equinox("frozen_layer", TIMED, steps=1000),
    equinox("init_apply"),
    equinox("serialisation"),
    equinox("stateful"),
    equinox("train_rnn", TIMED, steps=200),
    equinox("unet"),
    equinox("parallelism"),
    equinox("mnist", TIMED, stand_ins=["torchvision"], steps=300),
    equinox("deep_convolutional_gan", ("num_steps = 100000", "num_steps = STEPS"),
            ("num_workers=2", "num_workers=0"), TIMED_NUMBER, stand_ins=["torchvision"], steps=12),
    equinox("vision_transformer", ("num_steps = 100000", "num_steps = STEPS"),
            ("num_layers = 6", "num_layers = 2"),
            ("range(len(test_dataset) // batch_size)", "range(2)"), TIMED_NUMBER,
            stand_ins=["torchvision"], steps=12),
    equinox("score_based_diffusion", ("num_steps=1_000_000", "num_steps=STEPS"),
            ("data = mnist()", "data = jnp.asarray(__import__('stand_ins').digits()[0][:, None])"),
            ("sample_size=10", "sample_size=2"), TIMED_NUMBER, steps=12),
    *(diffrax(name) for name in (
        "coupled_odes", "forcing", "hessian", "stiff_ode", "steady_state", "nonlinear_heat_pde",
        "underdamped_langevin_example", "sde_example",
    )),
    diffrax("kalman_filter", ("range(n_gradient_steps)", "__timed__(n_gradient_steps)"), steps=100),
    diffrax("neural_ode", ("steps_strategy=(500, 500)", "steps_strategy=(STEPS, STEPS)"), TIMED,
            steps=100),
    diffrax("neural_cde", TIMED, steps=20),
    diffrax("latent_ode", ("steps=250", "steps=STEPS"), ("save_every=50", "save_every=STEPS"),
            TIMED, steps=20),
    diffrax("neural_sde", ("steps=10000", "steps=STEPS"),
            ("dataset_size=8192", "dataset_size=1024"), TIMED, steps=12),
    diffrax("continuous_normalising_flow", ("steps=10000", "steps=STEPS"),
            ("num_samples = 5000", "num_samples = 500"), steps=12),
    row("google/flax", "examples/mnist/train.py", 12, stand_ins=["tensorflow"], after=MNIST_ENDS,
        edits=[("train_ds.as_numpy_iterator()", "__timed__(train_ds.as_numpy_iterator())")]),
    row("google/flax", "examples/lm1b/train.py", 60, stand_ins=["tensorflow", "orbax"],
        after=LM1B_ENDS),
    row("luchris429/purejaxrl", "purejaxrl/ppo.py", 40, stand_ins=["distrax", "brax", "navix"],
        edits=[
            ('"TOTAL_TIMESTEPS": 5e5', '"TOTAL_TIMESTEPS": STEPS * 512'),
            ("jax.tree_map", "jax.tree.map"),
            ("out = train_jit(rng)",
             "for _ in __timed__(3):\n        out = jax.block_until_ready(train_jit(rng))"),
        ]),
    row("pyro-ppl/numpyro", "README.md", 1000,
        part=("```python\n>>> import numpy as np", "Note that for the class of dist"),
        edits=[("mcmc.run(", "for _ in __timed__(3): mcmc.run(")]),
]  # fmt: skip
