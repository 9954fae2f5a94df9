"""Tokenizers as Hugging Face's `tokenizers` keeps them: `tokenizer.json`."""

import contextlib
import functools
import json
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence

import tokenizers

from ctrl_jax import errors
from ctrl_jax.text import tokenizer

FILE = "tokenizer.json"
_PLAIN = dict(type="ByteLevel", add_prefix_space=False, use_regex=True)


class TokenizerJson(tokenizer.Tokenizer):
  """Whatever rule the file holds; words of control codes get ids behind it.

  Text that holds a special token (`<|im_start|>`) does not yield its id. What
  the rule puts in front of every text is `begin_ids`.

  Args:
    rule: the file's content.
    end: the special token that ends a document, None for none.
    codes: control codes; each of their words is a token of its own.

  Raises:
    errors.UserError: the file is damaged, lacks `end`, or puts tokens behind
      every text.
  """

  unknown_id = None

  def __init__(self, rule: str, end: str | None, codes: Sequence[str] = ()):
    self._rule, self._end = rule, end
    with _naming_damage():
      self._tokenizer = tokenizers.Tokenizer.from_str(rule)
    self._tokenizer.encode_special_tokens = True
    self._tokenizer.no_padding()
    self._tokenizer.no_truncation()
    self._size = self._tokenizer.get_vocab_size(with_added_tokens=True)
    if sorted(self._tokenizer.get_vocab().values()) != list(range(self._size)):
      raise errors.UserError(
          f"The ids in {FILE} are not 0, 1, 2, ...: it is damaged."
      )
    self.end_id = None if end is None else self._tokenizer.token_to_id(end)
    if end is not None and self.end_id is None:
      raise errors.UserError(
          f"{FILE} has no token {end!r}, which is said to end a document."
      )
    self.begin_ids = self._begin_ids()
    unknown = getattr(self._tokenizer.model, "unk_token", None)
    if isinstance(unknown, str):
      self.unknown_id = self._tokenizer.token_to_id(unknown)
    self.codes = tuple(codes)
    words = dict.fromkeys(w for code in codes for w in code.split())
    self._code_words = {w: self._size + i for i, w in enumerate(words)}
    self.vocab_size = self._size + len(words)

  def _begin_ids(self) -> tuple[int, ...]:
    with _naming_damage():
      plain = self._tokenizer.encode("a", add_special_tokens=False).ids
      ids = self._tokenizer.encode("a").ids
    if ids[len(ids) - len(plain):] != plain:
      raise errors.UserError(
          f"{FILE} puts tokens behind every text, as no decoder's does."
      )
    return tuple(ids[: len(ids) - len(plain)])

  @property
  def tokens(self) -> list[str]:
    """The pieces by id."""
    pieces = [self._tokenizer.id_to_token(i) for i in range(self._size)]
    return [*pieces, *self._code_words]

  @property
  def code_words(self) -> Mapping[str, int]:
    """Every word of a control code and its id."""
    return self._code_words

  def _encode(self, text: str):
    # Half a surrogate pair is no character; U+FFFD is what decoders make of it.
    text = re.sub("[\ud800-\udfff]", "\ufffd", text)
    with _naming_damage():
      return self._tokenizer.encode(text, add_special_tokens=False)

  def encode(self, text: str) -> list[int]:
    """Returns the ids of `text`, `begin_ids` not among them."""
    return self._encode(text).ids

  def pieces(self, text: str) -> list[str]:
    """Returns the pieces of `text` in the rule's spelling."""
    return self._encode(text).tokens

  def decode(self, ids: Iterable[int]) -> str:
    """Returns the text of `ids`; special tokens, if not of text, give ""."""
    found = []
    for i in self.check_ids(ids):
      if i < self._size and i not in self._silent_ids:
        found.append(i)
    with _naming_damage():
      return self._tokenizer.decode(found, skip_special_tokens=False)

  @functools.cached_property
  def _silent_ids(self) -> frozenset[int]:
    """Special tokens that text does not yield, and the end if it is one.

    Merges may spell a special token, too, as the "!" that pads somebody's
    texts: of text it is text.
    """
    found = set()
    for i, token in self._tokenizer.get_added_tokens_decoder().items():
      if token.special:
        spelt = self._tokenizer.decode([i], skip_special_tokens=False)
        if i == self.end_id or i not in self.encode(spelt):
          found.add(i)
    return frozenset(found)

  def with_codes(self, codes: Sequence[str]) -> "TokenizerJson":
    """Returns this tokenizer with `codes` known, too."""
    codes = tuple(dict.fromkeys([*self.codes, *codes]))
    return TokenizerJson(self._rule, self._end, codes)

  def files(self) -> dict[str, bytes]:
    """Returns the configuration and the rule."""
    config = tokenizer.config_file(
        "tokenizer_json", self.codes, eos_token=self._end
    )
    return {tokenizer.CONFIG_FILE: config, FILE: self._rule.encode()}

  def __reduce__(self):
    return TokenizerJson, (self._rule, self._end, self.codes)


