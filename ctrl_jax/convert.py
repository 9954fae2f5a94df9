"""Writes a model in the layout Hugging Face uses.

  python -m ctrl_jax.convert --model=WORKDIR --to=FOLDER
  python -m ctrl_jax.convert --model=seqlen256_v1.ckpt --to=FOLDER
  python -m ctrl_jax.convert --model=WORKDIR --to=FOLDER --format=ctranslate2
  python -m ctrl_jax.convert --check=seqlen256_v1.ckpt

Reads what `ctrl_jax.load` reads: a workdir, such a folder, or a TensorFlow
checkpoint of the original CTRL, on this machine or in a bucket (gs://...). The
folder gets config.json and safetensors, as transformers' CTRLLMHeadModel (or
GPT2LMHeadModel, for a model of that shape) reads them, the tokenizer's files,
also those that AutoTokenizer wants, generation_config.json, a model card
(README.md), and ctrl_jax.json with the control codes' shares of the training
data; heads lie in `heads`, a CVAE's latent in `cvae`. `ctrl_jax.load(FOLDER)`
gives the same model. --format=ctranslate2 writes what CTranslate2 runs on a
CPU, with 8-bit weights (--quantization), of a model without heads or latent.
--check compares the released CTRL with known answers, exit code 1 if one does
not hold. Flags that one of these does not read are refused.
"""

import dataclasses
import logging
import pathlib
import sys
from typing import Any

from absl import flags

from ctrl_jax import (
    command,
    errors,
    export_folder,
    language_model,
    loading,
    saved_cvae,
    saved_head,
    saved_model,
)
from ctrl_jax.interop import (
    ctranslate2,
    hugging_face,
    hugging_face_tokenizer,
    model_card,
    safetensors_folder,
    self_test,
)

_LOG = logging.getLogger("ctrl_jax.convert")
_MAX_SHARD_SIZE = 1e9  # A petabyte.

FLAGS = flags.FlagValues()
_MODEL = flags.DEFINE_string(
    "model", None, "What `ctrl_jax.load` reads.", flag_values=FLAGS
)
_TO = flags.DEFINE_string(
    "to", None, "The folder to make.", flag_values=FLAGS
)
_FORCE = flags.DEFINE_bool(
    "force", False, "Replace an earlier export.", flag_values=FLAGS
)
_DTYPE = flags.DEFINE_enum(
    "dtype", "float32", list(safetensors_folder.DTYPES),
    "Of the weights, with --format=huggingface.", flag_values=FLAGS,
)
_FORMAT = flags.DEFINE_enum(
    "format", "huggingface", ["huggingface", "ctranslate2"], "What to write.",
    flag_values=FLAGS,
)
_QUANTIZATION = flags.DEFINE_enum(
    "quantization", "int8", ctranslate2.QUANTIZATIONS,
    "Of the weights, with --format=ctranslate2 (instead of --dtype).",
    flag_values=FLAGS,
)
_SHARD_SIZE = flags.DEFINE_float(
    "shard_size", 0.0, "Megabytes a file has at most; 0 for one file.",
    lower_bound=0.0, flag_values=FLAGS,
)
_CHECK = flags.DEFINE_string(
    "check", "", "Instead: the released CTRL to compare with known answers.",
    flag_values=FLAGS,
)
_BASE = flags.DEFINE_string(
    "base", "",
    "If --model is a head or LoRA's: where its frozen model lies now.",
    flag_values=FLAGS,
)
_NUM_HEADS = flags.DEFINE_integer(
    "num_heads", None,
    "Attention heads of a TensorFlow checkpoint that is not the release's.",
    flag_values=FLAGS,
)
_MAX_LENGTH = flags.DEFINE_integer(
    "max_length", None, "Window of a TensorFlow checkpoint; 256 if not given.",
    flag_values=FLAGS,
)


