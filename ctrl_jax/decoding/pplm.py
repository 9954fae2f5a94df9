"""PPLM: steering a model that is not trained, by gradients at every token.

Dathathri et al. 2020 (arXiv 1912.02164); the formulas are in `pplm_steps`.

  pplm.generate(model, "The potato", bag=["court", "judge", "law"])
  pplm.generate(model, "The potato", discriminator=d, target="positive")

The defaults are those of the original's README. A token costs about
2 * num_iterations + 2 passes of the model.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from ctrl_jax import errors
from ctrl_jax.decoding import continuation, pplm_steps
from ctrl_jax.decoding.continuation import Generation
from ctrl_jax.decoding.generator import Row, append, pad_left, round_up
from ctrl_jax.decoding.options import GenerationOptions
from ctrl_jax.decoding.pplm_discriminator import Discriminator
from ctrl_jax.decoding.pplm_steps import Amounts, Goal
from ctrl_jax.decoding.texts import GrowingText

BAG = Amounts(
    stepsize=0.03, num_iterations=3, gamma=1.5, gm_scale=0.99, window_length=5
)
DISCRIMINATOR = Amounts(
    stepsize=0.04, num_iterations=10, gamma=1.0, gm_scale=0.95
)
LONG_WORDS = ("refuse", "first", "skip")


def generate(
    model: Any,
    prompts: str | Sequence[str],
    code: str | None | Sequence[str | None] = None,
    *,
    bag: Sequence[str] | Sequence[Sequence[str]] | None = None,
    discriminator: Discriminator | None = None,
    target: str | Sequence[str] = "",
    long_words: str = "refuse",
    **options,
) -> list[list[Generation]]:
  """Continues each prompt, steered towards a bag of words or a class.

  Args:
    model: a `LanguageModel`; heads that it has are not used.
    prompts: one or several; "" with a code starts from the code.
    code: one control code for all prompts, or one a prompt.
    bag: words for all prompts, or a list of words a prompt.
    discriminator: instead, from `pplm_discriminator.train`.
    target: the class of the discriminator that is wanted, for all or one a
      prompt.
    long_words: what of words that are more than one token: "refuse"; "first"
      counts their first token; "skip" leaves them out, as the original does.
    **options: fields of `Amounts` (stepsize, num_iterations, gamma, gm_scale,
      kl_scale, window_length, horizon_length) and `GenerationOptions`, here
      with temperature 1, top_k 10 and no penalty unless given. The temperature
      is that of the fused distribution (the original's, of the moved one
      alone). The window is the model's and does not slide.

  Returns:
    For each prompt, `num_samples` results.

  Raises:
    errors.UserError: no or two goals, words that are no single token, an
      unknown class or option, values out of range, or texts that do not fit
      the model's window.

  Example:

  >>> generate(model, "The", bag=["river"])[0][0].text  # doctest: +SKIP
  ' river is'
  """
  prompts = [prompts] if isinstance(prompts, str) else list(prompts)
  if (bag is None) == (discriminator is None):
    raise errors.UserError("Give either a bag of words or a discriminator.")
  default = BAG if discriminator is None else DISCRIMINATOR
  amounts, options = _split(options, default)
  tokenizer, config = model.tokenizer, model.config
  if discriminator is None:
    goal = Goal(bag=_bags(
        tokenizer, config.vocab_size, bag, len(prompts), long_words
    ))
  else:
    goal = _class_goal(discriminator, target, len(prompts), config.d_model)
  rows, codes = _rows(tokenizer, prompts, code, options.num_samples)
  _check_room(rows, options.max_new_tokens, config.max_length)
  texts = [GrowingText(row, tokenizer, options.stop) for row in rows]
  model.generator.calls.clear()
  for first in range(0, len(rows), options.batch_size):
    batch = slice(first, first + options.batch_size)
    _run(model, rows[batch], texts[batch], options, amounts, goal)
  results = [[] for _ in prompts]
  for row, text in zip(rows, texts):
    if not options.stop:  # Else it is up to date.
      text.update()
    place = row.number[0]
    results[place].append(Generation(
        text.text, row.ids, row.finished, prompts[place], codes[place]
    ))
  return results


def bag_of_words(
    tokenizer: Any,
    vocab_size: int,
    words: Sequence[str],
    long_words: str = "refuse",
) -> np.ndarray:
  """Returns bool [V]: the tokens that stand for `words` inside a text.

  Args:
    tokenizer: see `text.Tokenizer`.
    vocab_size: V.
    words: at least one.
    long_words: see `generate`.

  Raises:
    errors.UserError: a word of several tokens with "refuse", or no word left.
  """
  if long_words not in LONG_WORDS:
    raise errors.UserError(
        f"long_words={long_words!r} is not one of"
        f" {', '.join(map(repr, LONG_WORDS))}."
    )
  mask = np.zeros(vocab_size, bool)
  for word in words:
    if not isinstance(word, str) or not word.strip():
      raise errors.UserError(f"bag: {word!r} is no word.")
    pieces = _pieces(tokenizer, word.strip())
    if len(pieces) == 1 or long_words == "first":
      mask[pieces[0]] = True
    elif long_words == "refuse":
      raise errors.UserError(
          f"bag: {word!r} is {len(pieces)} tokens, and a bag holds single ones:"
          " choose another word, or long_words='first' or 'skip'."
      )
  if not mask.any():
    raise errors.UserError(
        f"bag: none of {', '.join(map(repr, words)) or 'no words'} is a single"
        " token: choose other words, or long_words='first'."
    )
  return mask


def _pieces(tokenizer, word: str) -> list[int]:
  """The word's ids after a space, as inside a text."""
  before = tokenizer.encode("a")
  both = tokenizer.encode(f"a {word}")
  if both[: len(before)] == before and len(both) > len(before):
    return both[len(before):]
  return tokenizer.encode(word)


