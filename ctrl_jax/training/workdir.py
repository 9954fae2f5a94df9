"""A training's folder: what a run writes down of itself, and checks.

  config.json     the configuration, code version, hashes of data and tokenizer
  manifest.json   a copy of the data set's
  tokenizer/      a copy of the tokenizer
  checkpoints/    Orbax
  metrics.jsonl   figures, one JSON object a line
  tensorboard/    the same
  samples.txt     texts written at evaluations
  goodput.json    when the run was started for the first time
  profile/        of the steps that `train --profile` named
"""

import json
import os
import secrets
from collections.abc import Mapping
from typing import Any

import jax
import ml_collections
from etils import epath

import ctrl_jax
from ctrl_jax import config as config_lib
from ctrl_jax import errors
from ctrl_jax.data import buckets, files
from ctrl_jax.data.manifest import Manifest
from ctrl_jax.hosts import session
from ctrl_jax.training import checkpoint

# What makes a run the run that it is. The rest (steps, how often to log, where
# the data lies, how many devices) may change between two starts.
_IDENTITY = (
    "model", "task", "auxiliary", "lora", "side", "cvae", "optimizer",
    "vocab_size",
    "data_hash", "tokenizer_hash", "base_hash",
)
_TRAIN_IDENTITY = ("batch_size", "seed", "prng", "weights", "frozen_weights")
# How a model is computed, not which model it is.
_FREE = ("remat", "scan_layers", "dtype")
_PARTIAL = ".partial"
# There for a moment, at the start of several processes.
_WORD = "shared"
# What is written before `config.json`.
_BEGUN = {
    "tokenizer", "manifest.json", "manifest.json" + _PARTIAL,
    "config.json" + _PARTIAL,
}


# Sections that a task uses beside those that all do.
_SECTIONS = {
    "language_model": (),
    "auxiliary_tuning": ("task", "auxiliary"),
    "lora": ("task", "lora"),
    "side_tuning": ("task", "side"),
    "cvae": ("task", "cvae"),
}


def describe(
    config: ml_collections.ConfigDict, manifest: Manifest, base_hash: str = ""
) -> dict[str, Any]:
  """Returns what `config.json` holds, as JSON types."""
  fields = {
      **json.loads(config.to_json_best_effort()),
      "vocab_size": manifest.vocab_size,
      "data_hash": manifest.hash,
      "tokenizer_hash": manifest.tokenizer_hash,
      "code_version": ctrl_jax.__version__,
      "jax_version": jax.__version__,
  }
  # What is loaded later must not depend on a variable of this shell.
  fields["train"]["init_from"] = files.expand(config.train.init_from)
  if base_hash:
    fields["base_hash"] = base_hash
  used = _SECTIONS[config.task.name]
  if "cvae" in used and "auxiliary" in config.cvae.injections:
    used += ("auxiliary",)
  for section in ("task", "auxiliary", "lora", "side", "cvae"):
    if section not in used:
      del fields[section]
  return fields


def check_reachable(path: epath.PathLike) -> None:
  """Checks that the bucket of a workdir `gs://...` can be asked for it.

  Raises:
    errors.UserError: it cannot; or the path is an address of another kind.
  """
  path = files.expand(os.fspath(path))
  if not buckets.is_remote(path):
    return
  with buckets.reaching(path, "reach --workdir"):
    epath.Path(path).exists()


def open_workdir(
    path: epath.PathLike,
    config: ml_collections.ConfigDict,
    manifest: Manifest,
    base_hash: str = "",
) -> epath.Path:
  """Makes the workdir, or checks that what lies there is the same run.

  Of several processes the main one makes it; the others find it made, and by
  the same configuration and data as theirs.

  Args:
    path: the workdir.
    config: of the run.
    manifest: the prepared data set.
    base_hash: `saved_head.base_hash` of a frozen model; "" for none.

  Raises:
    errors.UserError: the folder belongs to another run (the differences are
      listed), to something else, or cannot be written; or it is not the main
      process's.
  """
  folder = checkpoint.absolute(epath.Path(files.expand(os.fspath(path))))
  fields = describe(config, manifest, base_hash)
  if session.is_main():
    _open(folder, fields, manifest)
  if session.current():
    _check_shared(folder, fields)
  return folder


