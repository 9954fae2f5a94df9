"""CVAEs on disk: a run's workdir, or the latent's parts beside an export.

The checkpoint of a run with `task.name="cvae"` holds the latent's parts; and
the decoder, too, unless that was frozen for good (`cvae.train_base=False`), in
which case it lies elsewhere and its hash is here, as with heads. An export has
the decoder as any model, and beside it the folder `cvae`:

  cvae.json          sizes, the decoder's hash, whether it trained along
  cvae.safetensors   the latent's parts, by path
"""

import dataclasses
import pathlib
from typing import Any

import jax

from ctrl_jax import errors, saved_head, saved_part
from ctrl_jax.data import files
from ctrl_jax.interop import hugging_face
from ctrl_jax.models import cvae, transformer
from ctrl_jax.models.auxiliary import AuxiliaryConfig
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.models.cvae_config import CVAEConfig
from ctrl_jax.saved_model import SavedModel

# The folder in an export, and its files.
NAME = "cvae"


@dataclasses.dataclass(frozen=True)
class SavedCVAE:
  """A CVAE, and what it needs to know of its training.

  Attributes:
    config: its sizes, the decoder's among them.
    params: its parameters, without the decoder's.
    model: the decoder, where it lies in the same checkpoint.
    base: where else it lies or lay, as the configuration said.
    base_hash: `saved_head.base_hash` of a decoder that lies elsewhere.
    trained_along: whether the decoder was trained with the latent: without one
      it means nothing.
    window: tokens that it was trained to read at a time, which a decoder that
      lies elsewhere does not know; None in exports of earlier versions.
  """

  config: CVAEConfig
  params: Any
  model: SavedModel | None = None
  base: str = ""
  base_hash: str = ""
  trained_along: bool = False
  window: int | None = None

  # Refuses another model than the decoder.
  check = saved_head.Head.check

  def save(self, folder, base_hash: str) -> None:
    """Writes the latent's parts into a folder that exists.

    The vocabulary's padding is cut off, as exports of decoders have none.

    Args:
      folder: where to.
      base_hash: of the decoder as a reader will find it.
    """
    config = dataclasses.replace(
        self.config, base=dataclasses.replace(self.config.base,
                                              vocab_multiple=1)
    )
    params = dict(self.params)
    size = config.base.vocab_size
    for name in {"softmax", "bag_of_words"} & params.keys():
      params[name] = jax.tree.map(lambda x: x[..., :size], params[name])
    if "words" in params:
      params["words"] = jax.tree.map(lambda x: x[:size], params["words"])
    sizes = dataclasses.asdict(config)
    auxiliary = sizes.pop("auxiliary")
    if auxiliary is not None:
      del auxiliary["base"]
    content = dict(
        base_model=sizes.pop("base"), cvae=sizes, auxiliary=auxiliary,
        base_hash=base_hash,
        trained_along=self.trained_along, window=self.window,
    )
    saved_part.write(folder, NAME, content, params)


def is_cvae(path) -> bool:
  """Whether a CVAE lies there: a workdir, or the folder in an export."""
  folder = pathlib.Path(files.expand(str(path)))
  if _is_part(folder):
    return True
  file = folder / hugging_face.CONFIG_FILE
  return file.is_file() and "cvae" in hugging_face.read_json(file)


def _is_part(folder: pathlib.Path) -> bool:
  return (folder / f"{NAME}.json").is_file()


def check_is_there(path) -> None:
  """Checks that the latent lies beside a decoder that needs it.

  Args:
    path: of the export.

  Raises:
    errors.UserError: it does not.
  """
  if not is_cvae(pathlib.Path(files.expand(str(path))) / NAME):
    raise errors.UserError(
        f"{str(path)!r} was trained along with a latent, and its folder"
        f" {NAME!r} is not there: copy all of the export to one folder of this"
        " machine."
    )


