"""Flags of `ctrl_jax.sample` that are fields of `GenerationOptions`."""

import dataclasses
from typing import Any

from absl import flags

from ctrl_jax.decoding.options import (
    PENALTY_COVERS,
    PENALTY_RULES,
    WINDOW_RULES,
    GenerationOptions,
)
from ctrl_jax.decoding.presets import RULES

_DEFAULTS = GenerationOptions()


def define(flag_values: flags.FlagValues) -> None:
  """Defines them, and --rules, which says what those are that are not given."""
  own = dict(flag_values=flag_values)

  def integer(name, text):
    flags.DEFINE_integer(name, getattr(_DEFAULTS, name), text, **own)

  def number(name, text):
    flags.DEFINE_float(name, getattr(_DEFAULTS, name), text, **own)

  integer("max_new_tokens", "Tokens a result has at most.")
  integer("min_new_tokens", "No end symbol before so many tokens.")
  number("temperature", "0 is greedy.")
  integer("top_k", "Sample among the k most probable; 0 is off.")
  number("top_p", "Sample among those that sum to p; 1 is off.")
  number("penalty", "Theta of penalised sampling; 1 is off.")
  flags.DEFINE_enum(
      "penalty_rule", _DEFAULTS.penalty_rule, PENALTY_RULES,
      "Divide all seen logits, or multiply the negative ones.", **own
  )
  flags.DEFINE_multi_string(
      "ban", [], "Never generate a token that contains this.", **own
  )
  flags.DEFINE_multi_string(
      "ban_after", [], "The same, after top-k and top-p have cut.", **own
  )
  flags.DEFINE_multi_string(
      "penalty_exempt", [], "A token's text that has no penalty.", **own
  )
  flags.DEFINE_enum(
      "penalty_covers", _DEFAULTS.penalty_covers, PENALTY_COVERS,
      "Penalise tokens of prompt and result, or of the result alone.", **own
  )
  flags.DEFINE_bool(
      "ban_unknown", _DEFAULTS.ban_unknown, "Never the unknown token.", **own
  )
  flags.DEFINE_bool(
      "top_k_with_top_p", _DEFAULTS.top_k_with_top_p,
      "Beside a nucleus top-k cuts, too.", **own
  )
  flags.DEFINE_bool(
      "top_p_crossing", _DEFAULTS.top_p_crossing,
      "The nucleus keeps the token that crosses p.", **own
  )
  integer("window", "Tokens the model reads at most; 0: all it can.")
  flags.DEFINE_enum(
      "window_rule", _DEFAULTS.window_rule, WINDOW_RULES,
      "What is seen of texts longer than the window.", **own
  )
  flags.DEFINE_enum(
      "rules", "paper", RULES,
      "What the other options are unless given: as the paper, the release's"
      " generation.py, transformers, or the paper of the CVAE.", **own
  )
  flags.DEFINE_multi_string("stop", [], "End before this string.", **own)
  integer("num_samples", "Results a prompt.")
  integer("seed", "Of the random choices.")
  flags.DEFINE_bool(
      "stop_at_end", _DEFAULTS.stop_at_end, "End at the end symbol.", **own
  )
  integer(
      "stride",
      "Past the window: tokens that leave it at a time; 1 is exact and slow, 0"
      " a quarter of the window.",
  )
  integer("block_size", "Tokens between two looks at stop strings.")
  integer("batch_size", "Results computed together.")


def given(values: flags.FlagValues) -> dict[str, Any]:
  """Returns the fields that are given, and `rules`.

  Raises:
    errors.UserError: a bad value.
  """
  fields = dataclasses.fields(GenerationOptions)
  options = {
      f.name: values[f.name].value for f in fields if values[f.name].present
  }
  GenerationOptions(**options)
  return options | dict(rules=values.rules)
