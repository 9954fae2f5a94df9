"""The model's distribution after a prompt (the paper's Figure 1)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ctrl_jax import errors
from ctrl_jax.decoding import window
from ctrl_jax.decoding.continuation import encode_prompt
from ctrl_jax.decoding.generator import Generator


class NextToken(NamedTuple):
  """A token that may come next, and its probability under the model."""

  text: str
  token_id: int
  probability: float


def next_tokens(
    generator: Generator,
    tokenizer: Any,
    prompt: str,
    code: str | None = None,
    n: int = 10,
) -> list[NextToken]:
  """Returns the `n` most probable next tokens, the most probable first.

  The model's own softmax over the whole vocabulary: no penalty, bans or
  temperature.

  Raises:
    errors.UserError: n below 1, neither prompt nor code, an unknown code;
      logits that are not finite.
  """
  if n < 1:
    raise errors.UserError(f"next_tokens={n} must be at least 1.")
  ids, num_code = encode_prompt(tokenizer, prompt, code)
  size = generator.config.max_length
  ids = window.visible(ids, num_code, size, stride=1)
  logits = generator.next_logits([ids])[0].astype(np.float32)
  if not np.isfinite(logits).all():
    raise errors.UserError(
        "The model's logits are not finite: its parameters are broken, use an"
        " earlier checkpoint."
    )
  probabilities = np.exp(logits - logits.max())
  probabilities /= probabilities.sum()
  top = np.argsort(-probabilities, kind="stable")[:n].tolist()
  return [
      NextToken(_text(tokenizer, ids, i), i, float(probabilities[i]))
      for i in top
  ]


def _text(tokenizer: Any, ids: Sequence[int], token: int) -> str:
  """The token's text as it would follow `ids`, its leading space kept."""
  context = list(ids[-16:])
  before = tokenizer.decode(context)
  after = tokenizer.decode([*context, token])
  if after.startswith(before) and after != before:
    return after[len(before):]
  # The end symbol and the like are no text.
  return tokenizer.decode([token]) or tokenizer.tokens[token]
