"""Continues prompts under control codes.

  python -m ctrl_jax.sample --model=runs/demo --code=numpy --prompt="The"
  python -m ctrl_jax.sample --model=runs/demo --code=numpy --next-tokens=10

Reads nothing from the keyboard. Without --prompt and --prompts-file the text
starts from the code alone. Greedy with the paper's penalty unless told
otherwise: --temperature=1 --top-p=0.9 samples.
"""

import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from absl import flags

from ctrl_jax import command, errors, latent_flags
from ctrl_jax.data import files
from ctrl_jax.decoding.options import (
    PENALTY_COVERS,
    PENALTY_RULES,
    WINDOW_RULES,
    GenerationOptions,
)
from ctrl_jax.decoding.presets import RULES

FLAGS = flags.FlagValues()
_DEFAULTS = GenerationOptions()


def _define():
  own = dict(flag_values=FLAGS)
  flags.DEFINE_string("model", None, "Workdir or exported folder.", **own)
  flags.DEFINE_multi_string(
      "prompt", [], "Text to continue; repeat for several.", **own
  )
  flags.DEFINE_string(
      "prompts_file", "",
      "File of prompts: one a line, or .jsonl with the fields prompt and"
      " (optional) code; also gzipped (.gz).", **own
  )
  flags.DEFINE_string(
      "code", "", "Control code of every prompt without its own; empty: none.",
      **own
  )
  flags.DEFINE_multi_string(
      "attribute", [],
      "What the text is to obey, for a model with a head that Auxiliary Tuning"
      " made; NAME=ATTRIBUTE for several heads.", **own
  )
  flags.DEFINE_multi_string(
      "weight", [],
      "How much the head counts, 1 if not given, 0 for not at all;"
      " NAME=WEIGHT for several.",
      **own
  )
  flags.DEFINE_float(
      "guidance", 1.0,
      "Classifier-free guidance: above 1 strengthens the attribute.", **own
  )
  flags.DEFINE_multi_string(
      "head", [], "Workdir or folder of a further head; [NAME=]FOLDER.", **own
  )
  flags.DEFINE_string(
      "base", "",
      "If --model is a head or LoRA's: where its frozen model lies now.", **own
  )
  flags.DEFINE_enum(
      "format", "text", ["text", "json"], "Plain text or JSON lines.", **own
  )
  flags.DEFINE_string("output", "", "File to write; empty: terminal.", **own)
  flags.DEFINE_bool(
      "stream", False, "Show text as it comes (one prompt, one sample).", **own
  )
  flags.DEFINE_integer(
      "next_tokens", 0,
      "Instead of a text, show so many of the most probable next tokens.", **own
  )
  flags.DEFINE_string(
      "plot", "", "With --next-tokens: draw them as bars in this PNG.", **own
  )

  def integer(name, text):
    flags.DEFINE_integer(name, getattr(_DEFAULTS, name), text, **own)

  def number(name, text):
    flags.DEFINE_float(name, getattr(_DEFAULTS, name), text, **own)

  integer("max_new_tokens", "Tokens a result has at most.")
  integer("min_new_tokens", "No end symbol before so many tokens.")
  number("temperature", "0 is greedy.")
  integer("top_k", "Sample among the k most probable; 0 is off.")
  number("top_p", "Sample among those that sum to p; 1 is off.")
  number("penalty", "Theta of penalised sampling; 1 is off.")
  flags.DEFINE_enum(
      "penalty_rule", _DEFAULTS.penalty_rule, PENALTY_RULES,
      "Divide all seen logits, or multiply the negative ones.", **own
  )
  flags.DEFINE_multi_string(
      "ban", [], "Never generate a token that contains this.", **own
  )
  flags.DEFINE_multi_string(
      "ban_after", [], "The same, after top-k and top-p have cut.", **own
  )
  flags.DEFINE_multi_string(
      "penalty_exempt", [], "A token's text that has no penalty.", **own
  )
  flags.DEFINE_enum(
      "penalty_covers", _DEFAULTS.penalty_covers, PENALTY_COVERS,
      "Penalise tokens of prompt and result, or of the result alone.", **own
  )
  flags.DEFINE_bool(
      "ban_unknown", _DEFAULTS.ban_unknown, "Never the unknown token.", **own
  )
  flags.DEFINE_bool(
      "top_k_with_top_p", _DEFAULTS.top_k_with_top_p,
      "Beside a nucleus top-k cuts, too.", **own
  )
  flags.DEFINE_bool(
      "top_p_crossing", _DEFAULTS.top_p_crossing,
      "The nucleus keeps the token that crosses p.", **own
  )
  integer("window", "Tokens the model reads at most; 0: all it can.")
  flags.DEFINE_enum(
      "window_rule", _DEFAULTS.window_rule, WINDOW_RULES,
      "What is seen of texts longer than the window.", **own
  )
  flags.DEFINE_enum(
      "rules", "paper", RULES,
      "What the other options are unless given: as the paper, the release's"
      " generation.py, or transformers.", **own
  )
  flags.DEFINE_multi_string("stop", [], "End before this string.", **own)
  integer("num_samples", "Results a prompt.")
  integer("seed", "Of the random choices.")
  flags.DEFINE_bool(
      "stop_at_end", _DEFAULTS.stop_at_end, "End at the end symbol.", **own
  )
  integer(
      "stride",
      "Past the window: tokens that leave it at a time; 1 is exact and slow, 0"
      " a quarter of the window.",
  )
  integer("block_size", "Tokens between two looks at stop strings.")
  integer("batch_size", "Results computed together.")


