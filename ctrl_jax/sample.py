"""Continues prompts under control codes.

  python -m ctrl_jax.sample --model=runs/demo --code=numpy --prompt="The"
  python -m ctrl_jax.sample --model=runs/demo --code=numpy --next-tokens=10

Reads nothing from the keyboard. Without --prompt and --prompts-file the text
starts from the code alone. Greedy with the paper's penalty unless told
otherwise: --temperature=1 --top-p=0.9 samples.
"""

import contextlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from absl import flags

from ctrl_jax import (
    command,
    errors,
    generation_flags,
    head_flags,
    latent_flags,
)
from ctrl_jax.data import prompts as prompts_lib

FLAGS = flags.FlagValues()


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


_define()
generation_flags.define(FLAGS)
head_flags.define(FLAGS)
latent_flags.define(FLAGS)


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
  # Bad values before a model is loaded.
  options = generation_flags.given(FLAGS) | head_flags.generate_options(FLAGS)
  latent_flags.check(FLAGS)
  prompts = prompts_lib.read(
      FLAGS.prompt, FLAGS.prompts_file, FLAGS.code or None
  )
  _check_stream(len(prompts))
  if load is None:
    import ctrl_jax

    load = ctrl_jax.load
  model = load(FLAGS.model, **head_flags.load_options(FLAGS))
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


def plot(tokens: Sequence[Any], prompt: prompts_lib.Prompt, file: str) -> None:
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
