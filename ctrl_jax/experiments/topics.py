"""Topics as attributes: what is asked for, and a judge of what is written.

From a folder that `ctrl_jax.split` made, the topic as `prompt`: models learn
from its split "train", the judge from "validation", prompts are of "test".
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from ctrl_jax import errors
from ctrl_jax.data import documents, files, templates
from ctrl_jax.evaluation import intervals, shares
from ctrl_jax.evaluation.baseline import Baseline

_PREFIX_WORDS = 4
_PREFIX = re.compile(rf"\S+(?:\s+\S+){{{_PREFIX_WORDS - 1}}}(?=\s)")


class Prompt(NamedTuple):
  """The beginning of a text, and what its continuation is to be.

  Attributes:
    topic: asked for.
    prefix: the text's first words.
    text: how it truly goes on.
    own: the text's topic.
    keyword: asked for, too; "" for none.
  """

  topic: str
  prefix: str
  text: str
  own: str
  keyword: str = ""


def prompts(
    folder, count: int = 0, keywords: Sequence[str] = ()
) -> list[Prompt]:
  """Returns prompts of held-out texts, each with every topic in turn.

  A first round asks each text for one topic, whatever its own is, and topics
  equally often; a second round for the next topic; and so on. So a model that
  hears nothing of topics has an accuracy of 1 / topics, but for chance.

  Args:
    folder: see the module.
    count: the first so many; 0 for all, texts times topics.
    keywords: the prompts' in turn; none without any.

  Raises:
    errors.UserError: a file is missing or damaged, or no text is long enough.
  """
  rows = read(folder, "test")
  topics = sorted({topic for topic, _ in rows})
  found = []
  for turn in range(len(topics)):
    for i, (own, text) in enumerate(rows):
      begin = _PREFIX.match(text)
      if begin:
        found.append(Prompt(
            topics[(i + turn) % len(topics)], begin[0], text[begin.end():], own,
            keywords[len(found) % len(keywords)] if keywords else "",
        ))
  if not found:
    raise errors.UserError(
        f"No text in {str(folder)!r} is longer than {_PREFIX_WORDS} words."
    )
  return found[: count or None]


class Judge:
  """Names the topic of a text: a `Baseline` that learned from other documents.

  Args:
    folder: see the module.

  Raises:
    errors.UserError: as `prompts`; or fewer than two topics.
  """

  def __init__(self, folder):
    topics, texts = zip(*read(folder, "validation"))
    self._classifier = Baseline(texts, topics)

  def hits(
      self, texts: Sequence[str], asked: Sequence[Prompt]
  ) -> list[bool]:
    """Returns for each continuation whether it is named the topic asked for."""
    return self._classifier.hits(texts, [p.topic for p in asked])

  def accuracy(
      self, texts: Sequence[str], asked: Sequence[Prompt]
  ) -> dict[str, Any]:
    """Returns the share of `hits`, `by_topic` too; see `shares.measure`.

    One text begins several prompts: the interval is over texts.
    """
    hits = self.hits(texts, asked)
    found = shares.measure(hits, [p.topic for p in asked], "topic")
    of_text = {}
    for hit, prompt in zip(hits, asked):
      of_text.setdefault(prompt.prefix + prompt.text, []).append(hit)
    groups = list(of_text.values())
    return found | intervals.bootstrap_ratio(
        [sum(group) for group in groups], [len(group) for group in groups]
    )._asdict()

  def on_real_text(
      self, folder, tokenizer: Any, num_tokens: int
  ) -> dict[str, Any]:
    """Returns the accuracy on true continuations, cut as samples are.

    Args:
      folder: see the module.
      tokenizer: of the models.
      num_tokens: of a sample.
    """
    real = [p for p in prompts(folder) if p.topic == p.own]
    texts = [
        tokenizer.decode(tokenizer.encode(p.text)[:num_tokens]) for p in real
    ]
    return self.accuracy(texts, real)


def read(folder, split: str) -> list[tuple[str, str]]:
  """Returns (topic, text) each, in an order that says nothing of either.

  Args:
    folder: see the module.
    split: "train", "validation" or "test".

  Raises:
    errors.UserError: a file is missing, damaged or empty.
  """
  file = f"{files.expand(str(folder))}/{split}.jsonl.gz"
  found = [
      tuple(
          templates.render(template, row, where)
          for template in ("{prompt}", "{text}")
      )
      for path in files.find([file])
      for row, where in files.json_objects(path)
  ]
  if not found:
    raise errors.UserError(
        f"{file!r} holds no text: raise the split's fraction."
    )
  digest = documents.Splitter(0, 0.0, 0.0).digest
  return sorted(found, key=lambda row: digest(row[1]))
