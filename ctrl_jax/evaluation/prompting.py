"""Zero- and few-shot prompts: a task told to a model that is not trained.

For the keyword task of Auxiliary Tuning's paper, whose Table 1 has GPT-3's
few-shot prompting (Brown et al. 2020, arXiv 2005.14165): an instruction, or
examples of the task, and then the prefix to continue. Templates are those of
the data (`{keyword}`, `{prefix}`, `{text}`).
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ctrl_jax import errors
from ctrl_jax.data import templates


@dataclasses.dataclass(frozen=True)
class Templates:
  """How a task is put into words.

  Attributes:
    instruction: in front of everything; "" for none.
    query: what is to be continued; it ends with the prefix, so that what
      follows is the continuation.
    example: a solved one: `query` with the text behind it.
    between: stands behind each example; it ends a result, too.
  """

  instruction: str
  query: str
  example: str
  between: str = "\n\n"


ZERO_SHOT = Templates(
    instruction="",
    query='A sentence with the word "{keyword}": {prefix}',
    example='A sentence with the word "{keyword}": {prefix}{text}',
)
FEW_SHOT = Templates(
    instruction="Each sentence holds its word.\n\n",
    query="Word: {keyword}\nSentence: {prefix}",
    example="Word: {keyword}\nSentence: {prefix}{text}",
)


class Prompt(NamedTuple):
  """A prompt.

  Attributes:
    text: what the model continues.
    examples: how many examples it shows.
  """

  text: str
  examples: int


def zero_shot(
    query: Mapping[str, str], words: Templates = ZERO_SHOT
) -> Prompt:
  """Returns an instruction and the query.

  Args:
    query: fields that the template names, `keyword` and `prefix`.
    words: the templates.

  Raises:
    errors.UserError: the query lacks a field.

  Example:

  >>> zero_shot(dict(keyword="soon", prefix="It is")).text
  'A sentence with the word "soon": It is'
  """
  text = templates.render(words.query, query, "The query")
  return Prompt(words.instruction + text, 0)


def few_shot(
    query: Mapping[str, str],
    pool: Sequence[Mapping[str, str]],
    k: int,
    *,
    tokenizer: Any,
    room: int,
    number: int = 0,
    seed: int = 0,
    words: Templates = FEW_SHOT,
) -> Prompt:
  """Returns `k` examples and the query, or as many as there is room for.

  Examples are drawn without replacement, for each query its own, and taken in
  that order; one that does not fit is passed over for a shorter one.

  Args:
    query: fields that the template names, `keyword` and `prefix`.
    pool: training rows with `text`, too. Those of the query's own prefix are
      never shown.
    k: examples, at least 1.
    tokenizer: of the model.
    room: tokens that the prompt may have: the model's window less its control
      code and the result (see `room_for`).
    number: the query's place in its set.
    seed: of the draw, with `number`.
    words: the templates.

  Raises:
    errors.UserError: k below 1, an empty pool, or no room for one example.
  """
  if k < 1:
    raise errors.UserError(f"k={k} must be at least 1: examples in a prompt.")
  rng = np.random.default_rng([seed, number])
  asked = templates.render(words.query, query, "The query")
  shown, text = [], words.instruction + asked
  # A draw's worth of rows is enough: most fit.
  for place in rng.permutation(len(pool))[: 20 * k]:
    row = pool[int(place)]
    if row.get("prefix") == query.get("prefix"):
      continue
    example = templates.render(words.example, row, f"Example {place + 1}")
    longer = words.instruction + words.between.join([*shown, example, asked])
    if len(tokenizer.encode(longer)) <= room:
      shown.append(example)
      text = longer
    if len(shown) == k:
      break
  if not shown:
    raise errors.UserError(
        f"No example of {len(pool)} fits into {room} tokens with the query:"
        " give shorter examples, or room for more (fewer new tokens)."
    )
  return Prompt(text, len(shown))


def room_for(model: Any, code: str | None, max_new_tokens: int) -> int:
  """Tokens that a prompt may have for a result to fit in the window, too.

  Args:
    model: a `LanguageModel`.
    code: the control code in front; None for none.
    max_new_tokens: the result's.

  Raises:
    errors.UserError: there is no room, or an unknown code.
  """
  tokenizer = model.tokenizer
  front = tokenizer.begin_ids if code is None else tokenizer.code_ids(code)
  room = model.config.max_length - len(front) - max_new_tokens
  if room < 1:
    raise errors.UserError(
        f"max_new_tokens={max_new_tokens} leaves no room for a prompt in the"
        f" model's window of {model.config.max_length}: ask for fewer."
    )
  return room
