"""Keywords and topics with one model: auxiliaries together, tuning in sequence.

Each method is asked for a keyword, for a topic, and for both at once.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import ml_collections

import ctrl_jax
from ctrl_jax import errors
from ctrl_jax.data.keyword_sets import KeywordSet
from ctrl_jax.data.keywords import Triple
from ctrl_jax.evaluation import keyword_accuracy, shares
from ctrl_jax.experiments import keyword_methods, keyword_point, stages, topics

# Task -> the attributes that are asked for.
TASKS = {"keyword": ("keyword",), "topic": ("topic",),
         "both": ("keyword", "topic")}


@dataclasses.dataclass(frozen=True)
class Method(stages.Method):
  """A row of the table.

  Attributes:
    model: folder of a model that is trained already; "" for the base.
    heads: "keyword" or "topic" -> workdir of an auxiliary beside it.
    weights: the same -> its weight, 1 unless given.
    prompts: task -> template of the prompt, for a model that is told in words;
      `{prefix}` unless given.
  """

  model: str = ""
  heads: Mapping[str, str] = dataclasses.field(default_factory=dict)
  weights: Mapping[str, float] = dataclasses.field(default_factory=dict)
  prompts: Mapping[str, str] = dataclasses.field(default_factory=dict)


def _check_names(method, field, known):
  for name in getattr(method, field):
    if name not in known:
      raise errors.UserError(
          f"The method {method.name!r} has {field} of {name!r}."
          f" {errors.nearest(str(name), known)}"
      )


class Experiment(keyword_methods.Experiment):
  """What all methods share: prompts of both tasks, judge, scorer, options.

  Args:
    config: see configs/two_tasks_experiment.py.
    output_folder: where lines and the table go.
    minutes: see `stages.Experiment`.
  """

  method = Method
  fields = (*keyword_methods.FIELDS, "keywords", "topics")
  shared = ("asked", "judge", "scorer")

  def forgets(self, method: Method) -> bool:
    """Whether it has no heads beside a base, which stays as it is."""
    return not method.heads

  def check_method(self, method: Method) -> None:
    """Checks the names of tasks, and templates, see `stages.Experiment`."""
    stages.Experiment.check_method(self, method)
    _check_names(method, "heads", TASKS["both"])
    _check_names(method, "weights", TASKS["both"])
    _check_names(method, "prompts", TASKS)
    for task, template in method.prompts.items():
      asks = Triple if task == "keyword" else topics.Prompt
      keyword_methods.check_template(method, template, asks)

  def check(self, methods: Sequence[Method]) -> None:
    """Checks num_tokens, too, see `stages.Experiment`."""
    sizes = self.config.get("num_tokens", TASKS)
    if not isinstance(sizes, Mapping | ml_collections.ConfigDict) or (
        set(sizes) != set(TASKS)
    ):
      raise errors.UserError(
          f"num_tokens={sizes!r}: give a number for each of {', '.join(TASKS)},"
          " as configs/two_tasks_experiment.py does."
      )
    super().check(methods)

  @functools.cached_property
  def asked(self) -> dict[str, Sequence[Any]]:
    """Task -> held-out prompts. Both at once are asked for on topics' texts."""
    config = self.config
    triples = KeywordSet.load(config.keywords).read("test")
    triples = triples[: config.num_prompts]
    both = topics.prompts(
        config.topics, config.num_prompts, [t.keyword for t in triples]
    )
    return dict(keyword=triples, topic=both, both=both)

  @functools.cached_property
  def judge(self) -> topics.Judge:
    """Names the topic of a sample."""
    return topics.Judge(self.config.topics)

  def untrained(self, method: Method) -> Any:
    """Returns a method's model, its auxiliaries beside it."""
    return ctrl_jax.load(
        method.model or self.config.base, heads=dict(method.heads)
    )

  def both(
      self, texts: Sequence[str], asked: Sequence[topics.Prompt]
  ) -> dict[str, Any]:
    """Returns the share of texts that obey both; and `keyword`, `topic` alone.
    """
    keywords = [p.keyword for p in asked]
    held = keyword_accuracy.hits(texts, keywords, [p.prefix for p in asked])
    named = self.judge.hits(texts, asked)
    of = lambda hits: shares.measure(hits, [p.topic for p in asked], "topic")
    return of([a and b for a, b in zip(held, named)]) | dict(
        keyword=of(held), topic=of(named)
    )

  def measure(
      self, method: Method, trained: stages.Trained, seed: int
  ) -> dict[str, Any]:
    """Returns a line's numbers: by task, see `keyword_point.measure`."""
    accuracy = dict(
        keyword=keyword_point.held, topic=self.judge.accuracy, both=self.both
    )
    found = {}
    for task, names in TASKS.items():
      heads = [name for name in names if name in method.heads]
      options = dict(
          attribute={name: f"{{{name}}}" for name in heads},
          weight={name: method.weights.get(name, 1.0) for name in heads},
      )
      found[task] = self.sampled(
          trained.model, self.asked[task], seed, accuracy=accuracy[task],
          max_new_tokens=self.config.num_tokens[task],
          prompt=method.prompts.get(task, "{prefix}"),
          **options if heads else {},
      )
    if self.forgets(method):
      found["base_perplexity"] = self.forgetting(trained.model)
    return found
