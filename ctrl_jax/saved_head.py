"""Heads on disk: an auxiliary alone, with the hash of the model it belongs to.

A workdir of `task.name="auxiliary_tuning"` or "side_tuning" holds one;
`Head.save` writes one as a folder of its own:

  head.json          sizes, the base's hash, the attributes it was trained on
  head.safetensors   its parameters, by path
"""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from ctrl_jax import errors, saved_part
from ctrl_jax.data import files
from ctrl_jax.interop import hugging_face
from ctrl_jax.models.auxiliary import AuxiliaryConfig
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.models.side import SideConfig
from ctrl_jax.training import checksum

_NAME = "head"
CONFIG_FILE = f"{_NAME}.json"
# What kinds there are, by the section of the configuration that sizes them.
_KINDS = {"auxiliary": AuxiliaryConfig, "side": SideConfig}
# How a model is computed, not which one it is.
_FREE = ("remat", "scan_layers", "dtype", "dropout", "vocab_multiple")
# Leaves with a row for each token.
_ROWS = (("embedding", "table"), ("head", "bias"), ("head", "table"))


@dataclasses.dataclass(frozen=True)
class Head:
  """An auxiliary or a side network, and what it must know of its training.

  Attributes:
    config: its sizes, the base's among them.
    params: its parameters.
    base_hash: `base_hash` of the model it was trained beside.
    base: where that model lay, as the configuration said.
    attributes: those of its training data; empty if they were too many.
    attribute_dropout: share of its training rows without one.
  """

  config: AuxiliaryConfig | SideConfig
  params: Any
  base_hash: str
  base: str = ""
  attributes: tuple[str, ...] = ()
  attribute_dropout: float = 0.0

  @property
  def takes_attribute(self) -> bool:
    """Whether it obeys attributes; a side network is always on instead."""
    return isinstance(self.config, AuxiliaryConfig)

  def save(self, folder) -> None:
    """Writes the head into a folder that exists."""
    sizes = dataclasses.asdict(self.config)
    base_sizes = sizes.pop("base")
    kind = "auxiliary" if self.takes_attribute else "side"
    content = dict(
        {kind: sizes},
        base_model=base_sizes,
        base_hash=self.base_hash,
        base=self.base,
        attributes=list(self.attributes),
        attribute_dropout=self.attribute_dropout,
    )
    saved_part.write(folder, _NAME, content, self.params)

  def check(self, config: TransformerConfig, params: Any, where: str) -> None:
    """Checks that a model is the one the head was trained beside.

    Args:
      config: the model's.
      params: the model's.
      where: the head's name or place, for messages.

    Raises:
      errors.UserError: another shape or vocabulary, or other parameters.
    """
    check_base(
        self.config.base, self.base_hash, config, params, where, self.base
    )


def check_base(
    wanted: TransformerConfig,
    wanted_hash: str,
    config: TransformerConfig,
    params: Any,
    where: str,
    place: str,
) -> None:
  """Checks that a model is the one that something was trained beside.

  Args:
    wanted: that model's sizes.
    wanted_hash: its `base_hash`.
    config: the sizes of the model that is there.
    params: its parameters.
    where: what was trained beside it, for messages.
    place: where that model lay; "" if not known.

  Raises:
    errors.UserError: another shape or vocabulary, or other parameters.
  """
  place = place or "unknown"
  if config.vocab_size != wanted.vocab_size:
    raise errors.UserError(
        f"{where} was trained beside a model with {wanted.vocab_size} tokens,"
        f" this one has {config.vocab_size}: load the model it belongs to"
        f" ({place})."
    )
  have, want = _identity(config), _identity(wanted)
  wrong = [k for k in want if have[k] != want[k]]
  if wrong:
    raise errors.UserError(
        f"{where} was trained beside a model with {wrong[0]}="
        f"{want[wrong[0]]!r}, this one has {have[wrong[0]]!r}: load the model"
        f" it belongs to ({place})."
    )
  if base_hash(config, params) != wanted_hash:
    raise errors.UserError(
        f"{where} was trained beside a model of the same shape with other"
        " parameters (their hashes differ): load the model it belongs to"
        f" ({place}), as it was then."
    )


def base_hash(config: TransformerConfig, params: Any) -> str:
  """Returns a hash of a model's parameters, padding of the vocabulary apart."""

  def cut(path, x):
    names = tuple(key.key for key in path)
    return np.asarray(x)[: config.vocab_size] if names in _ROWS else x

  return checksum.tree_hash(jax.tree_util.tree_map_with_path(cut, params))