def _open(folder: epath.Path, fields: Mapping, manifest: Manifest) -> None:
  file = folder / "config.json"
  if file.exists():
    _refuse_differences(file, _read(file), fields)
    _fill(folder, fields, manifest)
    return
  # What a run killed before its config.json was written leaves.
  if folder.exists() and not {p.name for p in folder.iterdir()} <= _BEGUN:
    raise errors.UserError(
        f"--workdir {str(folder)!r} is neither empty nor a training's: choose"
        " another folder."
    )
  try:
    with errors.naming(folder):
      _fill(folder, fields, manifest)
  except BaseException:  # A full disk, say: nothing half-written stays.
    if folder.exists():
      folder.rmtree()
    raise


def _check_shared(folder: epath.Path, fields: Mapping) -> None:
  """Checks that all processes have this folder, and the same configuration.

  On disks of their own each would keep its part of a checkpoint, which then
  nobody could restore. So process 0 leaves a word there for the others.
  """
  file, word = folder / _WORD, ""
  if session.is_main():
    word = secrets.token_hex(8)
    write_file(file, word)
  word = session.exchange("the workdir", word)[0]
  if not session.is_main():
    if not file.exists() or file.read_text() != word:
      raise errors.UserError(
          f"--workdir {str(folder)!r} is another folder for process 0: with"
          " several machines it must be in a bucket, or on a disk they share."
      )
    _refuse_differences(folder / "config.json", _read(folder / "config.json"),
                        fields)
  session.exchange("the check of the workdir")
  if session.is_main():
    file.unlink()


def _fill(folder: epath.Path, fields: Mapping, manifest: Manifest) -> None:
  folder.mkdir(parents=True, exist_ok=True)
  _copy_tree(epath.Path(manifest.tokenizer_folder), folder / "tokenizer")
  write_file(folder / "manifest.json",
             (epath.Path(manifest.folder) / "manifest.json").read_text())
  # Last: a workdir with a config.json is complete.
  write_file(folder / "config.json",
             json.dumps(fields, indent=1, sort_keys=True) + "\n")


def _read(file: epath.Path) -> dict[str, Any]:
  try:
    fields = json.loads(file.read_text())
    if isinstance(fields, dict) and isinstance(fields.get("train"), dict):
      return fields
    reason = "it is no training's configuration"
  except (ValueError, RecursionError) as e:
    reason = str(e)
  raise errors.UserError(
      f"{file} is damaged ({reason}): restore it, or choose another --workdir."
  )


def _refuse_differences(file, old: Mapping, new: Mapping) -> None:
  lines = []
  defaults = config_lib.default()
  for name in _IDENTITY:
    was = old.get(name)
    if isinstance(was, dict):
      # Fields that are younger than the run had what is now the default.
      was = defaults[name].to_dict() | was
    lines += _differences(name, was, new.get(name))
  was = defaults.train.to_dict() | old["train"]
  for name in _TRAIN_IDENTITY:
    lines += _differences(f"train.{name}", was[name], new["train"].get(name))
  if lines:
    raise errors.UserError(
        f"{file.parent} holds another run: {'; '.join(lines)}. Choose another"
        " --workdir, or set these back."
    )


def _differences(name: str, old: Any, new: Any) -> list[str]:
  if isinstance(old, dict) and isinstance(new, dict):
    return [
        line
        for key in sorted(old.keys() | new.keys())
        if key not in _FREE
        for line in _differences(f"{name}.{key}", old.get(key), new.get(key))
    ]
  return [] if old == new else [f"{name} was {old!r}, is {new!r}"]


def write_file(file: epath.Path, text: str) -> None:
  """Writes all or nothing."""
  partial = file.parent / (file.name + _PARTIAL)
  partial.write_text(text)
  partial.replace(file)


def _copy_tree(source: epath.Path, target: epath.Path) -> None:
  target.mkdir(parents=True, exist_ok=True)
  for path in source.iterdir():
    partial = target / (path.name + _PARTIAL)
    # An error of `copy` would name the source.
    partial.write_bytes(path.read_bytes())
    partial.replace(target / path.name)
