"""Measures a trained model on held-out documents.

  python -m ctrl_jax.evaluate --model=WORKDIR
  python -m ctrl_jax.evaluate --model=WORKDIR --nomatrix --control

The first reads each document under every control code: perplexity with the
right code and with wrong ones, and attribution beside TF-IDF + logistic
regression trained on the same training documents. It writes evaluation.json
and perplexity_matrix.png. Text without a code has its perplexity without one;
where all text is so, nothing else is measured. --control samples under each
code from neutral prompts and lets that classifier judge the samples:
control.json, control.png.
"""

import logging
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import flags

from ctrl_jax import command, errors, loading
from ctrl_jax.data import buckets, files
from ctrl_jax.data.manifest import Manifest
from ctrl_jax.evaluation import control as control_lib
from ctrl_jax.evaluation import documents as documents_lib
from ctrl_jax.evaluation import output, plots, report, without_code
from ctrl_jax.evaluation.baseline import Baseline

_LOG = logging.getLogger("ctrl_jax.evaluate")

FLAGS = flags.FlagValues()
_MODEL = flags.DEFINE_string(
    "model", None, "A workdir of `ctrl_jax.train`, or an exported folder.",
    flag_values=FLAGS,
)
_DATA, _SPLIT, _OUTPUT = command.define_held_out(FLAGS)
_MIN_TOKENS = flags.DEFINE_integer(
    "min_tokens", 128, "Shorter documents are left out.", lower_bound=1,
    flag_values=FLAGS,
)
_MAX_TOKENS = flags.DEFINE_integer(
    "max_tokens", 512, "Longer documents are cut to so many; 0 cuts none.",
    lower_bound=0, flag_values=FLAGS,
)
_MAX_DOCUMENTS = flags.DEFINE_integer(
    "max_documents", 30, "Documents a code, chosen at random.", lower_bound=1,
    flag_values=FLAGS,
)
_SEED = flags.DEFINE_integer(
    "seed", 0, "Of the choice of documents and of the samples.", lower_bound=0,
    flag_values=FLAGS,
)
_MATRIX = flags.DEFINE_bool(
    "matrix", True, "Measure perplexity and attribution.", flag_values=FLAGS
)
_BASELINE = flags.DEFINE_bool(
    "baseline", True, "Put TF-IDF + logistic regression beside the model.",
    flag_values=FLAGS,
)
_CONTROL = flags.DEFINE_bool(
    "control", False, "Judge samples, too.", flag_values=FLAGS
)
_SAMPLES = flags.DEFINE_integer(
    "samples", 50, "For --control: samples a code.", lower_bound=1,
    flag_values=FLAGS,
)
_MAX_NEW_TOKENS = flags.DEFINE_integer(
    "max_new_tokens", 128, "For --control: tokens a sample.", lower_bound=1,
    flag_values=FLAGS,
)
_TEMPERATURE = flags.DEFINE_float(
    "temperature", 0.9, "For --control.", flag_values=FLAGS
)
_TOP_P = flags.DEFINE_float(
    "top_p", 0.95, "For --control.", flag_values=FLAGS
)
_PENALTY = flags.DEFINE_float(
    "penalty", 1.0, "For --control: repetition penalty, 1 is off.",
    flag_values=FLAGS,
)


def select(
    model: Any, manifest: Manifest, codes: Sequence[str]
) -> list[documents_lib.Document]:
  """Returns the held-out documents of `codes` that the flags ask for."""
  return documents_lib.select(
      manifest.documents_file(_SPLIT.value),
      model.tokenizer,
      codes,
      min_tokens=_MIN_TOKENS.value,
      max_tokens=_MAX_TOKENS.value,
      max_documents=_MAX_DOCUMENTS.value,
      seed=_SEED.value,
  )


def train_baseline(manifest: Manifest, codes: list[str]) -> Baseline:
  """Trains the classifier on the training documents of `codes`."""
  _LOG.info("Training TF-IDF + logistic regression")
  pairs = [
      (code, text)
      for code, text in documents_lib.read(manifest.documents_file("train"))
      if code in codes
  ]
  return Baseline([text for _, text in pairs], [code for code, _ in pairs])