def read(path) -> SavedCVAE:
  """Reads the newest checkpoint of a workdir, or the folder of an export.

  Raises:
    errors.UserError: there is none, or it is damaged.
  """
  folder = pathlib.Path(files.expand(str(path)))
  if not is_cvae(folder):
    raise errors.UserError(
        f"{str(folder)!r} holds no CVAE: expected a workdir of"
        f" task.name='cvae', or a folder with {NAME}.json."
    )
  try:
    return (_read_part if _is_part(folder) else _read)(folder)
  except (KeyError, TypeError, AttributeError, ValueError) as e:
    if isinstance(e, errors.UserError):
      raise
    raise errors.UserError(
        f"The CVAE in {str(folder)!r} is damaged ({e!r}): restore it from a"
        " copy."
    ) from e


def _read_part(folder: pathlib.Path) -> SavedCVAE:
  content = hugging_face.read_json(folder / f"{NAME}.json")
  base = TransformerConfig(**content["base_model"])
  config = _config(base, content)
  params = saved_part.read_params(folder, NAME)
  _check(config, {"cvae": params}, folder)
  along = content["trained_along"]
  if not isinstance(along, bool):
    raise TypeError(f"trained_along={along!r}")
  window = content.get("window")
  if window is not None and (type(window) is not int or window < 1):
    raise TypeError(f"window={window!r}")
  return SavedCVAE(
      config, params, base=str(folder.parent),
      base_hash=content["base_hash"], trained_along=along, window=window,
  )


def _config(base: TransformerConfig, content: dict[str, Any]) -> CVAEConfig:
  names = {f.name for f in dataclasses.fields(CVAEConfig)}
  names -= {"base", "auxiliary"}
  stored = dict(
      shared_projection=False, scale_head="log_variance", reads_words=False
  )
  stored |= content["cvae"]
  # A run's says the weight in the loss.
  stored.setdefault("predicts_words", stored.get("bag_of_words", 0) > 0)
  # Earlier versions wrote none; with a latent nothing reads it.
  if stored["prior"] != "none":
    stored = dict(source_length=CVAEConfig.source_length) | stored
  sizes = {name: stored[name] for name in names}
  if "auxiliary" in sizes["injections"]:
    own = content["auxiliary"] | dict(
        attribute_length=1, latent_size=sizes["latent_size"]
    )
    sizes["auxiliary"] = AuxiliaryConfig(base, **own)
  return CVAEConfig(base, **sizes)


def _read(folder: pathlib.Path) -> SavedCVAE:
  from ctrl_jax.training import checkpoint  # Brings Orbax along.

  content = hugging_face.read_json(folder / hugging_face.CONFIG_FILE)
  manifest = hugging_face.read_json(folder / "manifest.json")
  base = TransformerConfig(vocab_size=content["vocab_size"], **content["model"])
  config = _config(base, content)
  params = checkpoint.load_params(folder)
  _check(config, params, folder)
  model = None
  if "base" in params:
    model = SavedModel(
        base, params["base"], folder / "tokenizer", manifest.get("prior"),
        manifest.get("codes"), manifest.get("sequence_length"),
    )
  return SavedCVAE(
      config, params["cvae"], model, content["train"]["init_from"],
      content.get("base_hash", ""), trained_along=model is not None,
      window=manifest.get("sequence_length"),
  )


def _check(config: CVAEConfig, params: Any, folder: pathlib.Path) -> None:
  """Refuses other leaves than the configuration's, and NaN."""
  if not {"cvae"} <= params.keys() <= {"base", "cvae"}:
    raise errors.UserError(
        f"The parameters in {str(folder)!r} are of {sorted(params)}, not of a"
        " CVAE: restore them from a copy."
    )

  def init(key):
    base = transformer.init_boxed(config.base, key)
    made = dict(base=base, cvae=cvae.init_boxed(config, base, key))
    return {part: made[part] for part in params}

  saved_head.check_params(init, params, f"The CVAE in {str(folder)!r}")
