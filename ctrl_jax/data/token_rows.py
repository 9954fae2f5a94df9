"""Rows of token ids that another tool made: do they fit this data set?"""

from collections.abc import Sequence

import numpy as np

from ctrl_jax import errors
from ctrl_jax.data import sequences


def cut(
    tokens: np.ndarray,
    where: str,
    *,
    code: str,
    code_ids: Sequence[int],
    vocab_size: int,
    width: int,
) -> sequences.Rows:
  """Returns a row as `sequences.cut` makes it: one row of that width.

  Args:
    tokens: int32 [n], the control code in front.
    where: the record's place, for messages.
    code: the control code that it must begin with; "" for none.
    code_ids: its ids.
    vocab_size: ids are below it.
    width: W, the most tokens.

  Raises:
    errors.UserError: another code, an id outside the vocabulary, or too many
      tokens.
  """
  if list(tokens[: len(code_ids)]) != list(code_ids):
    raise errors.UserError(
        f"{where} begins with token {tokens[0]}, not with {code!r},"
        f" {list(code_ids)}: check tokenizer.path, and that this is the code"
        " that the records were made with."
    )
  if tokens.max() >= vocab_size:
    raise errors.UserError(
        f"{where} has token {tokens.max()}, outside the vocabulary of"
        f" {vocab_size}: another tokenizer made it."
    )
  if len(tokens) > width:
    raise errors.UserError(
        f"{where} has {len(tokens) - 1} tokens: raise"
        f" data.sequence_length={width - 1}."
    )
  text = tokens[len(code_ids):]
  return sequences.cut(text, np.ones(text.size, np.uint8), code_ids, width)
