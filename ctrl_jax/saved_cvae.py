"""CVAEs on disk: the workdir of a run with `task.name="cvae"`.

Its checkpoint holds the latent's parts; and the decoder, too, unless that was
frozen for good (`cvae.train_base=False`), in which case it lies elsewhere and
its hash is here, as with heads.
"""

import dataclasses
import pathlib
from typing import Any

import flax.linen as nn
import jax
import numpy as np

from ctrl_jax import errors, saved_head
from ctrl_jax.data import files
from ctrl_jax.interop import hugging_face
from ctrl_jax.models import cvae, transformer
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.models.cvae import CVAEConfig
from ctrl_jax.saved_model import SavedModel


@dataclasses.dataclass(frozen=True)
class SavedCVAE:
  """A CVAE, and what it needs to know of its training.

  Attributes:
    config: its sizes, the decoder's among them.
    params: its parameters, without the decoder's.
    model: the decoder, if it trained along; None if it was frozen.
    base: where the frozen decoder lay, as the configuration said.
    base_hash: `saved_head.base_hash` of it.
  """

  config: CVAEConfig
  params: Any
  model: SavedModel | None = None
  base: str = ""
  base_hash: str = ""

  # Refuses another model than the frozen one.
  check = saved_head.Head.check


def is_cvae(path) -> bool:
  """Whether the workdir of a CVAE lies there."""
  file = pathlib.Path(files.expand(str(path))) / hugging_face.CONFIG_FILE
  return file.is_file() and "cvae" in hugging_face.read_json(file)


def read(path) -> SavedCVAE:
  """Reads the newest checkpoint of a workdir.

  Raises:
    errors.UserError: there is none, or it is damaged.
  """
  folder = pathlib.Path(files.expand(str(path)))
  if not is_cvae(folder):
    raise errors.UserError(
        f"{str(folder)!r} holds no CVAE: expected a workdir of"
        " task.name='cvae'."
    )
  try:
    return _read(folder)
  except (KeyError, TypeError, AttributeError, ValueError) as e:
    if isinstance(e, errors.UserError):
      raise
    raise errors.UserError(
        f"The CVAE in {str(folder)!r} is damaged ({e!r}): restore it from a"
        " copy."
    ) from e


def _read(folder: pathlib.Path) -> SavedCVAE:
  from ctrl_jax.training import checkpoint  # Brings Orbax along.

  content = hugging_face.read_json(folder / hugging_face.CONFIG_FILE)
  manifest = hugging_face.read_json(folder / "manifest.json")
  base = TransformerConfig(vocab_size=content["vocab_size"], **content["model"])
  sizes = {
      f.name: content["cvae"][f.name]
      for f in dataclasses.fields(CVAEConfig) if f.name != "base"
  }
  config = CVAEConfig(base, **sizes)
  params = checkpoint.load_params(folder)
  _check(config, params, folder)
  model = None
  if "base" in params:
    model = SavedModel(
        base, params["base"], folder / "tokenizer", manifest.get("prior"),
        manifest.get("codes"), manifest.get("sequence_length"),
    )
  return SavedCVAE(
      config, params["cvae"], model, content["train"]["init_from"],
      content.get("base_hash", ""),
  )


def _check(config: CVAEConfig, params: Any, folder: pathlib.Path) -> None:
  """Refuses other leaves than the configuration's, and NaN."""

  def init(key):
    base = transformer.init_boxed(config.base, key)
    return nn.unbox(dict(base=base, cvae=cvae.init_boxed(config, base, key)))

  wanted = jax.eval_shape(init, jax.random.key(0))
  wanted = {part: wanted[part] for part in params}
  shapes = lambda tree: jax.tree.map(lambda x: tuple(x.shape), tree)
  if "cvae" not in params or shapes(params) != shapes(wanted):
    raise errors.UserError(
        f"The checkpoint in {str(folder)!r} is not of the CVAE in its"
        " config.json: restore config.json."
    )
  for path, x in jax.tree_util.tree_leaves_with_path(params):
    if not np.isfinite(np.asarray(x)).all():
      name = jax.tree_util.keystr(path, simple=True, separator="/")
      raise errors.UserError(
          f"The CVAE in {str(folder)!r} has values that are not finite in"
          f" {name}: use an earlier checkpoint."
      )