@contextlib.contextmanager
def _naming_damage():
  """Turns what the library raises over a rule that it cannot run into one line.

  Its errors have no class of their own; its panics are no `Exception`.
  """
  try:
    yield
  except BaseException as e:
    if not isinstance(e, Exception) and type(e).__name__ != "PanicException":
      raise
    reason = " ".join(str(e).split())[:200]
    raise errors.UserError(
        f"{FILE} is damaged, or a kind that cannot be run ({reason}): copy it"
        " again."
    ) from e


def is_needed(folder: pathlib.Path) -> bool:
  """Whether a folder's `tokenizer.json` is more than GPT-2's two files say.

  Beside `vocab.json` and `merges.txt` it may cut numbers or put a token in
  front; SmolLM2's does the first. Or it has tokens that were added to theirs.
  """
  file = folder / FILE
  if not file.is_file():
    return False
  if not ((folder / "vocab.json").is_file()
          and (folder / "merges.txt").is_file()):
    return True
  rule = _read(file)
  cut = rule.get("pre_tokenizer")
  plain = isinstance(cut, dict) and all(
      cut.get(key, value) == value for key, value in _PLAIN.items()
  )
  after = rule.get("post_processor") or {"type": "ByteLevel"}
  plain = plain and isinstance(after, dict) and after.get("type") == "ByteLevel"
  return not plain or bool(rule.get("normalizer")) or _adds(rule)


def _adds(rule: Mapping) -> bool:
  model, added = rule.get("model"), rule.get("added_tokens")
  vocab = model.get("vocab") if isinstance(model, dict) else None
  if not isinstance(vocab, dict) or not isinstance(added, list):
    return False
  return any(
      isinstance(token, dict) and token.get("content") not in vocab
      for token in added
  )


def load(folder: pathlib.Path, config: Mapping) -> TokenizerJson:
  """Returns the tokenizer whose files lie in `folder`.

  Args:
    folder: holds `tokenizer.json`.
    config: content of `tokenizer_config.json`: `eos_token`, and `codes` where
      this program wrote it.

  Raises:
    errors.UserError: the file is missing or damaged.
  """
  file = folder / FILE
  _read(file)
  codes = config.get("codes", [])
  tokenizer.check_codes(codes, folder)
  end = config.get("eos_token")
  if isinstance(end, dict):  # As transformers wrote it for some years.
    end = end.get("content")
  if end is not None and not isinstance(end, str):
    raise errors.UserError(
        f"{folder / tokenizer.CONFIG_FILE}: eos_token={end!r} is no token."
    )
  return TokenizerJson(file.read_text(encoding="utf-8"), end, codes)


def _read(file: pathlib.Path) -> dict:
  if not file.is_file():
    raise errors.UserError(f"The tokenizer's {str(file)!r} is missing.")
  try:
    rule = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(rule, dict):
      raise ValueError("no object")
    return rule
  except (ValueError, RecursionError) as e:
    raise errors.UserError(f"{file} is damaged ({e}): copy it again.") from e
