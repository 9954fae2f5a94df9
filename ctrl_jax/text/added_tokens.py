"""Tokens that transformers' users added to GPT-2's: `added_tokens.json`.

Beside `vocab.json` and `merges.txt`, transformers 4 writes a file with the
tokens behind them and their ids, and says in `special_tokens_map.json` and
`tokenizer_config.json` which are special; the latter's `added_tokens_decoder`
has all ids once more. (Version 5 writes `tokenizer.json` alone, which holds
all.)
"""

import json
import pathlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import tokenizers

from ctrl_jax import errors
from ctrl_jax.text import tokenizer

FILE = "added_tokens.json"
_MAP = "special_tokens_map.json"


def read(folder: pathlib.Path, config: Mapping[str, Any]) -> dict[str, int]:
  """Returns token -> id; {} where no file says any.

  Args:
    folder: may hold `added_tokens.json`.
    config: content of its `tokenizer_config.json`.

  Raises:
    errors.UserError: a file is damaged, or the two do not fit each other.
  """
  found = _read_json(folder / FILE)
  if any(type(i) is not int for i in found.values()):
    raise errors.UserError(
        f"{folder / FILE}: ids must be whole numbers. Copy it again."
    )
  numbered = _numbered(folder, config)
  for token in found.keys() & numbered.keys():
    if found[token] != numbered[token]:
      raise errors.UserError(
          f"{folder / FILE}: the id {found[token]} of {token!r} does not fit"
          f" that in {tokenizer.CONFIG_FILE}, {numbered[token]}: copy both"
          " again."
      )
  return found | numbered


def _numbered(folder: pathlib.Path, config: Mapping) -> dict[str, int]:
  """Returns token -> id of `added_tokens_decoder`, which has id -> object."""
  numbered = config.get("added_tokens_decoder")
  found = {}
  try:
    for i, token in ({} if numbered is None else numbered).items():
      token["content"].encode("utf-8")  # Half surrogate pairs are no text.
      found[token["content"]] = int(i)
  except (AttributeError, KeyError, TypeError, ValueError) as e:
    raise errors.UserError(
        f"{folder / tokenizer.CONFIG_FILE}: added_tokens_decoder does not give"
        " a token to every id. Copy it again."
    ) from e
  return found


def special(folder: pathlib.Path, config: Mapping[str, Any]) -> set[str]:
  """Returns the tokens that are said to be none of text.

  Args:
    folder: may hold `special_tokens_map.json`.
    config: content of its `tokenizer_config.json`.

  Raises:
    errors.UserError: the file is damaged.
  """
  said = _read_json(folder / _MAP) | {
      k: v for k, v in config.items() if k.endswith(("_token", "_tokens"))
  }
  said["numbered"] = [
      token for token in (config.get("added_tokens_decoder") or {}).values()
      if token.get("special")
  ]
  return set(_contents(list(said.values())))


def end(
    folder: pathlib.Path,
    config: Mapping[str, Any],
    tokens: Collection[str],
    of_text: Collection[str],
) -> str | None:
  """Returns the token that is said to end a document, None where none is.

  Args:
    folder: may hold `special_tokens_map.json`.
    config: content of its `tokenizer_config.json`.
    tokens: all that there are.
    of_text: those that ordinary text yields.

  Raises:
    errors.UserError: what is said is no token, or one that text yields.
  """
  file, said = tokenizer.CONFIG_FILE, config
  if "eos_token" not in config:
    file, said = _MAP, _read_json(folder / _MAP)
  token = said.get("eos_token")
  if isinstance(token, dict):
    token = token.get("content")
  if token is None:
    return None
  if not isinstance(token, str) or token not in tokens:
    wrong = "is not in the vocabulary"
  elif token in of_text:
    wrong = "is a piece of ordinary text, and would end it anywhere"
  else:
    return token
  raise errors.UserError(
      f"{folder / file}: eos_token={token!r} {wrong}. Name there the token that"
      " ends a document, or leave eos_token out."
  )


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
    file = folder / FILE
    if not file.is_file():
      file = folder / tokenizer.CONFIG_FILE
    raise errors.UserError(
        f"{file}: the id {added[wrong[0]]} of {wrong[0]!r} does not fit the"
        f" vocabulary's, which end with {len(vocab) - 1}: copy both again."
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
        "Among the added tokens is what cannot be a token, an empty one maybe:"
        " remove it."
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
