"""Flags of `ctrl_jax.sample` that say which latent a CVAE decodes from."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import flags

from ctrl_jax import errors, latents, saved_latents
from ctrl_jax.data import files

# How many texts each way of naming a latent by texts takes; None: any.
_BY_TEXTS = {"from-text": None, "interpolate": 2, "analogy": 3}


def define(flag_values: flags.FlagValues) -> None:
  """Defines them."""
  own = dict(flag_values=flag_values)
  flags.DEFINE_string(
      "latent", "",
      "For a CVAE: prior, a sample of p(z | prompt) for every result; mean, its"
      " mean; from-text, the mean of --latent-text; interpolate, between two of"
      " them; analogy, what is to the third as the second is to the first; or a"
      " file of ctrl_jax.encode, FILE.npz.", **own
  )
  flags.DEFINE_multi_string(
      "latent_text", [],
      "A text to encode; repeat for several. Without --latent-prompt it is a"
      " prompt, with its separator; of a VAE, a text.", **own
  )
  flags.DEFINE_multi_string(
      "latent_prompt", [],
      "The prompt of each --latent-text, with its separator.", **own
  )
  flags.DEFINE_multi_string(
      "latent_id", [], "A latent of the file; none: all of them.", **own
  )
  flags.DEFINE_integer(
      "latent_steps", 5, "interpolate: latents, both ends included.",
      lower_bound=2, **own
  )
  flags.DEFINE_bool(
      "latent_spherical", False, "interpolate: along the arc.", **own
  )


def check(values: flags.FlagValues) -> None:
  """Checks the flags before a model is loaded.

  Raises:
    errors.UserError: flags that do not go together.
  """
  kind, texts = values.latent, values.latent_text
  is_file = kind.endswith(".npz")
  if kind and kind not in (*latents.NAMES, *_BY_TEXTS) and not is_file:
    known = (*latents.NAMES, *_BY_TEXTS, "FILE.npz")
    raise errors.UserError(
        f"--latent={kind!r} is unknown. {errors.nearest(kind, known)}"
    )
  if kind in _BY_TEXTS:
    wanted = _BY_TEXTS[kind]
    if not texts or wanted not in (None, len(texts)):
      raise errors.UserError(
          f"--latent={kind} takes {wanted or 'one or more'} --latent-text, not"
          f" {len(texts)}."
      )
  elif texts or values.latent_prompt:
    raise errors.UserError(
        "--latent-text and --latent-prompt are of --latent=from-text,"
        " interpolate or analogy: give one of these."
    )
  if values.latent_prompt and len(values.latent_prompt) != len(texts):
    raise errors.UserError(
        f"{len(values.latent_prompt)} --latent-prompt for {len(texts)}"
        " --latent-text: give one for each, or none."
    )
  if values.latent_id and not is_file:
    raise errors.UserError("--latent-id is of a file: give --latent=FILE.npz.")
  if values.next_tokens and kind:
    raise errors.UserError(
        "--next-tokens shows the model's own distribution: leave out --latent."
    )


def expand(
    values: flags.FlagValues, model: Any, prompts: Sequence[Any]
) -> tuple[list[Any], Any]:
  """Puts every latent to every prompt.

  Args:
    values: the flags, checked.
    model: a `LanguageModel`.
    prompts: `data.prompts.Prompt`s.

  Returns:
    The prompts, each once for each latent and with its name, and what
    `LanguageModel.generate` takes as latent; None for none.

  Raises:
    errors.UserError: a model without latents, a text that cannot be encoded, or
      a file that cannot be used.
  """
  if not values.latent or values.latent in latents.NAMES:
    return list(prompts), values.latent or None
  names, rows = _named(values, model)
  found = [
      dataclasses.replace(prompt, latent=name)
      for prompt in prompts for name in names
  ]
  return found, np.tile(rows, (len(prompts), 1))


def _named(values, model) -> tuple[list[str], np.ndarray]:
  """Names of latents, and the latents [K, Z]."""
  kind = values.latent
  if kind not in _BY_TEXTS:
    saved = saved_latents.read(files.expand(kind))
    model.check_has_latent()
    saved.check(model)
    places = saved.places(values.latent_id)
    return [saved.ids[i] for i in places], saved.mean[places]
  model.check_has_latent()
  items = list(values.latent_text)
  if values.latent_prompt:
    items = list(zip(values.latent_prompt, items))
  means, _ = model.encode(items, values.code or None)
  if kind == "interpolate":
    steps = values.latent_steps
    path = latents.interpolate(*means, steps, values.latent_spherical)
    return [f"{i / (steps - 1):.2f}" for i in range(steps)], path
  if kind == "analogy":
    return ["analogy"], latents.analogy(*means)[None]
  return [text[:40] for text in values.latent_text], means
