"""One model at one point of its training, measured on the keyword task.

Or on another task of samples that are to obey an attribute: what is asked for
are named tuples with `prefix`, `text` (how it truly goes on) and the
attribute's fields; `Triple`s, of which the samplers other than "generate" read
the keyword.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from ctrl_jax import errors
from ctrl_jax.data import batches, templates
from ctrl_jax.data.keywords import Triple
from ctrl_jax.data.manifest import Manifest
from ctrl_jax.decoding import pplm
from ctrl_jax.evaluation import (
  diversity,
  keyword_accuracy,
  likelihood,
  prompting,
  slor,
)
from ctrl_jax.training import evaluation

SAMPLERS = ("generate", "zero_shot", "few_shot", "pplm")
# Of texts and what was asked for: the share that obeys, `value` with `low` and
# `high`, and what else there is to say.
Accuracy = Callable[[Sequence[str], Sequence[Any]], Mapping[str, Any]]


def check_sampler(sampler: str) -> None:
  """Raises `errors.UserError` for a sampler that is none of `SAMPLERS`."""
  if sampler not in SAMPLERS:
    raise errors.UserError(
        f"Unknown sampler {sampler!r}. {errors.nearest(str(sampler), SAMPLERS)}"
    )


def held(texts: Sequence[str], triples: Sequence[Triple]) -> Mapping[str, Any]:
  """Returns the share of texts that hold their keyword: an `Accuracy`."""
  return keyword_accuracy.measure(
      texts, [t.keyword for t in triples], [t.prefix for t in triples]
  )


def sample(
    model: Any,
    triples: Sequence[Any],
    *,
    code: str | None,
    prompt: str = "{prefix}",
    attribute: str | Mapping[str, str] = "",
    sampler: str = "generate",
    pool: Sequence[Triple] = (),
    shots: int = 4,
    discriminator: Any = None,
    **options,
) -> list[str]:
  """Returns a continuation for each triple, by a model of any method.

  Args:
    model: a `LanguageModel`.
    triples: what to continue, and which keyword each is to hold.
    code: the control code of all.
    prompt: template of a triple's fields.
    attribute: template of the attribute, with several heads one by name; empty
      for a model that takes none.
    sampler: one of `SAMPLERS`: "zero_shot" and "few_shot" put the task into
      words (`evaluation.prompting`), "pplm" moves the base towards the keyword
      as it samples (`decoding.pplm`).
    pool: training triples, for "few_shot".
    shots: examples a prompt, for "few_shot".
    discriminator: of topics, for "pplm": it moves the base towards the topic
      asked for instead of a keyword.
    **options: of `LanguageModel.generate`, or of `pplm.generate`.

  Raises:
    errors.UserError: an unknown sampler, or what sampling raises.
  """
  check_sampler(sampler)
  fill = lambda template: [
      templates.render(template, t._asdict(), "what is asked for")
      for t in triples
  ]
  if sampler == "pplm":
    goal = dict(
        bag=[[t.keyword] for t in triples], long_words="first"
    ) if discriminator is None else dict(
        discriminator=discriminator, target=[t.topic for t in triples]
    )
    results = pplm.generate(model, fill(prompt), code, **goal, **options)
    return [samples[0].text for samples in results]
  if sampler == "generate":
    prompts = fill(prompt)
  else:
    prompts = _told(
        model, triples, code, sampler, pool, shots, options["max_new_tokens"]
    )
    # An example ends with a blank line, and so does an answer.
    options["stop"] = [prompting.FEW_SHOT.between]
  if attribute:
    options["attribute"] = fill(attribute) if isinstance(
        attribute, str
    ) else {name: fill(template) for name, template in attribute.items()}
  results = model.generate(prompts, code, **options)
  return [samples[0].text for samples in results]


def _told(model, triples, code, sampler, pool, shots, num_tokens):
  """Prompts that put the task into words."""
  queries = [dict(keyword=t.keyword, prefix=t.prefix) for t in triples]
  if sampler == "zero_shot":
    return [prompting.zero_shot(query).text for query in queries]
  rows = [t._asdict() for t in pool]
  room = prompting.room_for(model, code, num_tokens)
  return [
      prompting.few_shot(
          query, rows, shots, tokenizer=model.tokenizer, room=room, number=i
      ).text
      for i, query in enumerate(queries)
  ]


def measure(
    model: Any,
    triples: Sequence[Any],
    scorer: Any,
    unigram: Any,
    *,
    code: str | None,
    scorer_code: str | None = None,
    accuracy: Accuracy = held,
    **options,
) -> dict[str, Any]:
  """Samples once a triple; returns accuracy, SLOR, diversity and speed.

  Accuracy counts the continuation alone, SLOR the whole sample (the prefix and
  what was written) as the paper's, and the continuation, by a model that is not
  the one under test.

  Args:
    model: under test.
    triples: see `sample`.
    scorer: a `LanguageModel` that learned from other documents.
    unigram: of the scorer's training data, see `evaluation.unigram`.
    code: see `sample`.
    scorer_code: the scorer's; None reads samples without one.
    accuracy: of the continuations.
    **options: of `sample`.

  Returns:
    accuracy, slor, slor_continuation, diversity: as their modules'; examples:
    the first samples;
    tokens_per_second: of sampling, compilation included; sample_bytes: what
      the largest program of sampling holds, see `programs`.
  """
  start = time.monotonic()
  texts = sample(model, triples, code=code, **options)
  seconds = time.monotonic() - start
  prefixes = [t.prefix for t in triples]
  tokens = sum(len(model.tokenizer.encode(text)) for text in texts)
  judged = lambda over: slor.measure(
      scorer, unigram, texts, prefixes, under_test=[model], code=scorer_code,
      over=over,
  )
  return dict(
      accuracy=accuracy(texts, triples),
      slor=judged("sample"),
      slor_continuation=judged("continuation"),
      diversity=diversity.measure(texts),
      tokens_per_second=tokens / seconds,
      sample_bytes=model.generator.calls.peak_bytes(),
      examples=[
          t._asdict() | dict(text=t.prefix + text)
          for t, text in list(zip(triples, texts))[:10]
      ],
  )


def continuation_perplexity(
    model: Any, triples: Sequence[Any], code: str | None
) -> float:
  """Returns the perplexity of how texts truly go on, their ends included.

  As `perplexity` of a data set of these triples, for a model that was trained
  on none.

  Args:
    model: a `LanguageModel`; its heads are not used.
    triples: what is continued, and how.
    code: the control code of all.
  """
  tokenizer = model.tokenizer
  front = tokenizer.begin_ids if code is None else tokenizer.code_ids(code)
  end = [] if tokenizer.end_id is None else [tokenizer.end_id]
  found = model.score_ids([
      ([*front, *tokenizer.encode(t.prefix)], tokenizer.encode(t.text) + end)
      for t in triples
  ])
  nats = -sum(score.log_prob for score in found)
  return math.exp(nats / sum(score.num_tokens for score in found))


def perplexity(
    model: Any, data: Manifest, split: str, max_sequences: int = 0
) -> float:
  """Returns the perplexity of a prepared data set's targets.

  Args:
    model: a `LanguageModel` with one head at most, which counts: a side
      network always, an auxiliary where the data set has attributes.
    data: the data set.
    split: of it.
    max_sequences: 0 for all.
  """
  task, params = likelihood.task_of(model, bool(data.attribute_length))
  found = evaluation.perplexities(
      evaluation.make_eval_step(task),
      params,
      batches.evaluation_batches(data, split, 16, max_sequences),
      jax.device_put,
      [source.code for source in data.sources],
  )
  return found["perplexity"]
