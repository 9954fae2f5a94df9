"""Prompts of a command line and of files."""

import gzip

import pytest

from ctrl_jax import errors
from ctrl_jax.data import prompts


def test_of_the_command_line():
  assert prompts.read(["a", ""], "", "Books") == [
      prompts.Prompt("a", "Books"), prompts.Prompt("", "Books")
  ]
  assert prompts.read([], "", "Books") == [prompts.Prompt("", "Books")]
  with pytest.raises(errors.UserError, match="no control code"):
    prompts.read([], "", None)


def test_of_lines_with_codes_of_their_own(tmp_path):
  file = tmp_path / "p.jsonl"
  file.write_text(
      '{"prompt": "a", "code": "Legal"}\n\n{"prompt": "b", "code": null}\n'
  )
  assert prompts.read(["c"], str(file), "Books") == [
      prompts.Prompt("c", "Books"), prompts.Prompt("a", "Legal"),
      prompts.Prompt("b", "Books"),
  ]


@pytest.mark.parametrize("name", ["p.txt", "p.txt.gz"])
def test_files_from_windows_and_gzipped(tmp_path, name):
  file = tmp_path / name
  opened = gzip.open if name.endswith(".gz") else open
  with opened(file, "wb") as f:
    f.write(b"\xef\xbb\xbfthe\r\n\r\na\r\n")
  found = prompts.read([], str(file), None)
  assert [p.text for p in found] == ["the", "a"]


@pytest.mark.parametrize(
    "name, content, said",
    [
        ("p.txt", b"ok\n\xff\n", "UTF-8"),
        ("p.txt", b"\n", "no prompts"),
        ("p.jsonl", b"[" * 100_000, "line 1"),
        ("p.jsonl", b'{"prompt": "a"}\n{"text": "b"}\n', "line 2"),
        ("p.jsonl", b"[]\n", "line 1"),
        ("p.jsonl", b'{"prompt": 3}\n', "strings"),
    ],
)
def test_bad_files(tmp_path, name, content, said):
  file = tmp_path / name
  file.write_bytes(content)
  with pytest.raises(errors.UserError, match=said) as e:
    prompts.read([], str(file), None)
  assert name in str(e.value)