def _bags(tokenizer, vocab_size, bag, num_prompts, long_words) -> np.ndarray:
  bag = [bag] if isinstance(bag, str) else list(bag)
  if all(isinstance(word, str) for word in bag):
    bag = [bag] * num_prompts
  if len(bag) != num_prompts:
    raise errors.UserError(
        f"{len(bag)} bags of words for {num_prompts} prompts: give one for all"
        " or one a prompt."
    )
  return np.stack([
      bag_of_words(tokenizer, vocab_size, words, long_words) for words in bag
  ])


def _class_goal(discriminator, target, num_prompts, width) -> Goal:
  targets = [target] * num_prompts if isinstance(target, str) else list(target)
  if len(targets) != num_prompts:
    raise errors.UserError(
        f"{len(targets)} targets for {num_prompts} prompts: give one for all or"
        " one a prompt."
    )
  for name in targets:
    if name not in discriminator.classes:
      raise errors.UserError(
          f"The discriminator has no class {name!r}."
          f" {errors.nearest(str(name), discriminator.classes)}"
      )
  if discriminator.kernel.shape[0] != width:
    raise errors.UserError(
        f"The discriminator reads states of width"
        f" {discriminator.kernel.shape[0]}, the model's have {width}: train it"
        " on this model."
    )
  places = [discriminator.classes.index(name) for name in targets]
  return Goal(
      kernel=discriminator.kernel, bias=discriminator.bias,
      target=np.array(places, np.int32),
  )


def _split(options, default) -> tuple[Amounts, GenerationOptions]:
  """Parts what a call says into the two kinds, checked."""
  own = {f.name for f in dataclasses.fields(Amounts)}
  others = {f.name for f in dataclasses.fields(GenerationOptions)}
  for name in options:
    if name not in own | others:
      raise errors.UserError(
          f"Unknown option {name!r}. {errors.nearest(name, own | others)}"
      )
  amounts = dataclasses.replace(
      default, **{k: v for k, v in options.items() if k in own}
  )
  amounts.check(looks_ahead=default is DISCRIMINATOR)
  rest = {k: v for k, v in options.items() if k in others}
  usual = dict(temperature=1.0, top_k=10, penalty=1.0)
  return amounts, GenerationOptions(**usual | rest)


def _rows(tokenizer, prompts, code, num_samples) -> tuple[list[Row], list]:
  codes = code
  if code is None or isinstance(code, str):
    codes = [code] * len(prompts)
  if len(codes) != len(prompts):
    raise errors.UserError(
        f"{len(prompts)} prompts, but {len(codes)} codes: give one code for all"
        " or one a prompt."
    )
  rows = []
  for place, (prompt, own) in enumerate(zip(prompts, codes)):
    ids, num_code = continuation.encode_prompt(tokenizer, prompt, own)
    rows += [Row(ids, num_code, (place, i)) for i in range(num_samples)]
  return rows, codes


def _check_room(rows, max_new_tokens, window) -> None:
  longest = max((len(row.prompt) for row in rows), default=0)
  if longest + max_new_tokens > window:
    raise errors.UserError(
        f"A prompt of {longest} tokens and max_new_tokens={max_new_tokens} are"
        f" more than the model's window of {window}, which PPLM does not move:"
        " shorten one of them."
    )


def _run(model, rows, texts, options, amounts, goal) -> None:
  """Continues `rows` in place until each is finished."""
  generator, tokenizer = model.generator, model.tokenizer
  config = model.config
  end_id = tokenizer.end_id if options.stop_at_end else None
  values, rules = generator.values(
      options, continuation.masks(tokenizer, config.vocab_size, options), end_id
  )
  places = np.array([row.number[0] for row in rows])
  if goal.bag is not None:
    goal = goal._replace(bag=jnp.asarray(goal.bag[places]))
  else:
    goal = goal._replace(target=jnp.asarray(goal.target[places]))
  state = _start(generator, rows, options.max_new_tokens, amounts)
  progress = generator.progress(rows, options)
  for i in range(options.max_new_tokens):
    step = (
        config, generator.params, amounts, goal, state, progress, values, rules
    )
    if i == 0:
      generator.calls.note(pplm_steps.step, *step)
    state, progress, tokens, finite = pplm_steps.step(*step)
    if not np.asarray(finite).all():
      raise errors.UserError(
          "The moved model's logits are not finite: lower stepsize, or use an"
          " earlier checkpoint."
      )
    for row, text, token in zip(rows, texts, np.asarray(tokens).tolist()):
      if not row.finished:
        append(row, [token], end_id, options.max_new_tokens)
        if options.stop:
          text.update()
    if all(row.finished for row in rows):
      return


def _start(generator, rows, max_new_tokens, amounts) -> pplm_steps.State:
  ids, padding = pad_left([row.prompt for row in rows])
  slots = round_up(ids.shape[1] + max_new_tokens + amounts.horizon_length)
  return pplm_steps.start(
      generator.config, generator.params, jnp.asarray(ids),
      jnp.asarray(padding), slots,
  )