_define()
latent_flags.define(FLAGS)


@dataclasses.dataclass(frozen=True)
class Prompt:
  """A text to continue, its control code (None: none), its latent's name."""

  text: str
  code: str | None
  latent: str = ""


def main(load: Callable[[str], Any] | None = None) -> None:
  """Runs the command on the parsed `FLAGS`.

  Args:
    load: returns a `LanguageModel`; `ctrl_jax.load` when None.
  """
  if not FLAGS.model:
    raise errors.UserError("Say which model: --model=FOLDER.")
  if FLAGS.plot and not FLAGS.next_tokens:
    raise errors.UserError("--plot draws --next-tokens=N: give both.")
  if FLAGS["next_tokens"].present and FLAGS.next_tokens < 1:
    raise errors.UserError(
        f"--next-tokens={FLAGS.next_tokens} must be at least 1."
    )
  fields = dataclasses.fields(GenerationOptions)
  # What is not given is left to --rules.
  options = {
      f.name: FLAGS[f.name].value for f in fields if FLAGS[f.name].present
  }
  GenerationOptions(**options)  # Bad values before a model is loaded.
  options["rules"] = FLAGS.rules
  options |= _attribute_options()
  latent_flags.check(FLAGS)
  prompts = read_prompts(FLAGS.prompt, FLAGS.prompts_file, FLAGS.code or None)
  _check_stream(len(prompts))
  if load is None:
    import ctrl_jax

    load = ctrl_jax.load
  model = load(FLAGS.model, **_load_options())
  prompts, latent = latent_flags.expand(FLAGS, model, prompts)
  if latent is not None:
    options["latent"] = latent
    _check_stream(len(prompts))
  with _writer(FLAGS.output) as out:
    if FLAGS.next_tokens:
      _next_tokens(model, prompts, out)
    elif FLAGS.stream:
      _stream(model, prompts[0], options, out)
    else:
      _generate(model, prompts, options, out)


def _check_stream(num_prompts: int) -> None:
  if FLAGS.stream and (
      num_prompts * FLAGS.num_samples > 1
      or FLAGS.output
      or FLAGS.format == "json"
      or FLAGS.next_tokens
  ):
    raise errors.UserError(
        "--stream shows one sample of one prompt as text on the terminal: leave"
        " out --stream, or the other options."
    )


def _attribute_options() -> dict[str, Any]:
  """What `LanguageModel.generate` takes of --attribute, --weight and so on."""
  if not FLAGS.attribute and not FLAGS.weight:
    if FLAGS["guidance"].present:
      raise errors.UserError(
          "--guidance is of a head: give its --attribute, too."
      )
    return {}
  if FLAGS.next_tokens:
    raise errors.UserError(
        "--next-tokens shows the model's own distribution: leave out"
        " --attribute and --weight."
    )
  weights = _by_name("weight", FLAGS.weight)
  for name, value in weights.items():
    try:
      weights[name] = float(value)
    except ValueError as e:
      raise errors.UserError(f"--weight={value} must be a number.") from e
  attributes = _by_name("attribute", FLAGS.attribute)
  return dict(
      attribute=attributes.get("", attributes) or None,
      weight=weights.get("", weights) if weights else 1.0,
      guidance=FLAGS.guidance,
  )


def _by_name(flag: str, items: Sequence[str]) -> dict[str, str]:
  """Returns {name: value} of NAME=VALUE items, {"": value} of one without."""
  if len(items) == 1 and "=" not in items[0]:
    return {"": items[0]}
  found = {}
  for item in items:
    name, equals, value = item.partition("=")
    if not equals or not name or name in found:
      raise errors.UserError(
          f"--{flag}={item}: several are written NAME=VALUE, each name once."
      )
    found[name] = value
  return found


def _load_options() -> dict[str, Any]:
  options = {}
  if FLAGS.base:
    options["base"] = FLAGS.base
  if FLAGS.head:
    options["heads"] = dict(map(_head, FLAGS.head))
  return options


def _head(item: str) -> tuple[str, str]:
  name, equals, folder = item.partition("=")
  if equals:
    return name, folder
  return os.path.basename(os.path.normpath(item)), item


def read_prompts(
    texts: Sequence[str], file: str, code: str | None
) -> list[Prompt]:
  """Returns the prompts of the command line, then those of the file.

  Raises:
    errors.UserError: nothing to continue, or a file that cannot be read.
  """
  prompts = [Prompt(text, code) for text in texts]
  if file:
    prompts += _read_file(files.expand(file), code)
  elif not prompts:
    prompts = [Prompt("", code)]
  for prompt in prompts:
    if not prompt.text and prompt.code is None:
      raise errors.UserError(
          "The prompt is empty and there is no control code: give --prompt=TEXT"
          " or --code=CODE."
      )
  return prompts


