r"""What measured runs reached of the bound that this program puts on them.

The bounds of `planning/bounds.py` leave out work of the vector unit,
latencies, and whatever the hardware does worse than its figures. Runs of
others that published their utilisation say how much that is: the same estimate
is made for a run's shapes, and measured / bound is what to expect elsewhere.

  python -m ctrl_jax.plan --config=ctrl_jax/planning/calibration.py \
    --topology=v3:8x16 --decode=

Such runs need to be expressible as a Transformer of this package, on a slice
that the compiler knows. One is:

- Levanter's GPT-2 of 1.4 billion parameters on a TPU v3-256, 41.7 % MFU (docs/
  Levanter-1.0-Release.md and config/gpt2_1536.yaml of stanford-crfm/levanter:
  1,536 wide, 24 heads, 48 layers, 1,024 positions, gradient checkpointing,
  bfloat16 products, float32 parameters, Adam; its default batch is 512).

MaxText's Llama-3.1-8B on v6e-256 (45 %) is not: grouped keys, gated
feed-forward layers and attention kernels that never store the scores, at
8,192 positions, make another program. So the ratio below, of a v3, stands for
the other chips too until one of them is measured.
"""

import dataclasses

import ml_collections

from ctrl_jax import config as config_lib


@dataclasses.dataclass(frozen=True)
class Run:
  """A public measurement.

  Attributes:
    name: what ran, and who says so.
    topology: where.
    measured: MFU, of 1.
    bound: MFU at the bound without overlap for the same shapes, of 1.
    compiler: MFU at the compiler's own estimate for them, of 1.
  """

  name: str
  topology: str
  measured: float
  bound: float
  compiler: float

  @property
  def ratio(self) -> float:
    """Measured speed over the bound's."""
    return self.measured / self.bound

  @property
  def compiler_ratio(self) -> float:
    """Measured speed over the compiler's estimate."""
    return self.measured / self.compiler


LEVANTER = Run(
    name="Levanter, GPT-2 1.4B on v3-256",
    topology="v3:8x16",
    measured=0.417,
    bound=0.457,
    compiler=0.352,
)


def get_config() -> ml_collections.ConfigDict:
  """The shapes of Levanter's run, as a configuration to plan."""
  c = config_lib.default()
  c.data.sequence_length = 1024
  c.tokenizer.vocab_size = 50_257
  c.model.update(dict(
      d_model=1536, d_ff=6144, num_layers=48, num_heads=24, max_length=1024,
      positions="learned", activation="gelu_tanh", layer_norm_epsilon=1e-5,
      scale_embedding=False, head_bias=False, dropout=0.0, vocab_multiple=2048,
      remat="full",
  ))
  c.optimizer.name = "adam"
  c.mesh.update(dict(data=1, fsdp=-1))
  c.train.batch_size = 512
  c.train.loss_chunk = 4096
  return c