def is_head(path) -> bool:
  """Whether a head lies there: a workdir that trained one, or a folder."""
  folder = pathlib.Path(files.expand(str(path)))
  if (folder / CONFIG_FILE).is_file():
    return True
  file = folder / hugging_face.CONFIG_FILE
  return file.is_file() and _kind(hugging_face.read_json(file)) is not None


def _kind(content: Mapping[str, Any]) -> str | None:
  if "cvae" in content:  # It may have an auxiliary of its own.
    return None
  return next((kind for kind in _KINDS if kind in content), None)


def read(path) -> Head:
  """Reads a head.

  Raises:
    errors.UserError: there is none, or it is damaged.
  """
  folder = pathlib.Path(files.expand(str(path)))
  if not is_head(folder):
    raise errors.UserError(
        f"{str(folder)!r} holds no head: expected a workdir of"
        " task.name='auxiliary_tuning' or 'side_tuning', or a folder with"
        f" {CONFIG_FILE}."
    )
  try:
    if (folder / CONFIG_FILE).is_file():
      return _read_folder(folder)
    return _read_workdir(folder)
  except (KeyError, TypeError, AttributeError, ValueError) as e:
    if isinstance(e, errors.UserError):
      raise
    raise errors.UserError(
        f"The head in {str(folder)!r} is damaged ({e!r}): restore it from a"
        " copy."
    ) from e


def _read_folder(folder: pathlib.Path) -> Head:
  content = hugging_face.read_json(folder / CONFIG_FILE)
  kind = _kind(content)
  config = _KINDS[kind](
      TransformerConfig(**content["base_model"]), **content[kind]
  )
  params = saved_part.read_params(folder, _NAME)
  check_params(config.init_boxed, params, f"The head in {str(folder)!r}")
  return Head(
      config,
      params,
      content["base_hash"],
      content["base"],
      tuple(content["attributes"]),
      float(content["attribute_dropout"]),
  )


def _read_workdir(folder: pathlib.Path) -> Head:
  from ctrl_jax.training import checkpoint  # Brings Orbax along.

  content = hugging_face.read_json(folder / hugging_face.CONFIG_FILE)
  manifest = hugging_face.read_json(folder / "manifest.json")
  base = TransformerConfig(vocab_size=content["vocab_size"], **content["model"])
  kind = _kind(content)
  config = _KINDS[kind](base, **content[kind])
  params = checkpoint.load_params(folder)[kind]
  check_params(config.init_boxed, params, f"The head in {str(folder)!r}")
  return Head(
      config,
      params,
      content["base_hash"],
      content["train"]["init_from"],
      tuple(manifest.get("attributes", ())),
      float(content["task"]["attribute_dropout"]),
  )


def check_params(init: Callable[..., Any], params: Any, what: str) -> None:
  """Checks shapes, and that all are finite floats.

  Args:
    init: `init(key)` makes such parameters, in boxes or not.
    params: those that were read.
    what: for messages.

  Raises:
    errors.UserError: it is not so.
  """
  wanted = jax.eval_shape(lambda k: nn.unbox(init(k)), jax.random.key(0))
  leaves = lambda tree: {
      jax.tree_util.keystr(path, simple=True, separator="/"): x
      for path, x in jax.tree_util.tree_leaves_with_path(tree)
  }
  have = leaves(params)
  want = {k: x.shape for k, x in leaves(wanted).items()}
  shapes = {k: x.shape for k, x in have.items()}
  wrong = [
      f"{k} is {shapes.get(k)}, not {want.get(k)}"
      for k in sorted(want.keys() | shapes.keys())
      if want.get(k) != shapes.get(k)
  ]
  if wrong:
    raise errors.UserError(
        f"{what} is not what its configuration says: {'; '.join(wrong[:3])}."
        " Restore it from a copy."
    )
  bad = [
      k for k, x in have.items()
      if not jnp.issubdtype(x.dtype, jnp.floating)
      or not np.isfinite(np.asarray(x)).all()
  ]
  if bad:
    raise errors.UserError(
        f"{what} has values that are not finite floats in {', '.join(bad[:3])}:"
        " use an earlier checkpoint, or restore it from a copy."
    )


def _identity(config: TransformerConfig) -> Mapping[str, Any]:
  fields = dataclasses.asdict(config)
  return {k: v for k, v in fields.items() if k not in _FREE}