def _read_file(path: str, code: str | None) -> list[Prompt]:
  is_json = path.removesuffix(".gz").endswith(".jsonl")
  prompts = []
  for number, line in enumerate(files.lines(path), 1):
    if not line.strip():
      continue
    if not is_json:
      prompts.append(Prompt(line.rstrip("\r\n"), code))
      continue
    try:
      record = json.loads(line)
      text, own = record["prompt"], record.get("code") or code
    except (
        ValueError, KeyError, TypeError, AttributeError, RecursionError
    ) as e:
      raise errors.UserError(
          f"{path}, line {number}: expected a JSON object with the field"
          ' "prompt".'
      ) from e
    if not isinstance(text, str) or not isinstance(own, str | None):
      raise errors.UserError(
          f'{path}, line {number}: "prompt" and "code" must be strings.'
      )
    prompts.append(Prompt(text, own))
  if not prompts:
    raise errors.UserError(f"{path} has no prompts: write one a line.")
  return prompts


def _generate(model, prompts, options, out):
  results = model.generate(
      [p.text for p in prompts], code=[p.code for p in prompts], **options
  )
  several = sum(map(len, results)) > 1
  for prompt, samples in zip(prompts, results):
    for number, result in enumerate(samples):
      if FLAGS.format == "json":
        _json_line(out, dict(
            prompt=prompt.text, code=prompt.code, sample=number,
            text=result.text, finished=result.finished,
            token_ids=result.token_ids,
            **(dict(latent=prompt.latent) if prompt.latent else {}),
        ))
      else:
        if several:
          name = f" {prompt.code}" if prompt.code else ""
          z = f" z={prompt.latent!r}" if prompt.latent else ""
          out.write(f"==={name} {prompt.text!r}{z} {number + 1}\n")
        out.write(f"{prompt.text}{result.text}\n")


def _stream(model, prompt, options, out):
  def show(prompt_number, sample, text):
    del prompt_number, sample  # There is one.
    out.write(text)
    out.flush()

  out.write(prompt.text)
  out.flush()
  model.generate([prompt.text], code=prompt.code, on_text=show, **options)
  out.write("\n")


def _next_tokens(model, prompts, out):
  from ctrl_jax.decoding import next_tokens

  if FLAGS.plot and len(prompts) > 1:
    raise errors.UserError("--plot draws one prompt: give one.")
  always = [n for n, head in model.heads.items() if not head.takes_attribute]
  if always:
    raise errors.UserError(
        f"--next-tokens shows a model's own distribution; {always[0]!r} is not"
        " in it: give the frozen model as --model."
    )
  if model.cvae is not None and model.cvae.trained_along:
    raise errors.UserError(
        "--next-tokens shows a decoder's own distribution, and this one was"
        " never without its encoder: sample it, or give another --model."
    )
  for prompt in prompts:
    tokens = next_tokens(
        model.generator, model.tokenizer, prompt.text, prompt.code,
        FLAGS.next_tokens,
    )
    if FLAGS.format == "json":
      _json_line(out, dict(
          prompt=prompt.text, code=prompt.code,
          next_tokens=[token._asdict() for token in tokens],
      ))
    else:
      out.write(f"{prompt.code or ''} {prompt.text!r}\n".lstrip())
      for token in tokens:
        out.write(f"  {token.probability:7.2%}  {token.text!r}\n")
    if FLAGS.plot:
      plot(tokens, prompt, FLAGS.plot)


def plot(tokens: Sequence[Any], prompt: Prompt, file: str) -> None:
  """Draws next tokens and their probabilities as bars (the paper's Figure 1).
  """
  import matplotlib

  matplotlib.use("Agg")
  from matplotlib import pyplot

  figure, axes = pyplot.subplots(figsize=(6, 0.35 * len(tokens) + 1.2))
  # A dollar sign would start a formula.
  labels = [repr(token.text).replace("$", r"\$") for token in tokens]
  places = range(len(tokens))
  axes.barh(places, [token.probability for token in tokens])
  axes.set_yticks(places, labels)
  axes.invert_yaxis()
  axes.set_xlabel("probability of the next token")
  axes.set_title(
      f"{prompt.code or ''} {prompt.text[-50:]!r}".strip().replace("$", r"\$")
  )
  try:
    figure.savefig(file, dpi=150, bbox_inches="tight", format="png")
  finally:
    pyplot.close(figure)


def _json_line(out: TextIO, record: dict) -> None:
  out.write(json.dumps(record, ensure_ascii=False) + "\n")


@contextlib.contextmanager
def _writer(path: str):
  """The terminal, or a file that appears whole or not at all."""
  if not path:
    yield sys.stdout
    return
  part = f"{path}.part"
  try:
    with errors.naming(path), open(
        part, "w", encoding="utf-8", errors="replace"
    ) as out:
      yield out
    os.replace(part, path)
  finally:
    with contextlib.suppress(FileNotFoundError):
      os.remove(part)


if __name__ == "__main__":
  command.run(main, FLAGS, __doc__)
