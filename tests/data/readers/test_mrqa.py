import gzip
import json

import pytest

from ctrl_jax import errors
from ctrl_jax.data.readers import mrqa

HEADER = {"header": {"dataset": "SQuAD", "split": "train"}}


def write(tmp_path, *lines):
  path = tmp_path / "SQuAD.jsonl.gz"
  path.write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))
  return [str(path)]


def qa(question, *answers):
  return {
      "qid": "q", "question": question, "answers": list(answers),
      "question_tokens": [["What", 0]],
      "detected_answers": [
          {"text": a, "char_spans": [[0, 1]]} for a in answers
      ],
  }


def test_questions_and_first_answers(tmp_path):
  path = write(
      tmp_path,
      HEADER,
      {"context": "[PAR] Long.", "context_tokens": [], "qas": [
          qa("What is it?", "Canberra", "the city"), qa("Nobody knows?")
      ]},
      {"context": "Other.", "qas": [qa("who wrote it", "Mary")]},
  )
  assert list(mrqa.read(path)) == [
      ({"question": "What is it?", "answer": "Canberra"}, f"{path[0]}:2"),
      ({"question": "who wrote it", "answer": "Mary"}, f"{path[0]}:3"),
  ]


@pytest.mark.parametrize(
    "lines, says",
    [
        ([{"context": "a", "qas": []}], ":1: no `header`"),
        ([HEADER, {"context": "a"}], ":2: no `qas`"),
        ([HEADER, {"qas": [{"question": "a"}]}], ":2: no `qas`"),
        ([HEADER, {"qas": [{"question": "a", "answers": "Paris"}]}], ":2: no"),
        ([HEADER, {"qas": [{"question": "a", "answers": [1]}]}], ":2: no"),
    ],
)
def test_other_files_are_refused(tmp_path, lines, says):
  with pytest.raises(errors.UserError, match=says):
    list(mrqa.read(write(tmp_path, *lines)))
