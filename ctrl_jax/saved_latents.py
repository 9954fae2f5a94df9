"""Files of latents: texts that a CVAE encoded, to decode from or to compare.

One .npz file (NumPy's, without pickles):

  ids            N strings, what each text is called
  mean           float32 [N, Z]
  log_variance   float32 [N, Z]
  model          hash of the CVAE and its decoder
"""

import dataclasses
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from ctrl_jax import errors, saved_head
from ctrl_jax.evaluation import output
from ctrl_jax.training import checksum


@dataclasses.dataclass(frozen=True)
class SavedLatents:
  """Encoded texts.

  Attributes:
    ids: N different names.
    mean: float32 [N, Z].
    log_variance: float32 [N, Z].
    model: `model_hash` of what encoded them.
    file: where they lie, for messages.
  """

  ids: tuple[str, ...]
  mean: np.ndarray
  log_variance: np.ndarray
  model: str
  file: str = ""

  def save(self, file) -> None:
    """Writes the file, all of it or nothing."""
    buffer = io.BytesIO()
    np.savez(
        buffer, ids=np.array(self.ids, np.str_), mean=self.mean,
        log_variance=self.log_variance, model=np.str_(self.model),
    )
    output.write_bytes(file, buffer.getvalue())

  def check(self, model: Any) -> None:
    """Checks that a model can decode them.

    Args:
      model: a `LanguageModel` with a CVAE.

    Raises:
      errors.UserError: latents of another size, or of another model.
    """
    size = model.cvae.config.latent_size
    if self.mean.shape[1] != size:
      raise errors.UserError(
          f"The latents in {self.file!r} have {self.mean.shape[1]} numbers,"
          f" this model's {size}: give the model that encoded them, or encode"
          " the texts again with this one."
      )
    if self.model != model_hash(model):
      raise errors.UserError(
          f"The latents in {self.file!r} are of another model (their hashes"
          " differ) and mean nothing to this one: give the model that encoded"
          " them, or encode the texts again."
      )

  def places(self, ids: Sequence[str]) -> list[int]:
    """Returns where some latents are; all of them when none is named.

    Raises:
      errors.UserError: there is no such id.
    """
    places = {name: place for place, name in enumerate(self.ids)}
    for name in ids:
      if name not in places:
        raise errors.UserError(
            f"{self.file!r} has no latent {name!r}."
            f" {errors.nearest(name, self.ids)}"
        )
    return [places[name] for name in ids or self.ids]


def model_hash(model: Any) -> str:
  """Returns a hash of a CVAE and its decoder, of a `LanguageModel`."""
  decoder = saved_head.base_hash(model.config, model.params)
  return f"{decoder}-{checksum.tree_hash(model.cvae.params)}"


def read(file) -> SavedLatents:
  """Reads a file of latents.

  Raises:
    errors.UserError: it is none, or damaged.
  """
  file = str(file)
  try:
    with np.load(file, allow_pickle=False) as content:
      found = SavedLatents(
          tuple(map(str, content["ids"])), content["mean"],
          content["log_variance"], str(content["model"]), file,
      )
  except FileNotFoundError as e:
    raise errors.UserError(
        f"There is no file of latents {file!r}: make it with python -m"
        " ctrl_jax.encode."
    ) from e
  # NumPy, zipfile and zlib raise a dozen kinds over damaged bytes, MemoryError
  # over a shape that cannot be.
  except Exception as e:
    raise errors.UserError(
        f"{file!r} is no file of latents, or a damaged one"
        f" ({type(e).__name__}): make it again with python -m ctrl_jax.encode."
    ) from e
  shape = found.mean.shape
  if len(shape) != 2 or found.log_variance.shape != shape or shape[0] != len(
      set(found.ids)
  ) or not all(
      x.dtype == np.float32 and np.isfinite(x).all()
      for x in (found.mean, found.log_variance)
  ):
    raise errors.UserError(
        f"{file!r} is damaged (shapes, names or numbers that cannot be): make"
        " it again with python -m ctrl_jax.encode."
    )
  return found
