"""Tokens that transformers' users added to GPT-2's: `added_tokens.json`.

Beside `vocab.json` and `merges.txt`, transformers 4 writes a file with the
tokens behind them and their ids, and says in `special_tokens_map.json` and
`tokenizer_config.json` which are special. (Version 5 writes `tokenizer.json`
alone, which holds all.)
"""

import json
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import tokenizers

from ctrl_jax import errors

FILE = "added_tokens.json"
_MAP = "special_tokens_map.json"


def read(folder: pathlib.Path) -> dict[str, int]:
  """Returns token -> id; {} where the folder has no such file.

  Raises:
    errors.UserError: the file is damaged.
  """
  found = _read_json(folder / FILE)
  if any(type(i) is not int for i in found.values()):
    raise errors.UserError(
        f"{folder / FILE}: ids must be whole numbers. Copy it again."
    )
  return found


def special(
    folder: pathlib.Path, config: Mapping[str, Any]
) -> tuple[set[str], str | None]:
  """Returns the tokens that are said to be none of text, and which ends one.

  Args:
    folder: may hold `special_tokens_map.json`.
    config: content of its `tokenizer_config.json`.

  Raises:
    errors.UserError: the file is damaged.
  """
  said = _read_json(folder / _MAP) | {
      k: v for k, v in config.items() if k.endswith(("_token", "_tokens"))
  }
  numbered = config.get("added_tokens_decoder")
  if isinstance(numbered, dict):
    said["numbered"] = [
        token for token in numbered.values()
        if isinstance(token, dict) and token.get("special")
    ]
  end = next(_contents(said.get("eos_token")), None)
  return set(_contents(list(said.values()))), end


def behind(
    vocab: Mapping[str, int], added: Mapping[str, int], folder: pathlib.Path
) -> list[str]:
  """Returns the added tokens that are not in the vocabulary, by id.

  Raises:
    errors.UserError: their ids do not go on where the vocabulary's end, or one
      has two ids.
  """
  new = sorted(added.keys() - vocab.keys(), key=added.__getitem__)
  wrong = [
      token for i, token in enumerate(new, len(vocab)) if added[token] != i
  ]
  wrong += [t for t in added.keys() & vocab.keys() if added[t] != vocab[t]]
  if wrong:
    raise errors.UserError(
        f"{folder / FILE}: the id {added[wrong[0]]} of {wrong[0]!r} does not"
        f" fit the vocabulary's, which end with {len(vocab) - 1}: copy both"
        " again."
    )
  return new


def rule(
    bpe: tokenizers.Tokenizer, new: Sequence[str], specials: Iterable[str]
) -> str:
  """Returns the content of a `tokenizer.json` that knows them.

  Args:
    bpe: without them.
    new: tokens to add.
    specials: tokens, new or not, that text does not yield.
  """
  whole = tokenizers.Tokenizer.from_str(bpe.to_str())
  specials = set(specials)
  for token in new:  # One by one: ids are given in this order.
    add = whole.add_special_tokens if token in specials else whole.add_tokens
    add([token])
  ids = [whole.token_to_id(token) for token in new]
  size = bpe.get_vocab_size()
  if ids != list(range(size, size + len(new))):
    raise errors.UserError(
        f"{FILE} holds what cannot be a token, an empty one maybe: remove it."
    )
  known = whole.get_vocab().keys()
  whole.add_special_tokens(sorted(specials & known - set(new)))
  return whole.to_str()


def _contents(said: Any) -> Iterator[str]:
  """All tokens in what transformers wrote: strings, objects, or lists."""
  if isinstance(said, str):
    yield said
  elif isinstance(said, dict):
    yield from _contents(said.get("content"))
  elif isinstance(said, list):
    for item in said:
      yield from _contents(item)


def _read_json(file: pathlib.Path) -> dict[str, Any]:
  if not file.is_file():
    return {}
  try:
    content = json.loads(file.read_text(encoding="utf-8"))
    json.dumps(content, ensure_ascii=False).encode("utf-8")
  except (ValueError, RecursionError) as e:
    raise errors.UserError(f"{file} is no JSON ({e}): copy it again.") from e
  if not isinstance(content, dict):
    raise errors.UserError(f"{file} holds no JSON object: copy it again.")
  return content
