"""Every method on the keyword task, with one budget: see `stages`."""

import dataclasses
import functools
from typing import Any

import ctrl_jax
from ctrl_jax.data import files
from ctrl_jax.data.keyword_sets import KeywordSet
from ctrl_jax.data.manifest import Manifest
from ctrl_jax.evaluation import unigram
from ctrl_jax.experiments import keyword_point, stages


@dataclasses.dataclass(frozen=True)
class Method(stages.Method):
  """A row of the table.

  Attributes:
    prompt: template of `{prefix}` and `{keyword}`.
    attribute: template of the attribute; "" for none.
    frozen: whether the base's weights stay what they are.
    sampler: see `keyword_point.sample`.
    num_prompts: of the experiment's, for a slow sampler; 0 for all.
  """

  prompt: str = "{prefix}"
  attribute: str = ""
  frozen: bool = False
  sampler: str = "generate"
  num_prompts: int = 0


class Experiment(stages.Experiment):
  """What all methods share: prompts, scorer, options.

  Args:
    config: see configs/keyword_experiment.py.
    output_folder: where lines and figures go.
    minutes: see `stages.Experiment`.
  """

  method = Method

  @functools.cached_property
  def triples(self):
    """The held-out prompts, the same for all methods."""
    found = KeywordSet.load(self.config.keywords).read("test")
    return found[: self.config.num_prompts]

  @functools.cached_property
  def pool(self):
    """Training triples, which few-shot prompts draw examples from."""
    return KeywordSet.load(self.config.keywords).read("train")[:5000]

  @functools.cached_property
  def scorer(self):
    """The model that judges fluency, and its unigram probabilities."""
    model = ctrl_jax.load(self.config.scorer)
    data = Manifest.load(files.expand(self.config.scorer_data))
    return model, unigram.count(data)

  @functools.cached_property
  def base_data(self) -> Manifest:
    """What the base was trained on: its validation split tells forgetting."""
    return Manifest.load(files.expand(self.config.base_data))

  def measure(
      self, method: Method, trained: stages.Trained, seed: int
  ) -> dict[str, Any]:
    """Returns a line's numbers: see `keyword_point.measure`."""
    model = trained.model
    scorer, counted = self.scorer
    found = keyword_point.measure(
        model, self.triples[: method.num_prompts or None], scorer, counted,
        code=self.config.code, scorer_code=self.config.code,
        prompt=method.prompt, attribute=method.attribute,
        sampler=method.sampler, pool=self.pool, seed=seed,
        max_new_tokens=self.config.num_tokens, temperature=1.0, penalty=1.0,
        batch_size=self.config.batch_size,
    )
    if trained.data is not None:
      found["test_perplexity"] = keyword_point.perplexity(
          model, trained.data, "test"
      )
    if method.config and not method.frozen:
      # A frozen model forgets nothing.
      found["base_perplexity"] = keyword_point.perplexity(
          model, self.base_data, "validation", self.config.base_sequences
      )
    return found
