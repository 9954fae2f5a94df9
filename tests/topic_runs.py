"""Topics in a folder as `ctrl_jax.split` makes, and what is trained on them."""

import json

import auxiliary_runs

from ctrl_jax import config as config_lib
from ctrl_jax import split

TOPICS = ("apple", "plum")
FRACTIONS = dict(validation=0.3, test=0.2)


def write(folder) -> str:
  """Writes texts that name their topic; returns the folder of the splits."""
  file = folder / "topics.jsonl"
  file.write_text("".join(
      json.dumps(dict(
          prompt=TOPICS[i % 2],
          text=auxiliary_runs.sentence(i, TOPICS[i % 2])[1].strip(),
      )) + "\n"
      for i in range(80)
  ))
  split.split((str(file),), folder / "topics", **FRACTIONS)
  return str(folder / "topics")


def config(keyword_config, topics: str, folder, attribute: bool = True):
  """Returns `keyword_config` on topics.

  Args:
    keyword_config: of an auxiliary, tuned on keywords.
    topics: from `write`.
    folder: of the data set.
    attribute: False makes it fine-tuning with the topic as prefix.
  """
  c = keyword_config.copy_and_resolve_references()
  form = dict(template="", attribute="{prompt}")
  if not attribute:
    form = dict(template="{prompt}: ")
    c.task.name = "language_model"
    c.data.attribute_length = 0
  c.data.folder = str(folder)
  c.data.sources = tuple(
      config_lib.source(
          "jsonl", "Text", path=f"{topics}/{name}.jsonl.gz", target="{text}",
          split=name, **form,
      )
      for name in ("train", "validation", "test")
  )
  return c
