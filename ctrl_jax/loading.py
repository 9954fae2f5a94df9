"""`ctrl_jax.load`: a language model, and what was tuned beside it."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ctrl_jax import errors, saved_cvae, saved_head, saved_model
from ctrl_jax.data import files
from ctrl_jax.data.manifest import Manifest
from ctrl_jax.interop import hugging_face
from ctrl_jax.language_model import LanguageModel


def load(
    path,
    *,
    num_heads: int | None = None,
    max_length: int | None = None,
    heads: Mapping[str, Any] | Sequence[Any] = (),
    base: Any = None,
) -> LanguageModel:
  """Loads a trained model.

  Args:
    path: a workdir of `ctrl_jax.train` (its newest checkpoint is read); a
      folder in Hugging Face's layout with a CTRL, GPT-2 or Llama model, or such
      a model's name on the hub (`gpt2`); a Llama-shaped model as GGUF
      (`*.gguf`) or in llama2.c's first format (`*.bin`); or a TensorFlow
      checkpoint of the original CTRL, its folder or prefix. May hold `~` and
      $VARIABLES, and lie in a bucket (`gs://bucket/runs/demo`).
    num_heads: for a TensorFlow checkpoint, which does not say; None for the
      release's 16 at width 1280.
    max_length: for a TensorFlow checkpoint, the window; 256 when None.
    heads: workdirs or folders of heads (auxiliaries, or a CVAE) that were tuned
      beside the model; a mapping names them, otherwise they are called as their
      folders.
    base: if `path` is a head itself or a workdir of LoRA (which is loaded
      merged), where its frozen model lies; None for where it lay at training.

  Raises:
    UserError: there is no such folder, it holds something else, or a file in
      it is damaged. A missing tokenizer is no error until text is asked for.

  Example:

  >>> model = load("runs/demo")  # doctest: +SKIP
  >>> model.score("A text.", code="numpy")[0].perplexity  # doctest: +SKIP
  52.1
  """
  found = find(path, _named(heads), base)
  decoder = found.latent.model if found.latent is not None else None
  if decoder is None:
    decoder = saved_model.read(
        found.path, num_heads=num_heads, max_length=max_length, base=found.base
    )
  check_latent(decoder, found)
  model = LanguageModel(
      decoder.config,
      decoder.params,
      tokenizer_folder=decoder.tokenizer_folder,
      prior=decoder.prior,
      codes=decoder.codes,
      window=decoder.window,
  )
  if found.latent is not None:
    model.set_cvae(found.latent, is_own=found.latent.model is not None)
  for name, head in found.heads.items():
    head = read_head(head)
    if isinstance(head, saved_cvae.SavedCVAE):
      model.set_cvae(head)
    else:
      model.add_head(name, head)
  return model


def read_head(head: Any) -> saved_head.Head | saved_cvae.SavedCVAE:
  """Reads one of `Found.heads`, unless it is read already."""
  if isinstance(head, saved_head.Head):
    return head
  if saved_cvae.is_cvae(head):
    return saved_cvae.read(head)
  return saved_head.read(head)


class Found(NamedTuple):
  """What a path stands for.

  Attributes:
    path: of the language model.
    base: of the frozen model of LoRA, if it is not where it was.
    heads: name -> path, or a `Head` that is read already.
    latent: a CVAE, whose decoder the model is.
  """

  path: Any
  base: Any
  heads: dict[str, Any]
  latent: saved_cvae.SavedCVAE | None = None


def find(
    path, heads: Mapping[str, Any] | None = None, base: Any = None
) -> Found:
  """Looks at what lies at a path: a model, a head, or a CVAE.

  Args:
    path: see `load`.
    heads: name -> path, added to those that lie there.
    base: see `load`.

  Raises:
    errors.UserError: a head or CVAE is damaged, or its base is not there.
  """
  heads = dict(heads or {})
  latent = None
  if saved_head.is_head(path):
    name = pathlib.Path(files.expand(str(path))).name
    head = saved_head.read(path)
    heads = {name: head} | heads
    saved_model.check_base_exists(
        base or head.base, base, f"the head {name!r}"
    )
    path, base = base or head.base, None
  elif saved_cvae.is_cvae(path):
    latent = saved_cvae.read(path)
    if latent.model is None:
      saved_model.check_base_exists(base or latent.base, base, "the CVAE")
      path, base = base or latent.base, None
    elif base is not None:
      raise errors.UserError(
          f"The decoder of the CVAE {str(path)!r} was trained with it and lies"
          " there: leave base out."
      )
  # Those of an export lie beside it, and so does a latent.
  exported = pathlib.Path(files.expand(str(path)))
  if (exported / "heads").is_dir():
    heads = _named(sorted((exported / "heads").iterdir())) | heads
  if latent is None and saved_cvae.is_cvae(exported / saved_cvae.NAME):
    latent = saved_cvae.read(exported / saved_cvae.NAME)
  return Found(path, base, heads, latent)


def check_latent(decoder: saved_model.SavedModel, found: Found) -> None:
  """Refuses the decoder of a CVAE for a model of its own.

  Args:
    decoder: what lies at `found.path`.
    found: what goes with it.

  Raises:
    errors.UserError: it was trained along with a latent, which is not there.
  """
  if decoder.needs_latent and found.latent is None:
    saved_cvae.check_is_there(found.path)


def _named(heads: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
  if isinstance(heads, Mapping):
    return dict(heads)
  return {pathlib.Path(files.expand(str(p))).name: p for p in heads}


def find_data(model_folder: pathlib.Path, data: str) -> Manifest:
  """Returns the manifest of the data set to evaluate a model on.

  Args:
    model_folder: a workdir or an exported folder.
    data: the data set's folder; "" for the one that a workdir names.

  Raises:
    errors.UserError: nothing says where the data set is, or it is not there.
  """
  if data:
    return Manifest.load(files.expand(data))
  content = hugging_face.read_json(model_folder / hugging_face.CONFIG_FILE)
  section = content.get("data")
  folder = section.get("folder") if isinstance(section, dict) else None
  if not folder or not isinstance(folder, str):
    raise errors.UserError(
        f"{str(model_folder)!r} does not say which data set it was trained on:"
        " give --data=FOLDER."
    )
  return Manifest.load(files.expand(folder), hint="Give --data=FOLDER.")
