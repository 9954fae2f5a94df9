"""Reads a model from wherever one lies: parameters and what belongs to them."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax

from ctrl_jax import errors, saved_lora
from ctrl_jax.data import buckets, files
from ctrl_jax.interop import (
    assemble,
    gguf_file,
    gguf_model,
    hub,
    hugging_face,
    layouts,
    llama2c,
    remote,
    tensorflow_checkpoint,
    tensorflow_ctrl,
)
from ctrl_jax.models import transformer
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.text import ctrl_codes

_EXPECTED = (
    "Expected a workdir of `python -m ctrl_jax.train` (config.json,"
    " checkpoints/, tokenizer/) or a folder that `python -m ctrl_jax.convert`"
    " wrote (config.json, model.safetensors), or a `.gguf` file"
)


# The vocabulary of the released CTRL.
_RELEASE = 246_534


class SavedModel(NamedTuple):
  """What a folder or checkpoint holds.

  Attributes:
    config: sizes and variants.
    params: the parameters, float32; with `lazily`, an `assemble.Leaves`.
    tokenizer_folder: folder or file where its tokenizer lies, if it has one.
    prior: control code -> share of the training tokens, None if not known.
    codes: the control codes, None if only the tokenizer says.
    window: tokens of a training sequence, None if not known.
    needs_latent: whether it is the decoder of a CVAE, trained along with it.
    accumulators: Adagrad's, a tree like `params`; None unless asked for and
      there.
  """

  config: TransformerConfig
  params: Any
  tokenizer_folder: pathlib.Path
  prior: Mapping[str, float] | None = None
  codes: Sequence[str] | None = None
  window: int | None = None
  accumulators: Any = None
  needs_latent: bool = False


def read(
    path,
    *,
    num_heads: int | None = None,
    max_length: int | None = None,
    with_accumulators: bool = False,
    lazily: bool = False,
    base: Any = None,
) -> SavedModel:
  """Reads a workdir, or a folder or file of another program.

  Args:
    path: see `ctrl_jax.load`; may hold `~` and $VARIABLES.
    num_heads: see `ctrl_jax.load`.
    max_length: see `ctrl_jax.load`.
    with_accumulators: read Adagrad's of a TensorFlow checkpoint, too.
    lazily: read parameters only when asked for, leaf by leaf; damage in them
      is found then.
    base: of a workdir of LoRA, where its frozen model lies now; None for where
      it lay.

  Raises:
    errors.UserError: see `ctrl_jax.load`.
  """
  folder = _place(path)
  if base is not None and not has_base(path):
    raise errors.UserError(
        f"base= is for a head or LoRA's workdir, and {str(path)!r} is none of"
        " them: leave it out."
    )
  if tensorflow_checkpoint.find(folder) is not None:
    found = _tensorflow(folder, num_heads, max_length, with_accumulators)
    return found if lazily else found._replace(params=found.params.tree())
  if num_heads is not None or max_length is not None:
    raise errors.UserError(
        f"num_heads and max_length are for TensorFlow checkpoints; {path} is"
        " none and says both itself."
    )
  single = _single_file(folder)
  if single is not None:
    if lazily:
      single = single._replace(params=assemble.Tree(single.params))
    return single
  if not folder.is_dir():
    what = "is a file" if folder.exists() else "does not exist"
    raise errors.UserError(f"{str(folder)!r} {what}. {_EXPECTED}.")
  config_file = folder / hugging_face.CONFIG_FILE
  if not config_file.is_file():
    raise errors.UserError(_found(folder))
  content = hugging_face.read_json(config_file)
  if "model_type" in content:
    return _export(folder, lazily)
  if isinstance(content.get("model"), dict) and "vocab_size" in content:
    return _workdir(folder, content, lazily, base)
  raise errors.UserError(_found(folder))


def _export(folder: pathlib.Path, lazily: bool) -> SavedModel:
  """Reads a folder in Hugging Face's layout, of this program or another's."""
  config, params, extra = hugging_face.open_folder(folder)
  found = _with_extra(config, params, folder, extra, hugging_face.EXTRA_FILE)
  if not extra:
    found = found._replace(prior=_release_prior(config))
  return found if lazily else found._replace(params=params.tree())


def _workdir(
    folder: pathlib.Path, content: Mapping[str, Any], lazily: bool, base: Any
) -> SavedModel:
  """Reads a training's newest checkpoint, LoRA's merged with its base."""
  from ctrl_jax.training import checkpoint  # Brings Orbax along.

  if "cvae" in content:
    raise errors.UserError(
        f"{str(folder)!r} is the run of a CVAE, no language model alone: export"
        f" it (python -m ctrl_jax.convert --model={folder} --to=FOLDER) and"
        " name that folder."
    )
  config = _workdir_config(content, folder / hugging_face.CONFIG_FILE)
  whole = None
  if saved_lora.is_lora(content):
    whole = _with_lora(folder, content, config, base)
  elif not lazily:
    whole = checkpoint.load_params(folder)
  params = (
      checkpoint.StoredParams(folder) if whole is None else assemble.Tree(whole)
  )
  _check_shapes(config, params.shapes, folder)
  file = folder / "manifest.json"
  extra = hugging_face.read_json(file) if file.is_file() else {}
  found = _with_extra(
      config, params if lazily else whole, folder, extra, file.name
  )
  return found._replace(tokenizer_folder=folder / "tokenizer")


def _with_extra(config, params, folder, extra, file) -> SavedModel:
  """A model of `folder` and what its `file` says beside the weights."""
  _check_extra(extra, folder / file)
  return SavedModel(
      config,
      params,
      folder,
      prior=extra.get("prior"),
      codes=extra.get("codes"),
      window=extra.get("sequence_length"),
      needs_latent=extra.get("needs_latent", False),
  )


def has_base(path) -> bool:
  """Whether a model is a frozen one and what was added to it: LoRA's workdir.
  """
  file = pathlib.Path(files.expand(str(path))) / hugging_face.CONFIG_FILE
  return file.is_file() and saved_lora.is_lora(hugging_face.read_json(file))


def _with_lora(folder, content, config, base) -> Any:
  """Reads the frozen model of a workdir of LoRA, and merges."""
  place = base or content.get("train", {}).get("init_from", "")
  check_base_exists(place, base, f"LoRA's run {folder.name!r}")
  frozen = read(place)
  return saved_lora.merged(
      folder, content, config, frozen.config, frozen.params
  )


def check_base_exists(place, given, what: str) -> None:
  """Refuses a base that is gone, before reading tells of a missing folder.

  Args:
    place: where the base is said to lie.
    given: the user's word for it, None if it is from a configuration.
    what: was trained beside it.

  Raises:
    errors.UserError: it is not there.
  """
  place = files.expand(str(place))
  if given is None and "/" in place and "://" not in place and not (
      pathlib.Path(place).exists()
  ):
    raise errors.UserError(
        f"The frozen model of {what} was in {place!r}, and is not there now:"
        " say where it lies with base= (--base)."
    )


def _single_file(path: pathlib.Path) -> SavedModel | None:
  """Reads a model that is one file; None where there is no such file."""
  file = gguf_file.find(path)
  if file is not None:
    return SavedModel(*gguf_model.read(file), file)
  if llama2c.is_model(path):
    config, params = llama2c.read(path)
    tokenizer = llama2c.find_tokenizer(path, config.vocab_size)
    return SavedModel(config, params, tokenizer or path.parent)
  return None


def _place(path, names: tuple[str, ...] | None = None) -> pathlib.Path:
  """Returns the folder or file that `path` means, fetched if need be.

  Args:
    path: see `read`.
    names: files that are enough, where it lies in a bucket; None for all.
  """
  place = files.expand(str(path))
  if buckets.is_remote(place):
    return remote.fetch(place, names)
  if hub.is_name(place) and tensorflow_checkpoint.find(
      pathlib.Path(place)
  ) is None:
    return hub.fetch(place)
  return pathlib.Path(place)


def read_config(path) -> TransformerConfig:
  """Reads the sizes alone, of whatever `read` takes.

  Raises:
    errors.UserError: there is no such folder, or it holds something else; a
      TensorFlow checkpoint that is not as wide as the release, whose heads
      nothing says.
  """
  folder = _place(path, (hugging_face.CONFIG_FILE,))
  if tensorflow_checkpoint.find(folder) is not None:
    return tensorflow_ctrl.open_checkpoint(folder).config
  single = gguf_file.find(folder)
  if single is not None:
    return gguf_model.read_config(single)
  if llama2c.is_model(folder):
    return llama2c.read_config(folder)
  file = folder / hugging_face.CONFIG_FILE
  if not file.is_file():
    if not folder.is_dir():
      raise errors.UserError(f"{str(folder)!r} is no folder. {_EXPECTED}.")
    raise errors.UserError(_found(folder))
  content = hugging_face.read_json(file)
  if "model_type" in content:
    return layouts.from_json(content, str(file))
  if isinstance(content.get("model"), dict) and "vocab_size" in content:
    return _workdir_config(content, file)
  raise errors.UserError(_found(folder))


def _tensorflow(path, num_heads, max_length, with_accumulators) -> SavedModel:
  found = tensorflow_ctrl.open_checkpoint(
      path, num_heads=num_heads,
      max_length=256 if max_length is None else max_length,
      with_accumulators=with_accumulators,
  )
  return SavedModel(
      found.config,
      found.params,
      path if path.is_dir() else path.parent,
      prior=_release_prior(found.config),
      accumulators=found.accumulators,
  )


def _release_prior(config: TransformerConfig) -> dict[str, float] | None:
  """The released CTRL's shares, which its files do not hold."""
  is_release = config.vocab_size == _RELEASE and config.head_bias
  return dict(ctrl_codes.PRIORS) if is_release else None


