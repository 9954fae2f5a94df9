"""The original CTRL's checkpoints: a model, and Adagrad's accumulators."""

import re
from typing import Any, NamedTuple

from ctrl_jax import errors
from ctrl_jax.interop import assemble, layouts, tensorflow_checkpoint
from ctrl_jax.models.config import TransformerConfig

SLOT = "/Adagrad"
_STEP = "global_step"  # The number of updates, which is no weight.
# The release: heads of 80.
_D_MODEL, _NUM_HEADS = 1280, 16


class Original(NamedTuple):
  """What a checkpoint holds.

  Attributes:
    config: sizes from the tensors' shapes.
    params: the parameters, float32, leaf by leaf.
    accumulators: Adagrad's, a whole tree; None where there are none.
  """

  config: TransformerConfig
  params: assemble.Stored
  accumulators: dict[str, Any] | None


def open_checkpoint(
    path,
    *,
    num_heads: int | None = None,
    max_length: int = 256,
    with_accumulators: bool = False,
) -> Original:
  """Opens a checkpoint of the original CTRL, of any number of layers.

  Args:
    path: see `tensorflow_checkpoint.Checkpoint`.
    num_heads: which the file does not say; None for the release's 16 at width
      1280.
    max_length: the window it was trained with; positions are computed, so any
      number works.
    with_accumulators: whether to read Adagrad's accumulators, too.

  Raises:
    errors.UserError: no checkpoint of CTRL, or one that is damaged; tensors
      that are missing, surplus or misshapen are listed.
  """
  checkpoint = tensorflow_checkpoint.Checkpoint(path)
  entries = checkpoint.entries
  config = _config(checkpoint, num_heads, max_length)
  wanted = layouts.tensorflow_ctrl(config.num_layers)
  weights = {
      name: entry.shape for name, entry in entries.items()
      if not name.endswith(SLOT) and name != _STEP
  }
  where = str(checkpoint.prefix)
  params = assemble.Stored(config, wanted, weights, checkpoint.read, where)
  accumulators = None
  slots = {
      name.removesuffix(SLOT): entry.shape for name, entry in entries.items()
      if name.endswith(SLOT)
  }
  if with_accumulators and slots:
    accumulators = assemble.assemble(
        config, wanted, slots, lambda name: checkpoint.read(name + SLOT),
        f"{where} (accumulators)",
    )
  return Original(config, params, accumulators)


def _config(checkpoint, num_heads, max_length) -> TransformerConfig:
  entries = checkpoint.entries
  layers = {
      m[1] for m in (re.match(r"encoder/(encoder_layer(_\d+)?)/", name)
                     for name in entries) if m
  }
  table = entries.get("w")
  up = entries.get(
      "encoder/encoder_layer/sequential/dense_4/kernel"
  )
  if not layers or table is None or up is None or not (
      len(table.shape) == len(up.shape) == 2
  ):
    raise errors.UserError(
        f"{checkpoint.prefix} is no checkpoint of CTRL: it has none of `w`,"
        " `encoder/encoder_layer/...`."
    )
  vocab_size, d_model = table.shape
  if num_heads is None:
    if d_model != _D_MODEL:
      raise errors.UserError(
          f"{checkpoint.prefix} does not say how many attention heads it has:"
          " give num_heads (`python -m ctrl_jax.convert --num-heads=N` makes a"
          " folder that says it)."
      )
    num_heads = _NUM_HEADS
  return TransformerConfig(
      vocab_size=vocab_size,
      d_model=d_model,
      d_ff=up.shape[1],
      num_layers=len(layers),
      num_heads=num_heads,
      max_length=max_length,
  )
