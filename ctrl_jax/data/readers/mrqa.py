"""Questions and answers of the MRQA shared task 2019, without the contexts.

`SQuAD.jsonl.gz` and five more: a first line with `header`, then a JSON object a
line with `context` and `qas`, each with `question` and `answers`.

Source: github.com/mrqa/MRQA-Shared-Task-2019, README.
"""

from collections.abc import Iterator, Sequence

from ctrl_jax import errors
from ctrl_jax.data import files


def read(path: Sequence[str]) -> Iterator[tuple[dict, str]]:
  """Yields `question` and `answer`, the first of those that count as right.

  Questions without an answer are passed over.

  Raises:
    errors.UserError: a file is missing or damaged, or is not of this format.
  """
  for file in files.find(path):
    for number, (fields, where) in enumerate(files.json_objects(file)):
      if not number:
        if "header" not in fields:
          raise errors.UserError(
              f"{where}: no `header`, with which files of MRQA begin."
          )
        continue
      try:
        for qa in fields["qas"]:
          if qa["answers"]:
            pair = {"question": qa["question"], "answer": qa["answers"][0]}
            if isinstance(qa["answers"], str) or not all(
                isinstance(x, str) for x in pair.values()
            ):
              raise TypeError("another type")
            yield pair, where
      except (KeyError, TypeError, IndexError) as e:
        raise errors.UserError(
            f"{where}: no `qas` with `question` and `answers`, as MRQA has them"
            f" ({e!r})."
        ) from e
