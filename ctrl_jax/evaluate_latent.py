"""Measures what a CVAE's latent is worth, on held-out texts.

  python -m ctrl_jax.evaluate_latent --model=runs/cvae
  python -m ctrl_jax.evaluate_latent --model=runs/vae --label='{primary}'

Bounds of the perplexity a token and a word (of the ELBO; importance-weighted;
of samples of the prior), reconstruction, KL, mutual information, active units,
what another z costs, each with a 95 % interval over texts; with --label, how
often the k nearest and a linear probe name a text's label from its mean. The
texts are the records of the data set the model was trained on, or --input, JSON
lines with the fields that its template names. Writes latent.json, and figures
with --plots.
"""

import pathlib

from absl import flags

from ctrl_jax import command, errors, loading
from ctrl_jax.data import files
from ctrl_jax.data.sources import Source
from ctrl_jax.evaluation import (
    held_out,
    latent,
    latent_plots,
    latent_summary,
    output,
    probes,
)

FLAGS = flags.FlagValues()
_MODEL = flags.DEFINE_string(
    "model", None, "The workdir of a CVAE, or its export.", flag_values=FLAGS
)
_DATA, _SPLIT, _OUTPUT = command.define_held_out(FLAGS)
_INPUT = flags.DEFINE_list(
    "input", [], "JSON lines of texts, instead of the data set's; globs.",
    flag_values=FLAGS,
)
_TRAIN_INPUT = flags.DEFINE_list(
    "train_input", [], "With --input and --label: texts to learn labels from.",
    flag_values=FLAGS,
)
_LABEL = flags.DEFINE_string(
    "label", "", "Template of a text's label, as '{topic}'.", flag_values=FLAGS
)
_TEXTS = flags.DEFINE_integer(
    "texts", 500, "Texts that are encoded; 0 for all.", lower_bound=0,
    flag_values=FLAGS,
)
_BOUND_TEXTS = flags.DEFINE_integer(
    "bound_texts", 100, "Texts whose likelihoods are bounded; 0 for all.",
    lower_bound=0, flag_values=FLAGS,
)
_TRAIN_TEXTS = flags.DEFINE_integer(
    "train_texts", 4000, "Texts to learn labels from; 0 for all.",
    lower_bound=0, flag_values=FLAGS,
)
_SAMPLES = flags.DEFINE_integer(
    "samples", 50, "S, latents a text.", lower_bound=1, flag_values=FLAGS
)
_BATCH_SIZE = flags.DEFINE_integer(
    "batch_size", 16, "Texts at a time.", lower_bound=3, flag_values=FLAGS
)
_SEED = flags.DEFINE_integer(
    "seed", 0, "Of the latents.", lower_bound=0, flag_values=FLAGS
)
_PLOTS = flags.DEFINE_bool(
    "plots", False, "Draw t-SNE of the means, KL by dimension, and training.",
    flag_values=FLAGS,
)


def texts(model, manifest, split: str, max_texts: int) -> held_out.Texts:
  """Returns the texts of a split that the flags ask for."""
  given = _TRAIN_INPUT.value if split == "train" else _INPUT.value
  if not _INPUT.value and not _LABEL.value:
    return held_out.of_records(manifest, split, max_texts)
  sources = held_out.sources_of(manifest)
  if _INPUT.value:
    if not given:
      raise errors.UserError(
          "--label of --input is learned from texts, too: give --train-input."
      )
    if not sources:
      raise errors.UserError(
          "The data set does not say how its texts were made, as --input's are"
          " to be: leave --input out."
      )
    like = sources[0]
    sources = [
        Source(
            "jsonl", like.code, tuple(given), like.template, like.target,
            name="--input", split=split,
        )
    ]
  return held_out.of_sources(
      sources, manifest, model.tokenizer, split, label=_LABEL.value,
      max_texts=max_texts,
  )


def measure(model, manifest) -> tuple[dict, latent.Encoded, tuple[str, ...]]:
  """Returns all the numbers, JSON types; what was encoded, and its labels."""
  task, params = latent.of_model(model)
  conditional = task.cvae.prior == "learned"
  batches = lambda found: held_out.batches(found, _BATCH_SIZE.value)
  chosen = texts(model, manifest, _SPLIT.value, _TEXTS.value)
  encoded = latent.encode(task, params, batches(chosen), _SEED.value)
  bounded = texts(model, manifest, _SPLIT.value, _BOUND_TEXTS.value)
  asked = latent.ask(
      task, params, batches(bounded), _SAMPLES.value, _SEED.value
  )
  found = dict(
      information=latent_summary.information_of(encoded, conditional),
      bounds=latent_summary.bounds_of(
          asked, held_out.num_words(bounded, model.tokenizer)
      ),
  )
  if _LABEL.value:
    train = texts(model, manifest, "train", _TRAIN_TEXTS.value)
    learned = latent.encode(task, params, batches(train), _SEED.value)
    names = dict(posterior="mean", prior="prior_mean")
    if not conditional:
      del names["prior"]
    found["labels"] = {
        name: probes.measure(
            getattr(learned, field), train.labels, getattr(encoded, field),
            chosen.labels,
        )
        for name, field in names.items()
    }
  return found, encoded, chosen.labels


def draw(folder, model_folder, encoded, labels, conditional: bool) -> None:
  """Draws everything into `folder`."""
  means = dict(posterior=encoded.mean)
  if conditional:
    means["prior"] = encoded.prior_mean
  latent_plots.t_sne(folder / "t_sne.png", means, labels, _SEED.value)
  latent_plots.kl_by_dimension(folder / "kl_by_dimension.png", encoded.kl)
  metrics = model_folder / "metrics.jsonl"
  if metrics.is_file():  # An export has none.
    latent_plots.training(folder / "training.png", metrics)


def main() -> None:
  """Runs the command."""
  if not _MODEL.value:
    raise errors.UserError("Which model? Give --model=WORKDIR.")
  model = loading.load(_MODEL.value)
  latent.of_model(model)  # Refuses other models before any data is read.
  folder = pathlib.Path(files.expand(_MODEL.value))
  manifest = loading.find_data(folder, _DATA.value)
  if manifest.tokenizer_hash != model.tokenizer.hash or (
      manifest.sequence_length > model.config.max_length
  ):
    raise errors.UserError(
        f"The data set {str(manifest.folder)!r} was made with another tokenizer"
        " or for a longer window than the model's: give the model's own."
    )
  found, encoded, labels = measure(model, manifest)
  target = folder / "evaluation"
  if _OUTPUT.value:
    target = pathlib.Path(files.expand(_OUTPUT.value))
  settings = dict(
      data_hash=manifest.hash, split=_SPLIT.value, input=_INPUT.value,
      label=_LABEL.value, seed=_SEED.value,
  )
  output.write_json(target / "latent.json", dict(settings=settings, **found))
  print(latent_summary.table(found))
  if _PLOTS.value:
    conditional = model.cvae.config.prior == "learned"
    draw(target, folder, encoded, labels, conditional)
  print(f"\nWrote {target / 'latent.json'}")


if __name__ == "__main__":
  command.run(main, FLAGS, __doc__)
