"""Which control code does a text read most like?

  python -m ctrl_jax.attribute --model=WORKDIR --text="My landlord is suing me"
  python -m ctrl_jax.attribute --model=WORKDIR --texts-file=texts.txt \\
      --codes=Legal,Finance --prior=data --format=json --output=ranking.jsonl

Prints a ranking a text: p(code | text) by Bayes' rule, and the perplexity of
the text read under the code.
"""

import json
import pathlib
from collections.abc import Sequence

from absl import flags

from ctrl_jax import command, errors, loading
from ctrl_jax.data import files
from ctrl_jax.evaluation import output
from ctrl_jax.evaluation.attribution import Attribution

FLAGS = flags.FlagValues()
_MODEL = flags.DEFINE_string(
    "model", None, "A workdir of `ctrl_jax.train`, or an exported folder.",
    flag_values=FLAGS,
)
_TEXT = flags.DEFINE_multi_string(
    "text", [], "A text; may be given several times.", flag_values=FLAGS
)
_TEXTS_FILE = flags.DEFINE_string(
    "texts_file", None,
    "A file with a text a line, or JSON lines (.jsonl) with the field `text`;"
    " also gzipped (.gz).",
    flag_values=FLAGS,
)
_MAX_TEXTS = flags.DEFINE_integer(
    "max_texts", 0,
    "Of --texts-file: so many texts, spread evenly; 0 takes all.",
    lower_bound=0, flag_values=FLAGS,
)
_CODES = flags.DEFINE_list(
    "codes", [], "Codes to compare, with commas; when empty, those"
    " of its training data.",
    flag_values=FLAGS,
)
_PRIOR = flags.DEFINE_enum(
    "prior", "uniform", ["uniform", "data"],
    "p(code): uniform, as in the paper, or the codes' shares of the training"
    " data.",
    flag_values=FLAGS,
)
_FORMAT = flags.DEFINE_enum(
    "format", "text", ["text", "json"], "A table, or a JSON line a text.",
    flag_values=FLAGS,
)
_TOP = flags.DEFINE_integer(
    "top", 10, "Codes shown in a table; 0 shows all.", lower_bound=0,
    flag_values=FLAGS,
)
_OUTPUT = flags.DEFINE_string(
    "output", None, "A file to write instead of the terminal.",
    flag_values=FLAGS,
)


def read_texts(path: str) -> list[str]:
  """Reads texts, one a line; empty lines are left out.

  Raises:
    errors.UserError: no such file, no text in it, bytes that are not UTF-8, or
      a JSON line without `text`.
  """
  path = files.expand(path)
  if not pathlib.Path(path).is_file():
    raise errors.UserError(f"No file {path!r}. Check --texts-file.")
  is_json = path.removesuffix(".gz").endswith((".jsonl", ".json"))
  texts = []
  for number, line in enumerate(files.lines(path), 1):
    line = line.rstrip("\r\n")
    if not line.strip():
      continue
    if is_json:
      try:
        line = json.loads(line)["text"]
      except (ValueError, KeyError, TypeError, RecursionError) as e:
        raise errors.UserError(
            f"{path}:{number}: not a JSON object with the field `text`."
        ) from e
      if not isinstance(line, str) or not line:
        raise errors.UserError(
            f"{path}:{number}: `text` must be a string that is not empty."
        )
    texts.append(line)
  if not texts:
    raise errors.UserError(f"{path!r} holds no text. Check --texts-file.")
  return texts


def table(text: str, ranking: Sequence[Attribution], top: int) -> str:
  """Returns a ranking as a table, `top` rows of it (0 for all)."""
  shown = " ".join(text.split())
  shown = shown if len(shown) <= 76 else shown[:73] + "..."
  rows = ranking[:top] if top else ranking
  width = max(4, *(len(a.code) for a in rows))
  lines = [shown, f"  {'code':{width}}  p(code|text)  perplexity"]
  lines += [
      f"  {a.code:{width}}  {a.posterior:12.4f}  {a.perplexity:10.2f}"
      for a in rows
  ]
  return "\n".join(lines) + "\n"


def json_line(text: str, ranking: Sequence[Attribution]) -> str:
  """Returns a ranking as one line of JSON."""
  found = [
      dict(code=a.code, perplexity=a.perplexity, posterior=a.posterior)
      for a in ranking
  ]
  return json.dumps(dict(text=text, ranking=found), ensure_ascii=False)


def main() -> None:
  """Runs the command."""
  if not _MODEL.value:
    raise errors.UserError("Which model? Give --model=WORKDIR.")
  texts = list(_TEXT.value)
  if _TEXTS_FILE.value:
    found = read_texts(_TEXTS_FILE.value)
    wanted = min(_MAX_TEXTS.value or len(found), len(found))
    texts += [found[i * len(found) // wanted] for i in range(wanted)]
  if not texts:
    raise errors.UserError("Which text? Give --text=... or --texts-file=FILE.")
  model = loading.load(_MODEL.value)
  rankings = model.attribute(
      texts, codes=_CODES.value or None, prior=_PRIOR.value,
      progress="Attributing" if len(texts) > 100 else "",
  )
  lines = [
      json_line(text, ranking) if _FORMAT.value == "json"
      else table(text, ranking, _TOP.value)
      for text, ranking in zip(texts, rankings)
  ]
  if _OUTPUT.value:
    content = "\n".join(lines) + "\n"
    output.write_bytes(files.expand(_OUTPUT.value), content.encode("utf-8"))
  else:
    print("\n".join(lines))


if __name__ == "__main__":
  command.run(main, FLAGS, __doc__)
