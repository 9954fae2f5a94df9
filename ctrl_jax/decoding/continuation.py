"""Text from text: prompts and control codes in, results out."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ctrl_jax import errors
from ctrl_jax.decoding.generator import Generator, Row
from ctrl_jax.decoding.options import GenerationOptions
from ctrl_jax.decoding.texts import GrowingText


@dataclasses.dataclass(frozen=True)
class Generation:
  """One result.

  Attributes:
    text: what was generated, without the prompt, the end symbol or the stop
      string.
    token_ids: the generated ids; with the stop string's, without the end
      symbol's.
    finished: why it ended: "end" (the end symbol), "stop" (a stop string) or
      "length" (`max_new_tokens`).
    prompt: the text continued.
    code: its control code, None for none.
  """

  text: str
  token_ids: list[int]
  finished: str
  prompt: str
  code: str | None


def encode_prompt(
    tokenizer: Any, prompt: str, code: str | None
) -> tuple[list[int], int]:
  """Returns the prompt's ids, control code first, and the code's length.

  What the tokenizer begins every text with counts as the code's.

  Raises:
    errors.UserError: an unknown code, or neither prompt nor code.
  """
  code_ids = list(
      tokenizer.begin_ids if code is None else tokenizer.code_ids(code)
  )
  ids = [*code_ids, *tokenizer.encode(prompt)]
  if not ids:
    raise errors.UserError(
        "The prompt is empty and there is no control code: give one of them"
        f" (codes: {', '.join(list(tokenizer.codes)[:20]) or 'none'})."
    )
  return ids, len(code_ids)


def banned_tokens(
    tokenizer: Any, vocab_size: int, options: GenerationOptions
) -> np.ndarray:
  """Returns bool [V]: codes' reserved words, the unknown token, `options.ban`.

  Raises:
    errors.UserError: an id outside the vocabulary, or a string that no token
      contains.
  """
  banned = token_mask(tokenizer, vocab_size, "ban", options.ban)
  # Rows of a model's table that its tokenizer has no token for.
  banned[tokenizer.vocab_size:] = True
  banned[list(tokenizer.reserved_ids)] = True
  if tokenizer.unknown_id is not None and options.ban_unknown:
    banned[tokenizer.unknown_id] = True
  if tokenizer.end_id is not None and tokenizer.end_id not in options.ban:
    banned[tokenizer.end_id] = False
  return banned


def token_mask(
    tokenizer: Any,
    vocab_size: int,
    field: str,
    items: Sequence[int | str],
    *,
    whole: bool = False,
) -> np.ndarray:
  """Returns bool [V], True for the tokens that `items` name.

  Args:
    tokenizer: gives the tokens' texts.
    vocab_size: V.
    field: the option's name, for messages.
    items: ids, or strings that a token's text contains.
    whole: a string must be a token's whole text.

  Raises:
    errors.UserError: an id outside the vocabulary, or a string of no token.
  """
  mask = np.zeros(vocab_size, bool)
  texts = None
  for item in items:
    if isinstance(item, str):
      if texts is None:
        texts = [tokenizer.decode([i]) for i in range(tokenizer.vocab_size)]
      ids = [
          i for i, text in enumerate(texts)
          if (item == text if whole else item in text)
      ]
      if not ids:
        raise errors.UserError(
            f"{field}={item!r}: no token {'is' if whole else 'contains'} it;"
            " give a shorter string."
        )
      mask[ids] = True
    elif 0 <= item < vocab_size:
      mask[item] = True
    else:
      raise errors.UserError(
          f"{field}={item}: token ids are 0 to {vocab_size - 1}."
      )
  return mask


def masks(
    tokenizer: Any, vocab_size: int, options: GenerationOptions
) -> dict[str, np.ndarray | None]:
  """What `Generator.run` wants to know of tokens; None where nothing is."""
  banned_after = exempt = None
  if options.ban_after:
    banned_after = token_mask(
        tokenizer, vocab_size, "ban_after", options.ban_after
    )
  if options.penalty_exempt:
    exempt = token_mask(
        tokenizer, vocab_size, "penalty_exempt", options.penalty_exempt,
        whole=True,
    )
  banned = banned_tokens(tokenizer, vocab_size, options)
  return dict(banned=banned, banned_after=banned_after, exempt=exempt)


def generate(
    generator: Generator,
    tokenizer: Any,
    prompts: Sequence[str],
    codes: str | None | Sequence[str | None] = None,
    options: GenerationOptions | None = None,
    on_text: Callable[[int, int, str], None] | None = None,
    weighted: Sequence[tuple[str, float]] = (),
    attributes: Sequence[Sequence[Sequence[int]]] | None = None,
    latents: np.ndarray | None = None,
) -> list[list[Generation]]:
  """Continues each prompt under its control code.

  Args:
    generator: the model.
    tokenizer: `encode`, `decode`, `code_ids`, `codes`, `begin_ids`,
      `unknown_id`, `end_id`, `vocab_size`, `reserved_ids`; see
      `text.Tokenizer`.
    prompts: texts; an empty one needs a code.
    codes: one for all, or one a prompt.
    options: the defaults when None.
    on_text: called with (prompt's place, sample's number, new text) as soon as
      the text cannot change.
    weighted: terms that are added, (name of a head of the generator, weight).
    attributes: for each prompt, the ids of an attribute for each term.
    latents: float32 [prompts, samples, Z], of a generator that has a CVAE.

  Returns:
    For each prompt, `options.num_samples` results.

  Raises:
    errors.UserError: nothing to continue, an unknown code, a bad ban.
  """
  options = options or GenerationOptions()
  if codes is None or isinstance(codes, str):
    codes = [codes] * len(prompts)
  if len(codes) != len(prompts):
    raise errors.UserError(
        f"{len(prompts)} prompts, but {len(codes)} codes: give one code for all"
        " or one a prompt."
    )
  rows, texts = [], []
  for place, (prompt, code) in enumerate(zip(prompts, codes)):
    ids, num_code = encode_prompt(tokenizer, prompt, code)
    for sample in range(options.num_samples):
      own = () if attributes is None else attributes[place]
      row = Row(
          ids, num_code, (place, sample), attributes=tuple(map(tuple, own)),
          latent=() if latents is None else tuple(
              latents[place, sample].tolist()
          ),
      )
      rows.append(row)
      texts.append(
          GrowingText(row, tokenizer, options.stop, _bind(on_text, row))
      )
  follow = {row.number: text for row, text in zip(rows, texts)}
  generator.run(
      rows,
      options,
      **masks(tokenizer, generator.config.vocab_size, options),
      end_id=tokenizer.end_id,
      weighted=weighted,
      on_block=(
          (lambda row: follow[row.number].update())
          if options.stop or on_text is not None else None
      ),
  )
  results = [[] for _ in prompts]
  for row, text in zip(rows, texts):
    if not (options.stop or on_text is not None):
      text.update()
    place = row.number[0]
    results[place].append(
        Generation(
            text.text, row.ids, row.finished, prompts[place], codes[place]
        )
    )
  return results


def _bind(on_text, row):
  if on_text is None:
    return None
  return lambda piece: on_text(*row.number, piece)
