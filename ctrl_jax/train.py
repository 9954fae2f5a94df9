"""Trains a model on a prepared data set.

  python -m ctrl_jax.train --config=configs/demo.py --workdir=runs/demo

The same command goes on where a stopped or killed run left off; SIGTERM saves
first. Fields can be overridden: --config.train.steps=100. TFRecords of the
original CTRL's tool need no preparing:
--config.data.tfrecords="('Legal=*.tfrecords',)" with --config.tokenizer.path,
and --config.data.folder for their index.

On several machines (a slice of TPUs, say) it is the same command on each of
them, with a workdir that they share.
"""

import logging
import os
from collections.abc import Sequence
from typing import Any

from absl import flags

from ctrl_jax import command, errors

FLAGS = flags.FlagValues()
_CONFIG = command.define_config(FLAGS)
_WORKDIR = flags.DEFINE_string(
    "workdir", None, "Folder of this run, made if need be; gs://... too.",
    flag_values=FLAGS,
)
_PROFILE = flags.DEFINE_string(
    "profile", "", "Steps to profile, 100:105, for xprof: WORKDIR/profile.",
    flag_values=FLAGS,
)
_PROCESS_TIMEOUT = flags.DEFINE_float(
    "process_timeout", 600.0, "Seconds that processes, where there are several,"
    " wait for each other.", flag_values=FLAGS,
)
_WEEK = 7 * 24 * 3600
# No bounds of the flag's own: they let NaN through.
flags.register_validator(
    "process_timeout", lambda seconds: 1 <= seconds <= _WEEK,
    f"Give seconds from 1 to {_WEEK}, a week.", flag_values=FLAGS,
)


def train(
    config, workdir: str, hint: str = "", profile: str = ""
) -> dict[str, Any]:
  """Trains what `config` describes; see `training.loop.train`.

  SIGTERM while the data set comes ends this at once: there is nothing to save.

  Args:
    config: a configuration as `ctrl_jax.config.default` makes.
    workdir: folder of this run.
    hint: what makes the data set, for the message when it is missing.
    profile: steps to profile, "100:105".

  Returns:
    The last evaluation, and `codes`, the data set's control codes.

  Raises:
    errors.Preempted: SIGTERM came.
  """
  # Imported late: --help and a wrong flag need no JAX.
  from ctrl_jax import text
  from ctrl_jax.training import loop, preemption

  with preemption.Watch() as stop:
    try:
      manifest = stop.together(lambda: _data_set(config, hint), "the data set")
    except errors.Preempted as e:
      raise errors.Preempted(
          "Stopped by SIGTERM before the first step: the same command begins"
          " again."
      ) from e
    tokenizer = text.load_tokenizer(manifest.tokenizer_folder)
    sampler = _Sampler(config.train, tokenizer, manifest.prior)
    result = loop.train(config, workdir, manifest, stop, sampler, profile)
  return result | dict(codes=manifest.codes)


def _data_set(config, hint):
  """Returns the manifest; one in a bucket is copied here, which may last."""
  from ctrl_jax.data import files, index_tfrecords
  from ctrl_jax.data.manifest import Manifest

  if config.data.tfrecords:
    return index_tfrecords.make(config)
  return Manifest.load(files.expand(config.data.folder), hint)


class _Sampler:
  """Continues `train.sample_prompts` under each code, at evaluations.

  Text without a code (code "") continues those that are not empty.
  """

  def __init__(self, config, tokenizer, codes):
    self._config = config
    self._tokenizer = tokenizer
    self._codes = codes

  def __call__(self, model_config, params) -> str:
    from ctrl_jax import decoding
    from ctrl_jax.data.manifest import NO_CODE

    generator = decoding.Generator(model_config, params)
    options = decoding.GenerationOptions(
        max_new_tokens=self._config.sample_tokens
    )
    lines = []
    for prompt in self._config.sample_prompts:
      codes = [code for code in self._codes if code or prompt]
      if not codes:
        continue
      results = decoding.generate(
          generator, self._tokenizer, [prompt] * len(codes),
          [code or None for code in codes], options,
      )
      lines += [
          f"[{code or NO_CODE}] {prompt}{samples[0].text}"
          for code, samples in zip(codes, results)
      ]
    if not lines:
      return "Without a control code a sample needs train.sample_prompts."
    return "\n".join(lines)


def main() -> None:
  """Runs the command."""
  if _CONFIG.value is None or not _WORKDIR.value:
    raise errors.UserError(
        "Which experiment, and where? Give --config=configs/demo.py"
        " --workdir=runs/demo"
    )
  config_file = FLAGS["config"].config_filename
  hint = f"Make it with: python -m ctrl_jax.prepare --config={config_file}"
  # Imported late, as above.
  from ctrl_jax.hosts import session

  with session.joined(_PROCESS_TIMEOUT.value):
    _report(train(_CONFIG.value, _WORKDIR.value, hint, _PROFILE.value))


def _report(result: dict[str, Any]) -> None:
  minutes = result["seconds"] / 60
  figures = [f"Step {result['step']} after {minutes:.1f} minutes"]
  if "goodput" in result:  # Of the main process.
    figures.append(f"goodput {result['goodput']:.0%}")
  if result["perplexity"] is not None:
    figures.append(f"validation perplexity {result['perplexity']:.2f}")
  logging.getLogger("ctrl_jax.train").info(
      "%s. Try: python -m ctrl_jax.sample --model=%s%s",
      ", ".join(figures),
      os.path.expandvars(_WORKDIR.value),
      sample_options(_CONFIG.value, result["codes"]),
  )


def sample_options(config, codes: Sequence[str]) -> str:
  """Returns what `ctrl_jax.sample` wants for a text of such a run."""
  found = f' --code="{codes[0]}"' if codes else ' --prompt="It was"'
  if config.task.name == "cvae" and config.cvae.prior != "none":
    found += " --latent=prior --rules=cvae"
  return found


if __name__ == "__main__":
  command.tune_allocator()
  command.run(main, FLAGS, __doc__)
