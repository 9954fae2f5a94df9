"""Every method on the keyword task, with one budget: see `stages`."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import ctrl_jax
from ctrl_jax.data import files, templates
from ctrl_jax.data.keyword_sets import KeywordSet
from ctrl_jax.data.keywords import Triple
from ctrl_jax.data.manifest import Manifest
from ctrl_jax.evaluation import unigram
from ctrl_jax.experiments import keyword_point, stages

# Of whatever samples are to obey.
FIELDS = (
    *stages.Experiment.fields, "scorer", "scorer_data", "scorer_code",
    "num_prompts", "num_tokens", "batch_size",
)


@dataclasses.dataclass(frozen=True)
class Method(stages.Method):
  """A row of the table.

  Attributes:
    prompt: template of `{prefix}` and the attribute's field.
    attribute: template of the attribute; "" for none.
    frozen: whether the base's text costs what it did, where the method is not
      asked to do anything: there is nothing to forget.
    sampler: see `keyword_point.sample`.
    num_prompts: of the experiment's, for a slow sampler; 0 for all.
    options: of the sampler, as stepsize of `decoding.pplm`.
  """

  prompt: str = "{prefix}"
  attribute: str = ""
  frozen: bool = False
  sampler: str = "generate"
  num_prompts: int = 0
  options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def check_template(method: stages.Method, template: str, asks: Any) -> None:
  """Checks that a method's template names fields of what is asked for.

  Args:
    method: for the message.
    template: of a prompt or an attribute.
    asks: the named tuple that fills it.

  Raises:
    errors.UserError: it names another, or a brace stands alone.
  """
  templates.render(
      template, dict.fromkeys(asks._fields, ""), f"the method {method.name!r}"
  )


class Experiment(stages.Experiment):
  """What all methods share: prompts, scorer, options.

  Args:
    config: see configs/keyword_experiment.py.
    output_folder: where lines and figures go.
    minutes: see `stages.Experiment`.
  """

  method = Method
  fields = (*FIELDS, "keywords")
  shared = ("prompts", "scorer")
  # What is asked for, whose fields templates name.
  asks = Triple

  def forgets(self, method: Method) -> bool:
    """Whether there is something to forget: `forgetting` is measured then."""
    # The other samplers are of the base as it is.
    return not method.frozen and method.sampler == "generate"

  def needs(self, methods: Sequence[Any]) -> tuple[Any, Any]:
    """Returns fields and shared properties, see `stages.Experiment`."""
    if not any(map(self.forgets, methods)):
      return self.fields, self.shared
    return (
        (*self.fields, "base_data", "base_sequences"),
        (*self.shared, "base_data"),
    )

  def check_method(self, method: Method) -> None:
    """Checks sampler and templates, see `stages.Experiment`."""
    super().check_method(method)
    keyword_point.check_sampler(method.sampler)
    for template in (method.prompt, method.attribute):
      check_template(method, template, self.asks)

  @functools.cached_property
  def prompts(self):
    """The held-out triples, the same for all methods."""
    return self.truths[: self.config.num_prompts]

  @functools.cached_property
  def truths(self):
    """Held-out texts and how they go on: all there are, for perplexity."""
    return KeywordSet.load(self.config.keywords).read("test")

  @functools.cached_property
  def pool(self):
    """Training triples, which few-shot prompts draw examples from."""
    return KeywordSet.load(self.config.keywords).read("train")[:5000]

  @functools.cached_property
  def scorer(self):
    """The model that judges fluency, and its unigram probabilities.

    Raises:
      errors.UserError: it is not there, or does not know `scorer_code`.
    """
    model = ctrl_jax.load(self.config.scorer)
    if self.config.scorer_code:
      model.tokenizer.code_ids(self.config.scorer_code)  # It has it.
    data = Manifest.load(files.expand(self.config.scorer_data))
    return model, unigram.count(data)

  @functools.cached_property
  def base_data(self) -> Manifest:
    """What the base was trained on: its validation split tells forgetting."""
    return Manifest.load(files.expand(self.config.base_data))

  def accuracy(
      self, texts: Sequence[str], asked: Sequence[Any]
  ) -> Mapping[str, Any]:
    """Returns the share of samples that obey: a `keyword_point.Accuracy`."""
    return keyword_point.held(texts, asked)

  def sampled(
      self, model: Any, asked: Sequence[Any], seed: int, **options
  ) -> dict[str, Any]:
    """Returns `keyword_point.measure`, by this experiment's scorer and options.

    Args:
      model: under test.
      asked: prompts, and what their continuations are to obey.
      seed: of the samples.
      **options: of `keyword_point.measure`.
    """
    scorer, counted = self.scorer
    given = dict(
        accuracy=self.accuracy, max_new_tokens=self.config.num_tokens,
        # PPLM's own top_k of 10 would be another decoder than the others'.
        temperature=1.0, top_k=0, penalty=1.0,
        batch_size=self.config.batch_size,
    )
    return keyword_point.measure(
        model, asked, scorer, counted, code=self.config.code or None,
        scorer_code=self.config.scorer_code or None, seed=seed,
        **given | options,
    )

  def sampler_options(self, method: Method) -> dict[str, Any]:
    """Returns what a method's sampler reads beside prompts."""
    return dict(pool=self.pool) if method.sampler == "few_shot" else {}

  def forgetting(self, model: Any) -> float:
    """Returns the perplexity of the base's own held-out text."""
    return keyword_point.perplexity(
        model, self.base_data, "validation", self.config.base_sequences
    )

  def measure(
      self, method: Method, trained: stages.Trained, seed: int
  ) -> dict[str, Any]:
    """Returns a line's numbers: see `keyword_point.measure`."""
    model = trained.model
    found = self.sampled(
        model, self.prompts[: method.num_prompts or None], seed,
        prompt=method.prompt, attribute=method.attribute,
        sampler=method.sampler,
        **self.sampler_options(method) | dict(method.options),
    )
    if trained.data is not None:
      found["test_perplexity"] = keyword_point.perplexity(
          model, trained.data, "test"
      )
    elif method.sampler == "generate" and self.truths:
      found["test_perplexity"] = keyword_point.continuation_perplexity(
          model, self.truths, self.config.code or None
      )
    if self.forgets(method):
      found["base_perplexity"] = self.forgetting(model)
    return found
