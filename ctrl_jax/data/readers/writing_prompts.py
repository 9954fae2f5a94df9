"""WritingPrompts: prompts and stories of Reddit's r/WritingPrompts.

`train.wp_source` has a prompt a line, `train.wp_target` its story, tokenised,
with `<newline>` for line ends; so have `valid` and `test`.

Source: Fan, Lewis and Dauphin 2018 (arXiv 1805.04833), in fairseq's
examples/stories.
"""

import re
from collections.abc import Iterator, Sequence

from ctrl_jax.data import files
from ctrl_jax.data.readers import companions

# Shorter paragraphs are no paragraphs of their own, says the paper's code.
_SHORTEST = 114
_QUOTES = ('"', "\u201c", "'", "\u2018")
# "[ WP ]", "[WP]", "( EU )" in front of a prompt: what kind of prompt it is.
_TAG = re.compile(r"^[\[(]\s*([A-Za-z]{2})\s*[\])]\s*:?\s*")


def read(path: Sequence[str]) -> Iterator[tuple[dict, str]]:
  """Yields pairs that are cleaned as the Transformer CVAE's are.

  Their fields:
    prompt: without its tag: that is the label, which an encoder of the text
      must not see where labels are judged by.
    tagged_prompt: with it, as the paper's code has it.
    tag: "wp" (writing prompt), "eu" (established universe), ... in small
      letters; "" where there is none.
    story: paragraphs with a blank line between, see `clean_story`.

  Pairs without a prompt or without a story are passed over.

  Args:
    path: the `.wp_source` files; each `.wp_target` lies beside its own.

  Raises:
    errors.UserError: a file is missing, or two do not belong together.
  """
  for file in files.find(path):
    other = companions.beside(file, ".wp_source", ".wp_target")
    for number, prompt, story in companions.pairs(file, other):
      tagged, story = clean(prompt), clean_story(story)
      match = _TAG.match(tagged)
      prompt = tagged[match.end() :] if match else tagged
      if prompt and story:
        fields = dict(
            prompt=prompt, tagged_prompt=tagged,
            tag=match[1].lower() if match else "", story=story,
        )
        yield fields, f"{file}:{number}"


def clean_story(text: str) -> str:
  """Returns a story's paragraphs, cleaned, with a blank line between.

  Two line ends and more part paragraphs. One that begins with a quote or has
  less than 114 characters goes on the one before it, behind a space.
  """
  paragraphs = []
  for part in re.split(r"(?:\s*<newline>){2,}", text):
    part = clean(part)
    if paragraphs and (part.startswith(_QUOTES) or len(part) < _SHORTEST):
      paragraphs[-1] = f"{paragraphs[-1]} {part}".strip()
    elif part:
      paragraphs.append(part)
  return "\n\n".join(paragraphs)


def clean(text: str) -> str:
  r"""Undoes the tokenisation of a paragraph.

  `<newline>` becomes a line end, LaTeX's quotes plain ones; spaces go where
  none belong. (The paper's code takes away every space in front of an
  apostrophe; here an opening single quote keeps its own.)

  Example:

  >>> clean("`` I do n't , '' she said . <newline> It 's  ok !")
  '"I don\'t," she said.\nIt\'s ok!'
  """
  text = text.replace("``", '"').replace("''", '"')
  text = re.sub(r"[^\S\n]+", " ", text)
  text = re.sub(r" ?<newline> ?", "\n", text)
  text = text.replace(" n't", "n't")
  text = re.sub(r" ('(?:s|m|d|t|re|ve|ll)\b)", r"\1", text, flags=re.IGNORECASE)
  text = re.sub(r" ([.,:?!;])", r"\1", text)
  # Quotes are taken two by two: between them no space at either end.
  text = re.sub(r'" ?([^"]*?) ?"', r'"\1"', text)
  return text.strip()
