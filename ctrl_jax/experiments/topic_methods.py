"""Methods on the topic task, with one budget: see `keyword_methods`."""

import functools
from collections.abc import Sequence
from typing import Any

import ctrl_jax
from ctrl_jax.decoding import pplm_discriminator
from ctrl_jax.experiments import keyword_methods, topics


class Experiment(keyword_methods.Experiment):
  """As on keywords; a judge names the topics of samples.

  Args:
    config: see configs/topic_experiment.py.
    output_folder: where lines and figures go.
    minutes: see `stages.Experiment`.
  """

  fields = (*keyword_methods.FIELDS, "topics")
  asks = topics.Prompt
  shared = ("prompts", "judge", "scorer")

  @functools.cached_property
  def prompts(self):
    """The held-out prompts, the same for all methods."""
    return topics.prompts(self.config.topics, self.config.num_prompts)

  # Training cuts abstracts to its sequences: the base is not measured alike.
  truths = ()

  @functools.cached_property
  def judge(self) -> topics.Judge:
    """Names the topic of a sample."""
    return topics.Judge(self.config.topics)

  @functools.cached_property
  def real(self) -> dict[str, Any]:
    """How often the judge is right on real text."""
    return self.judge.on_real_text(
        self.config.topics, self.scorer[0].tokenizer, self.config.num_tokens
    )

  @functools.cached_property
  def discriminator(self) -> pplm_discriminator.Discriminator:
    """Of the base's states of training texts, for PPLM."""
    names, texts = zip(*topics.read(self.config.topics, "train"))
    return pplm_discriminator.train(
        ctrl_jax.load(self.config.base), texts, names,
        code=self.config.code or None,
    )

  def sampler_options(self, method: Any) -> dict[str, Any]:
    """Returns what a method's sampler reads beside prompts."""
    if method.sampler != "pplm":
      return {}
    return dict(discriminator=self.discriminator)

  def accuracy(
      self, texts: Sequence[str], asked: Sequence[topics.Prompt]
  ) -> dict[str, Any]:
    """Returns the judge's verdict, and its own accuracy on real text."""
    return self.judge.accuracy(texts, asked) | dict(real=self.real)
