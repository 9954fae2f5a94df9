"""LoRA's workdirs: the additions alone, merged into their model when read."""

import pathlib
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from ctrl_jax import errors, saved_head
from ctrl_jax.models import lora
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.models.lora import LoraConfig


def is_lora(content: Any) -> bool:
  """Whether a `config.json` is of a workdir of `task.name="lora"`."""
  return isinstance(content, dict) and isinstance(content.get("lora"), dict)


def merged(
    folder: pathlib.Path,
    content: Mapping[str, Any],
    config: TransformerConfig,
    base_config: TransformerConfig,
    base_params: Any,
) -> Any:
  """Returns the parameters of the model that a workdir of LoRA stands for.

  Args:
    folder: the workdir.
    content: its `config.json`.
    config: the model's sizes, as the workdir says them.
    base_config: of the frozen model that was found.
    base_params: its parameters, a tree.

  Raises:
    errors.UserError: the frozen model is not that of the training, or the
      additions are damaged.
  """
  from ctrl_jax.training import checkpoint  # Brings Orbax along.

  saved_head.check_base(
      config, content.get("base_hash"), base_config, base_params,
      f"LoRA's addition in {str(folder)!r}",
      content.get("train", {}).get("init_from", ""),
  )
  try:
    own = LoraConfig(config, **content["lora"])
  except TypeError as e:
    raise errors.UserError(
        f"{folder / 'config.json'}: the section `lora` is not one of this"
        f" version ({e})."
    ) from e
  params = checkpoint.load_params(folder).get("lora", {})
  saved_head.check_params(
      lambda key: lora.init_boxed(own, key), params,
      f"LoRA's addition in {str(folder)!r}",
  )
  return jax.tree.map(np.asarray, lora.merge(own, base_params, params))