def convert(
    model_path,
    to,
    force: bool = False,
    *,
    dtype: str = "float32",
    shard_size: float = 0.0,
    num_heads: int | None = None,
    max_length: int | None = None,
    base: str = "",
) -> pathlib.Path:
  """Exports a model; the folder appears complete or not at all.

  A model without a tokenizer is exported without one. Parameters are read and
  written leaf by leaf.

  Args:
    model_path: what `ctrl_jax.load` takes.
    to: the folder to make.
    force: replace what an earlier call wrote there.
    dtype: of the weights: "float32", "float16" or "bfloat16".
    shard_size: megabytes a file has at most; 0 for one file.
    num_heads: see `ctrl_jax.load`.
    max_length: see `ctrl_jax.load`.
    base: of a head or of LoRA's workdir (exported merged), where its frozen
      model lies now; see `ctrl_jax.load`.

  Returns:
    The folder.

  Raises:
    errors.UserError: no model there, one without a Hugging Face layout, or a
      folder that is not empty.
  """
  if not 0 <= shard_size <= _MAX_SHARD_SIZE:
    raise errors.UserError(
        f"--shard-size={shard_size} must be 0 (one file) or a size in MB."
    )
  folder = export_folder.find(to, model_path, force)
  found, heads, latent = _read(
      model_path, folder, base, num_heads=num_heads, max_length=max_length
  )
  # Without the parameters, which do not fit into memory at once, maybe.
  model = language_model.LanguageModel(
      found.config, {}, tokenizer_folder=found.tokenizer_folder,
      prior=found.prior, codes=found.codes, window=found.window,
  )
  tokenizer = model.tokenizer if model.has_tokenizer else None
  extra = _extra(model)
  needs_latent = latent is not None and latent.trained_along
  if needs_latent:
    extra |= dict(needs_latent=True)
  with export_folder.replacing(folder) as partial:
    hugging_face.write(
        partial,
        model.config,
        found.params,
        end_id=tokenizer.end_id if tokenizer else None,
        begin_id=next(iter(tokenizer.begin_ids), None) if tokenizer else None,
        extra=extra,
        dtype=dtype,
        shard_bytes=max(int(shard_size * 1e6), 1) if shard_size else None,
    )
    if tokenizer is None:
      _LOG.warning("There is no tokenizer beside the model: none is written.")
    else:
      for name, content in hugging_face_tokenizer.files(tokenizer).items():
        (partial / name).write_bytes(content)
    _write_parts(partial, heads, latent)
    card = model_card.text(
        model.config, extra, needs_latent, _code_ids(tokenizer, extra), heads
    )
    (partial / "README.md").write_text(card, encoding="utf-8")
  return folder


def _extra(model: language_model.LanguageModel) -> dict[str, Any]:
  """Returns the content of `ctrl_jax.json`."""
  extra = dict(sequence_length=model.window)
  if model.has_tokenizer:
    extra |= dict(codes=list(model.codes), prior=model.prior)
  return extra


def _read(model_path, folder: pathlib.Path, base: str, **options):
  """Returns the model, the heads by name and the CVAE (or None) of a path.

  Args:
    model_path: what `ctrl_jax.load` takes.
    folder: the export to make, which is to hold none of it.
    base: see `convert`.
    **options: of `saved_model.read`.
  """
  place = loading.find(model_path, base=base or None)
  for path in (place.path, place.base):
    if path is not None:
      export_folder.check_holds_not(folder, path)
  heads = {name: loading.read_head(h) for name, h in place.heads.items()}
  latent = place.latent
  if latent is not None and latent.model is not None:
    found = latent.model
  else:
    found = saved_model.read(
        place.path, lazily=not heads and latent is None, base=place.base,
        **options,
    )
    loading.check_latent(found, place)
    if latent is not None:
      latent.check(found.config, found.params, "The CVAE")
  for name, head in heads.items():
    head.check(found.config, found.params, f"The head {name!r}")
  return found, heads, latent


def _code_ids(tokenizer, extra) -> dict[str, list[int]]:
  """Control code -> its ids, of those that the tokenizer knows."""
  return {
      code: tokenizer.code_ids(code)
      for code in extra.get("codes") or ()
      if all(word in tokenizer.code_words for word in code.split())
  }


def _write_parts(folder: pathlib.Path, heads, latent) -> None:
  """Writes heads and a CVAE beside the export of their model, `folder`.

  Its hash is of what a reader finds there: another dtype has other numbers.
  """
  if not heads and latent is None:
    return
  exported = saved_model.read(folder)
  new_hash = saved_head.base_hash(exported.config, exported.params)
  for name, head in heads.items():
    own = folder / "heads" / name
    own.mkdir(parents=True)
    dataclasses.replace(head, base_hash=new_hash, base="../..").save(own)
  if latent is not None:
    (folder / saved_cvae.NAME).mkdir()
    latent.save(folder / saved_cvae.NAME, new_hash)


