"""Writes a trained model in the layout Hugging Face uses.

  python -m ctrl_jax.convert --model=WORKDIR --to=FOLDER

The folder gets config.json and model.safetensors, as transformers'
CTRLLMHeadModel (or GPT2LMHeadModel, for a model of that shape) reads them,
the tokenizer's files, and ctrl_jax.json with the control codes' shares of the
training data. `ctrl_jax.load(FOLDER)` gives the same model.

transformers has no class for this tokenizer: tokenize with ctrl_jax.
"""

import pathlib

from absl import flags

from ctrl_jax import command, errors, language_model
from ctrl_jax.data import files, replace
from ctrl_jax.interop import hugging_face
from ctrl_jax.text import CONFIG_FILE

FLAGS = flags.FlagValues()
_MODEL = flags.DEFINE_string(
    "model", None, "A workdir of `ctrl_jax.train`.", flag_values=FLAGS
)
_TO = flags.DEFINE_string(
    "to", None, "The folder to make.", flag_values=FLAGS
)
_FORCE = flags.DEFINE_bool(
    "force", False, "Replace an earlier export.", flag_values=FLAGS
)


def convert(model_path, to, force: bool = False) -> pathlib.Path:
  """Exports a model; the folder appears complete or not at all.

  Args:
    model_path: what `ctrl_jax.load` takes.
    to: the folder to make.
    force: replace what an earlier call wrote there.

  Returns:
    The folder.

  Raises:
    errors.UserError: no model there, one without a Hugging Face layout, or a
      folder that is not empty.
  """
  folder = pathlib.Path(files.expand(str(to)))
  _check_free(folder, pathlib.Path(files.expand(str(model_path))), force)
  model = language_model.load(model_path)
  tokenizer = model.tokenizer
  with replace.replacing(folder) as partial:
    tokenizer.save(partial)
    hugging_face.write(
        partial,
        model.config,
        model.params,
        end_id=tokenizer.end_id,
        extra=dict(
            codes=list(model.codes),
            prior=model.prior,
            sequence_length=model.window,
        ),
    )
  return folder


def _check_free(folder: pathlib.Path, model: pathlib.Path, force: bool) -> None:
  if not folder.exists():
    return
  if not folder.is_dir():
    raise errors.UserError(f"--to={str(folder)!r} is a file: name a folder.")
  if not any(folder.iterdir()):
    return
  if model.resolve().is_relative_to(folder.resolve()):
    raise errors.UserError(
        f"--to={str(folder)!r} holds the model itself: name another folder."
    )
  names = (hugging_face.EXTRA_FILE, hugging_face.WEIGHTS_FILE, CONFIG_FILE)
  is_export = all((folder / name).is_file() for name in names)
  if not is_export:
    raise errors.UserError(
        f"--to={str(folder)!r} is not empty and no export of this program: it"
        " is left alone. Name another folder."
    )
  if not force:
    raise errors.UserError(
        f"--to={str(folder)!r} holds an earlier export: replace it with"
        " --force, or name another folder."
    )


def main() -> None:
  """Runs the command."""
  for name, flag in (("model", _MODEL), ("to", _TO)):
    if not flag.value:
      raise errors.UserError(f"Which folder? Give --{name}=FOLDER.")
  folder = convert(_MODEL.value, _TO.value, _FORCE.value)
  for file in sorted(folder.iterdir()):
    print(f"{file.stat().st_size:14,} bytes  {file}")


if __name__ == "__main__":
  command.run(main, FLAGS, __doc__)
