"""Flags of `ctrl_jax.sample` that say which heads steer, and how much."""

import os
from collections.abc import Sequence
from typing import Any

from absl import flags

from ctrl_jax import errors


def define(flag_values: flags.FlagValues) -> None:
  """Defines them."""
  own = dict(flag_values=flag_values)
  flags.DEFINE_multi_string(
      "attribute", [],
      "What the text is to obey, for a model with a head that Auxiliary Tuning"
      " made; NAME=ATTRIBUTE for several heads.", **own
  )
  flags.DEFINE_multi_string(
      "weight", [],
      "How much the head counts, 1 if not given, 0 for not at all;"
      " NAME=WEIGHT for several.",
      **own
  )
  flags.DEFINE_float(
      "guidance", 1.0,
      "Classifier-free guidance: above 1 strengthens the attribute.", **own
  )
  flags.DEFINE_multi_string(
      "head", [], "Workdir or folder of a further head; [NAME=]FOLDER.", **own
  )
  flags.DEFINE_string(
      "base", "",
      "If --model is a head or LoRA's: where its frozen model lies now.", **own
  )


def generate_options(values: flags.FlagValues) -> dict[str, Any]:
  """Returns what `LanguageModel.generate` takes of them.

  Raises:
    errors.UserError: flags that do not go together, or a bad value.
  """
  if not values.attribute and not values.weight:
    if values["guidance"].present:
      raise errors.UserError(
          "--guidance is of a head: give its --attribute, too."
      )
    return {}
  if values.next_tokens:
    raise errors.UserError(
        "--next-tokens shows the model's own distribution: leave out"
        " --attribute and --weight."
    )
  weights = _by_name("weight", values.weight)
  for name, value in weights.items():
    try:
      weights[name] = float(value)
    except ValueError as e:
      raise errors.UserError(f"--weight={value} must be a number.") from e
  attributes = _by_name("attribute", values.attribute)
  return dict(
      attribute=attributes.get("", attributes) or None,
      weight=weights.get("", weights) if weights else 1.0,
      guidance=values.guidance,
  )


def _by_name(flag: str, items: Sequence[str]) -> dict[str, str]:
  """Returns {name: value} of NAME=VALUE items, {"": value} of one without."""
  if len(items) == 1 and "=" not in items[0]:
    return {"": items[0]}
  found = {}
  for item in items:
    name, equals, value = item.partition("=")
    if not equals or not name or name in found:
      raise errors.UserError(
          f"--{flag}={item}: several are written NAME=VALUE, each name once."
      )
    found[name] = value
  return found


def load_options(values: flags.FlagValues) -> dict[str, Any]:
  """Returns what `ctrl_jax.load` takes of them."""
  options = {}
  if values.base:
    options["base"] = values.base
  if values.head:
    options["heads"] = dict(map(_head, values.head))
  return options


def _head(item: str) -> tuple[str, str]:
  name, equals, folder = item.partition("=")
  if equals:
    return name, folder
  return os.path.basename(os.path.normpath(item)), item