def _workdir_config(
    content: Mapping[str, Any], file: pathlib.Path
) -> TransformerConfig:
  if not isinstance(content.get("train", {}), dict):
    raise errors.UserError(
        f"{file}: `train` is {content['train']!r}, not a section. Restore it"
        " from a copy."
    )
  try:
    return TransformerConfig(
        vocab_size=content["vocab_size"], **content["model"]
    )
  except TypeError as e:
    raise errors.UserError(
        f"{file}: the section `model` is not one of this version ({e})."
    ) from e


def _check_shapes(
    config: TransformerConfig,
    found: Mapping[str, tuple[int, ...]],
    folder: pathlib.Path,
) -> None:
  """Refuses a checkpoint of another model than `config.json` says."""
  wanted = assemble.flat(jax.eval_shape(
      lambda key: transformer.init(config, key), jax.random.key(0)
  ))
  wanted = {path: x.shape for path, x in wanted.items()}
  wrong = [
      f"{name} is {found.get(name)}, not {wanted.get(name)}"
      for name in sorted(wanted.keys() | found.keys())
      if found.get(name) != wanted.get(name)
  ]
  if wrong:
    raise errors.UserError(
        f"The checkpoint in {str(folder)!r} is not of the model in its"
        f" config.json: {'; '.join(wrong[:3])}. Restore config.json."
    )


def _check_extra(extra: Mapping[str, Any], file: pathlib.Path) -> None:
  """Checks what comes with a model, which a user may have edited."""
  codes, prior = extra.get("codes"), extra.get("prior")
  window = extra.get("sequence_length")
  good = dict(
      codes=codes is None
      or isinstance(codes, list) and all(isinstance(c, str) for c in codes),
      prior=prior is None or isinstance(prior, dict) and all(
          isinstance(p, int | float) and 0 <= p < float("inf")
          for p in prior.values()
      ),
      sequence_length=window is None or type(window) is int and window > 0,
      needs_latent=isinstance(extra.get("needs_latent", False), bool),
  )
  for field in good:
    if not good[field]:
      raise errors.UserError(
          f"{file}: {field!r} cannot be {extra[field]!r}. Restore the file."
      )


def _found(folder: pathlib.Path) -> str:
  names = sorted(p.name for p in folder.iterdir())
  shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
  return (
      f"{str(folder)!r} holds no model: found {shown or 'nothing'}."
      f" {_EXPECTED}."
  )