def settings(manifest: Manifest) -> dict[str, Any]:
  """What a result depends on besides the model, for its file."""
  return dict(
      data_hash=manifest.hash,
      split=_SPLIT.value,
      min_tokens=_MIN_TOKENS.value,
      max_tokens=_MAX_TOKENS.value,
      max_documents_a_code=_MAX_DOCUMENTS.value,
      seed=_SEED.value,
  )


def judge_accuracy(model: Any, judge: Baseline, documents) -> dict:
  """How often the judge is right on real text as long as a sample."""
  texts = [
      model.tokenizer.decode(d.ids[: _MAX_NEW_TOKENS.value]) for d in documents
  ]
  right = judge.hits(texts, [d.code for d in documents])
  return dict(documents=len(documents), accuracy=float(np.mean(right)))


def main() -> None:
  """Runs the command."""
  if not _MODEL.value:
    raise errors.UserError("Which model? Give --model=WORKDIR.")
  if not (_MATRIX.value or _CONTROL.value):
    raise errors.UserError("Nothing to do: --nomatrix without --control.")
  if buckets.is_remote(files.expand(_MODEL.value)) and not (
      _DATA.value and _OUTPUT.value
  ):
    raise errors.UserError(
        "A model in a bucket needs --data and --output, the latter on this"
        " machine."
    )
  model = loading.load(_MODEL.value)
  model_folder = pathlib.Path(files.expand(_MODEL.value))
  manifest = loading.find_data(model_folder, _DATA.value)
  folder = (
      pathlib.Path(files.expand(_OUTPUT.value)) if _OUTPUT.value
      else model_folder / "evaluation"
  )
  # Now rather than after minutes of work: is it a place to write to?
  folder.mkdir(parents=True, exist_ok=True)
  plain = None
  if "" in manifest.prior:
    plain = without_code.measure(model, select(model, manifest, [""]))
    print(without_code.line(plain))
  if not manifest.codes:
    if _CONTROL.value:
      raise errors.UserError(
          "--control compares control codes, and the data set has none: leave"
          " it out."
      )
    _write(folder, manifest, without_code=plain)
    return
  documents = select(model, manifest, manifest.codes)
  codes = report.codes_with_documents(manifest.codes, documents)
  for code in set(manifest.codes) - set(codes):
    _LOG.warning(
        "No %s documents of %d tokens and more under %s (pairs, with a target,"
        " are not evaluated)", _SPLIT.value, _MIN_TOKENS.value, code,
    )
  baseline = None
  if _BASELINE.value or _CONTROL.value:
    baseline = train_baseline(manifest, codes)
  if _MATRIX.value:
    _measure_matrix(model, manifest, documents, codes, baseline, folder, plain)
  if _CONTROL.value:
    _measure_control(model, manifest, documents, codes, baseline, folder)


def _write(folder, manifest, **found) -> pathlib.Path:
  file = folder / "evaluation.json"
  output.write_json(file, dict(settings=settings(manifest), **found))
  return file


def _measure_matrix(model, manifest, documents, codes, baseline, folder, plain):
  found = report.evaluate(
      model, documents, codes, baseline if _BASELINE.value else None,
      progress="Reading",
  )
  if plain is not None:
    found["without_code"] = plain
  file = _write(folder, manifest, **found)
  plot = folder / "perplexity_matrix.png"
  plots.perplexity_matrix(plot, np.array(found["matrix"]["perplexity"]), codes)
  print(report.table(found))
  print(f"\nWrote {file} and {plot}\n")


def _measure_control(model, manifest, documents, codes, judge, folder):
  options = dict(
      max_new_tokens=_MAX_NEW_TOKENS.value,
      temperature=_TEMPERATURE.value,
      top_p=_TOP_P.value,
      penalty=_PENALTY.value,
      seed=_SEED.value,
      stop_at_end=False,  # Every sample as long as the others.
  )
  found = control_lib.measure(
      model, judge, codes, num_samples=_SAMPLES.value, options=options,
      on_code=lambda code: _LOG.info("Sampled: %s", code),
  )
  found["judge"] = judge_accuracy(model, judge, documents)
  file, plot = folder / "control.json", folder / "control.png"
  output.write_json(file, dict(settings=settings(manifest), **found))
  plots.confusion_matrix(
      plot, np.array(found["confusion"]), [*codes, "(no code)"], codes
  )
  print(control_lib.table(found))
  print(f"\nWrote {file} and {plot}\n")


if __name__ == "__main__":
  command.run(main, FLAGS, __doc__)