def to_ctranslate2(
    model_path,
    to,
    force: bool = False,
    *,
    quantization: str = "int8",
    num_heads: int | None = None,
    max_length: int | None = None,
    base: str = "",
) -> pathlib.Path:
  """Exports a model for CTranslate2; complete or not at all.

  Args:
    model_path: what `ctrl_jax.load` takes; with a tokenizer.
    to: the folder to make.
    force: replace what an earlier call wrote there.
    quantization: of the weights, see `interop.ctranslate2.QUANTIZATIONS`.
    num_heads: see `ctrl_jax.load`.
    max_length: see `ctrl_jax.load`.
    base: see `convert`.

  Raises:
    errors.UserError: see `convert` and `interop.ctranslate2.write`; or there
      are heads or a latent, which would not come along.
  """
  folder = export_folder.find(to, model_path, force)
  model = loading.load(
      model_path, num_heads=num_heads, max_length=max_length, base=base or None
  )
  _check_alone(model, model_path)
  tok = model.tokenizer
  tokens = tok.tokens

  def token(i):
    return None if i is None else tokens[i]

  with export_folder.replacing(folder) as partial:
    ctranslate2.write(
        partial, model.config, model.params, tokens, end=token(tok.end_id),
        unknown=token(tok.unknown_id), quantization=quantization,
    )
    hugging_face.write_extra(partial, _extra(model))
  return folder


def _check_alone(model: language_model.LanguageModel, model_path) -> None:
  """Refuses a model with parts that CTranslate2 does not know."""
  if model.cvae is not None and model.cvae.trained_along:
    raise errors.UserError(
        f"{str(model_path)!r} was trained with a latent, which CTranslate2 does"
        " not know: export it without --format."
    )
  parts = [f"the head {name!r}" for name in model.heads]
  parts += ["a latent"] if model.cvae is not None else []
  if parts:
    raise errors.UserError(
        f"{str(model_path)!r} has {', '.join(parts)}, which CTranslate2 does"
        " not know: export it without --format, or name the folder of its base"
        " alone."
    )


# What each way of calling the command reads, besides the source's own flags.
_READS = {
    "--check": {"check"},
    "--format=huggingface": {
        "model", "to", "force", "format", "base", "dtype", "shard_size"
    },
    "--format=ctranslate2": {
        "model", "to", "force", "format", "base", "quantization"
    },
}


def _check_flags() -> None:
  """Refuses flags that would do nothing."""
  if FLAGS["check"].present and not _CHECK.value:
    raise errors.UserError("Which model? Give --check=MODEL.")
  way = "--check" if _CHECK.value else f"--format={_FORMAT.value}"
  read = _READS[way] | {"num_heads", "max_length"}
  idle = [
      f"--{name.replace('_', '-')}"
      for name in sorted(set.union(*_READS.values()) - read)
      if FLAGS[name].present
  ]
  if idle:
    raise errors.UserError(
        f"{', '.join(idle)} would do nothing with {way}: leave that out."
    )
  if _TO.value == "ctranslate2" and not FLAGS["format"].present:
    raise errors.UserError(
        "--to names a folder, --format what to write there: add"
        " --format=ctranslate2, or --format=huggingface."
    )


def main() -> None:
  """Runs the command."""
  _check_flags()
  if _CHECK.value:
    model = loading.load(
        _CHECK.value, num_heads=_NUM_HEADS.value, max_length=_MAX_LENGTH.value
    )
    found = list(self_test.run(model))
    print(self_test.table(found))
    sys.exit(0 if all(check.passed for check in found) else 1)
  for name, flag in (("model", _MODEL), ("to", _TO)):
    if not flag.value:
      raise errors.UserError(f"Which folder? Give --{name}=FOLDER.")
  if _FORMAT.value == "ctranslate2":
    folder = to_ctranslate2(
        _MODEL.value, _TO.value, _FORCE.value, num_heads=_NUM_HEADS.value,
        quantization=_QUANTIZATION.value, max_length=_MAX_LENGTH.value,
        base=_BASE.value,
    )
    _print_files(folder)
    return
  folder = convert(
      _MODEL.value, _TO.value, _FORCE.value, dtype=_DTYPE.value,
      shard_size=_SHARD_SIZE.value, num_heads=_NUM_HEADS.value,
      max_length=_MAX_LENGTH.value, base=_BASE.value,
  )
  _print_files(folder)


def _print_files(folder: pathlib.Path) -> None:
  for file in sorted(p for p in folder.rglob("*") if p.is_file()):
    print(f"{file.stat().st_size:14,} bytes  {file}")


if __name__ == "__main__":
  command.tune_allocator(command.ARRAY_SETTINGS)
  command.run(main, FLAGS, __doc__)
