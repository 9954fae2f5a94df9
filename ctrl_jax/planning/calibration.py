r"""What measured runs reached of the bound that this program puts on them.

The bounds of `planning/bounds.py` leave out work of the vector unit,
latencies, and whatever the hardware does worse than its figures. Runs of
others that published their utilisation say how much that is: the same estimate
is made for a run's shapes, and measured / bound is what to expect elsewhere.

  python -m ctrl_jax.plan --topology=v3:8x16 --decode= \
    --config=ctrl_jax/planning/calibration.py:levanter

Such runs need to be expressible as a Transformer of this package, on a slice
that the compiler knows:

- Levanter's GPT-2 of 1.4 billion parameters on a TPU v3-256, 41.7 % MFU (docs/
  Levanter-1.0-Release.md and config/gpt2_1536.yaml of stanford-crfm/levanter:
  1,536 wide, 24 heads, 48 layers, 1,024 positions, gradient checkpointing,
  bfloat16 products, float32 parameters, Adam; its default batch is 512).
- MaxText's Llama-3.1-8B on a TPU v6e-256, 4.546 seconds a step of 1,024
  sequences of 8,192 tokens (training/trillium/Llama3.1-8B-MaxText/v6e-256 of
  AI-Hypercomputer/tpu-recipes). That is 45.5 % MFU as MaxText counts, 40.4 %
  when the masked half of attention is no work, as here. Its attention is a
  kernel that never stores the scores: `scores_seconds` is what that saves, and
  the bound is that of our program without them. It keeps projections in the
  host's memory where ours computes them again.

Levanter's ratio, of a v3, stands beside every bound; on other chips MaxText's
does, too.
"""

import dataclasses
import re
from collections.abc import Iterable

import ml_collections

from ctrl_jax import config as config_lib
from ctrl_jax import errors
from ctrl_jax.planning import bounds, chips, costs

# What of `models/block.py`'s attention reads or writes scores [B, H, T, S]: its
# products, and the passes that stand in a block itself and move this much.
_PRODUCTS = re.compile(r"/bht\w,bh\w+->bh\w+/dot_general$")
_PASSES = re.compile(r"Block/(convert_element_type|reduce_sum)$")
_PASS_BYTES = 2**26


@dataclasses.dataclass(frozen=True)
class Run:
  """A public measurement.

  Attributes:
    name: what ran, and who says so.
    topology: where.
    measured: MFU, of 1.
    bound: MFU at the bound without overlap for the same shapes, of 1.
    compiler: MFU at the compiler's own estimate for them, of 1; 0 for none.
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


MAXTEXT = Run(
    name="MaxText, Llama-3.1-8B on v6e-256",
    topology="v6e:16x16",
    measured=0.404,
    bound=0.507,
    compiler=0.0,
)


def scores_seconds(
    operations: Iterable[costs.Operation], chip: chips.Chip
) -> float:
  """How much of the bound without overlap waits for attention's scores.

  An attention kernel keeps them on the chip: of its products the arithmetic is
  left, of the passes over scores (softmax, its gradient) nothing.

  Args:
    operations: of a compiled program, many positions long.
    chip: that they run on.
  """
  total = 0.0
  for o in operations:
    if o.products and _PRODUCTS.search(o.op_name):
      padded = sum(p.padded_flops(chip.mxu) for p in o.products)
      waits = bounds.product_seconds(o, chip) - padded / chip.peak
      total += o.times * waits
    elif _PASSES.search(o.op_name) and o.bytes > _PASS_BYTES:
      if not (o.products or o.collective):
        total += o.times * o.bytes / chip.bandwidth
  return total


def get_config(run: str = "levanter") -> ml_collections.ConfigDict:
  """The shapes of a measured run, as a configuration to plan.

  Args:
    run: "levanter" or "maxtext".

  Raises:
    errors.UserError: another one.
  """
  makers = {"levanter": _levanter, "maxtext": _maxtext}
  if run not in makers:
    raise errors.UserError(
        f"calibration.py:{run}: no such run. {errors.nearest(run, makers)}"
    )
  c = makers[run]()
  c.optimizer.name = "adam"
  c.mesh.update(dict(data=1, fsdp=-1))
  c.train.loss_chunk = 4096
  return c


def _levanter():
  c = config_lib.default()
  c.data.sequence_length = 1024
  c.tokenizer.vocab_size = 50_257
  c.model.update(dict(
      d_model=1536, d_ff=6144, num_layers=48, num_heads=24, max_length=1024,
      positions="learned", activation="gelu_tanh", layer_norm_epsilon=1e-5,
      scale_embedding=False, head_bias=False, dropout=0.0, vocab_multiple=2048,
      remat="full",
  ))
  c.train.batch_size = 512
  return c


def _maxtext():
  c = config_lib.default()
  c.data.sequence_length = 8192
  c.tokenizer.vocab_size = 128_256
  c.model.update(dict(
      d_model=4096, d_ff=14_336, num_layers=32, num_heads=32, num_kv_heads=8,
      max_length=8192, positions="rotary", rotary_theta=500_000.0, norm="rms",
      layer_norm_epsilon=1e-5, activation="swiglu", biases=False,
      scale_embedding=False, head_bias=False, tied_head=False, dropout=0.0,
      vocab_multiple=2048, remat="full",
  ))
  c.train.batch_size = 1024
  return c
