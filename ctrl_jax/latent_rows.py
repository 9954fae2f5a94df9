"""What a call of `LanguageModel.generate` gives to the decoder's rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ctrl_jax import errors, latents
from ctrl_jax.decoding.continuation import encode_prompt


def make(
    model: Any,
    latent: Any,
    prompts: Sequence[str],
    codes: Sequence[str | None],
    num_samples: int,
    seed: int,
) -> np.ndarray | None:
  """Returns what `decoding.generate` takes as `latents`; None for nothing.

  Args:
    model: a `LanguageModel`.
    latent: see `LanguageModel.generate`.
    prompts: of the call.
    codes: a control code, or None, for each.
    num_samples: results a prompt.
    seed: of samples of the prior.

  Raises:
    errors.UserError: a latent for a model without one, none for a decoder that
      was trained with one, or see `latents.of_call` and `source_rows`.
  """
  own = model.cvae
  if own is not None and not own.config.has_latent and latent is None:
    return source_rows(
        own.config, model.tokenizer, prompts, codes, num_samples
    )
  if latent is None:
    if own is not None and own.trained_along:
      raise errors.UserError(
          "This model's decoder was trained with a latent: say which, as"
          " latent='prior' or latent='mean' (--latent=prior)."
      )
    return None
  model.check_has_latent()
  size = own.config.latent_size

  def prior():
    if own.config.prior == "learned":
      return latents.Gaussian(*model.encode(list(prompts), codes))
    zeros = np.zeros((len(prompts), size), np.float32)
    return latents.Gaussian(zeros, zeros)

  def encode_items(items):
    theirs = codes if len(items) == len(codes) else codes[:1] * len(items)
    return latents.Gaussian(*model.encode(items, theirs))

  shape = (len(prompts), num_samples, size)
  return latents.of_call(latent, shape, seed, prior, encode_items)


def source_rows(
    config: Any,
    tokenizer: Any,
    prompts: Sequence[str],
    codes: Sequence[str | None],
    num_samples: int,
) -> np.ndarray:
  """Returns prompts as the encoder reads them, int32 [prompts, samples, 1 + M].

  How many tokens each has, then these, padded: see `decoding.latents.inject`.

  Args:
    config: a `CVAEConfig` without a latent; M is its `source_length`.
    tokenizer: of the model.
    prompts: with their separator.
    codes: a control code, or None, for each.
    num_samples: results a prompt.

  Raises:
    errors.UserError: a prompt of more than M tokens.
  """
  size = config.source_length
  found = np.zeros((len(prompts), 1 + size), np.int32)
  for row, prompt, code in zip(found, prompts, codes, strict=True):
    ids, _ = encode_prompt(tokenizer, prompt, code)
    if len(ids) > size:
      raise errors.UserError(
          f"The prompt {prompt[:40]!r} has {len(ids)} tokens, its control code"
          f" included, more than the {size} that the encoder was trained to"
          " read (cvae.source_length): shorten it."
      )
    row[0] = len(ids)
    row[1 : 1 + len(ids)] = ids
  return np.repeat(found[:, None], num_samples, 1)
