"""The CVAE, its baselines and a VAE, with one budget: see `stages`."""

import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import Any

import ctrl_jax
from ctrl_jax import errors
from ctrl_jax.data import files
from ctrl_jax.data.manifest import Manifest
from ctrl_jax.evaluation import held_out, latent_plots
from ctrl_jax.experiments import cvae_labels, cvae_point, stages


@dataclasses.dataclass(frozen=True)
class Method(stages.Method):
  """A row of the table.

  Attributes:
    attribute: whether prompts are the attribute of the model's head, too.
    label: template of a label, `{topic}`: the method is a VAE of texts without
      prompts, and its latents' labels are measured instead of stories.
  """

  attribute: bool = False
  label: str = ""


class Experiment(stages.Experiment):
  """Stories by all methods, and the labels of a VAE's latents.

  Args:
    config: see configs/cvae_experiment.py.
    output_folder: where lines and figures go.
    minutes: see `stages.Experiment`.
  """

  method = Method
  fields = (
      *stages.Experiment.fields, "data", "bound_texts", "latents",
      "texts", "num_prompts", "num_tokens", "batch_size", "rank_stories",
      "rank_prompts", "rank_latents", "control_pairs",
  )
  shared = ("base_data",)

  def needs(self, methods: Sequence[Method]) -> tuple[Any, Any]:
    """Returns fields and shared properties, see `stages.Experiment`."""
    labels = any(method.label for method in methods)
    return (
        self.fields + (("train_texts", "label_texts") if labels else ()),
        self.shared,
    )

  def check(self, methods: Sequence[Method]) -> None:
    """Checks the number of latents, too; see `stages.Experiment`."""
    super().check(methods)
    count = self.config.latents
    if type(count) is not int or count < 2 or count % 2:
      raise errors.UserError(
          f"latents={count!r} must be an even number: half of the samples are"
          " of the posterior, half of the prior."
      )

  @functools.cached_property
  def base_data(self) -> Manifest:
    """The stories that the base as it is is measured on."""
    return Manifest.load(files.expand(self.config.data))

  def measure(
      self, method: Method, trained: stages.Trained, seed: int
  ) -> dict[str, Any]:
    """Returns a line's numbers, and draws what there is of a latent."""
    name = f"{method.name}-{seed}"
    if method.label:
      return self._labels(method, trained, seed, name)
    found, encoded = cvae_point.measure(
        trained.model, trained.data or self.base_data, self.config,
        attribute=method.attribute, seed=seed,
    )
    if encoded is not None:
      self._draw(name, encoded, (), trained, seed)
    return found

  def _labels(self, method, trained, seed, name):
    if trained.data is None or not cvae_point.has_latent(trained.model):
      raise errors.UserError(
          f"The method {method.name!r} has a label, which is of a latent's:"
          " leave it out, or train a CVAE."
      )
    model, config = trained.model, self.config
    texts = held_out.of_records(trained.data, "test", config.bound_texts)
    found = cvae_point.perplexities(model, texts, config.latents, seed)
    texts = held_out.unseen(trained.data, config.texts)
    _, found["information"] = cvae_point.encode(model, texts, seed)
    found["labels"], encoded, labels = cvae_labels.measure(
        model, ctrl_jax.load(config.base), trained.data, method.label,
        train_texts=config.train_texts, test_texts=config.label_texts,
        seed=seed,
    )
    self._draw(name, encoded, labels, trained, seed)
    return found

  def _draw(self, name, encoded, labels, trained, seed) -> None:
    file = lambda what: self.folder / f"{name}-{what}.png"
    means = dict(posterior=encoded.mean)
    if trained.model.cvae.config.prior == "learned":
      means["prior"] = encoded.prior_mean
    latent_plots.t_sne(file("t_sne"), means, labels, seed)
    latent_plots.kl_by_dimension(file("kl_by_dimension"), encoded.kl)
    latent_plots.training(
        file("training"), pathlib.Path(trained.workdir) / "metrics.jsonl"
    )
