"""GPT-2's tokenizer: byte-level BPE, which spells every string.

Files: `vocab.json` and `merges.txt`, as Hugging Face keeps them, or OpenAI's
own `encoder.json` and `vocab.bpe`, which hold the same. Tokens that were added
behind them make it a `TokenizerJson`.
"""

import json
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from ctrl_jax import errors
from ctrl_jax.text import added_tokens, bpe_files, tokenizer, tokenizer_json

# (vocabulary, merges)
FILES = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))
END = "<|endoftext|>"


class ByteBPE(tokenizer.Tokenizer):
  """A byte-level BPE; words of control codes get ids behind the vocabulary.

  Text that holds `<|endoftext|>` does not yield the end's id.

  Args:
    vocab: token -> id, tokens in GPT-2's spelling of bytes.
    merges: lines `a b` of such tokens, the best rank first.
    codes: control codes; each of their words is a token of its own.

  Attributes:
    bpe: the rule, without control codes.

  Raises:
    errors.UserError: vocabulary and merges do not fit each other.
  """

  unknown_id = None

  def __init__(
      self,
      vocab: Mapping[str, int],
      merges: Sequence[str],
      codes: Sequence[str] = (),
  ):
    absent = set(pre_tokenizers.ByteLevel.alphabet()) - set(vocab)
    if absent:
      raise errors.UserError(
          f"The vocabulary lacks {len(absent)} of the 256 bytes' tokens: it is"
          " damaged, or not of GPT-2's kind."
      )
    check(vocab, merges)
    pairs = [tuple(line.split(" ")) for line in merges]
    self._vocab, self._merges = dict(vocab), list(merges)
    self.bpe = tokenizers.Tokenizer(models.BPE(self._vocab, pairs))
    self.bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    self.bpe.decoder = decoders.ByteLevel()
    self.codes = tuple(codes)
    words = dict.fromkeys(w for code in codes for w in code.split())
    self._code_words = {w: len(vocab) + i for i, w in enumerate(words)}
    self.vocab_size = len(vocab) + len(words)
    self.end_id = self._vocab.get(END)

  @property
  def tokens(self) -> list[str]:
    """The pieces by id, in GPT-2's spelling of bytes."""
    return [*sorted(self._vocab, key=self._vocab.get), *self._code_words]

  @property
  def code_words(self) -> Mapping[str, int]:
    """Every word of a control code and its id."""
    return self._code_words

  def encode(self, text: str) -> list[int]:
    """Returns the ids of `text`."""
    return self._encode(text).ids

  def pieces(self, text: str) -> list[str]:
    """Returns the pieces of `text` in GPT-2's spelling of bytes."""
    return self._encode(text).tokens

  def with_codes(self, codes: Sequence[str]) -> "ByteBPE":
    """Returns this tokenizer with `codes` known, too."""
    codes = tuple(dict.fromkeys([*self.codes, *codes]))
    return ByteBPE(self._vocab, self._merges, codes)

  def _encode(self, text: str):
    # Half a surrogate pair is no character; U+FFFD is what decoders make of it.
    return self.bpe.encode(re.sub("[\ud800-\udfff]", "\ufffd", text))

  def decode(self, ids: Iterable[int]) -> str:
    """Returns the text of `ids`; bytes that are no UTF-8 give U+FFFD."""
    found = []
    for i in self.check_ids(ids):
      if i < len(self._vocab) and i != self.end_id:
        found.append(i)
    return self.bpe.decode(found)

  def files(self) -> dict[str, bytes]:
    """Returns the configuration, the vocabulary and the merges."""
    names = FILES[0]
    return {
        tokenizer.CONFIG_FILE: tokenizer.config_file("byte_bpe", self.codes),
        names[0]: json.dumps(self._vocab, ensure_ascii=False).encode("utf-8"),
        names[1]: "\n".join(["#version: 0.2", *self._merges, ""]).encode(),
    }

  def __reduce__(self):
    return ByteBPE, (self._vocab, self._merges, self.codes)


def check(vocab: Mapping[str, int], merges: Sequence[str]) -> None:
  """Checks what a byte-level BPE is made of.

  Raises:
    errors.UserError: vocabulary and merges do not fit each other.
  """
  if sorted(vocab.values()) != list(range(len(vocab))):
    raise errors.UserError(
        "The vocabulary's ids are not 0, 1, 2, ...: it is damaged."
    )
  for line in merges:
    # The library panics over some of these.
    pair = line.split(" ")
    if len(pair) != 2:
      raise errors.UserError(f"{line!r} is no merge of two tokens.")
    absent = [t for t in (*pair, "".join(pair)) if t not in vocab]
    if absent:
      raise errors.UserError(
          f"Vocabulary and merges do not fit each other: {absent[0]!r} of the"
          f" merge {line!r} is no token."
      )


def find(folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path] | None:
  """Returns the two files in `folder`, None where there are none."""
  for names in FILES:
    vocab, merges = (folder / name for name in names)
    if vocab.is_file() and merges.is_file():
      return vocab, merges
  return None


def load(folder: pathlib.Path, config: Mapping) -> tokenizer.Tokenizer:
  """Returns the tokenizer whose files lie in `folder`.

  Args:
    folder: see the module.
    config: `codes`, a list of control codes; special tokens, as transformers
      writes them.

  Raises:
    errors.UserError: a file is missing or damaged.
  """
  files = find(folder)
  if files is None:
    raise errors.UserError(
        f"{str(folder)!r} has no {' and '.join(FILES[0])}: copy them there."
    )
  try:
    vocab = json.loads(files[0].read_text(encoding="utf-8-sig"))
    rules = files[1].read_text(encoding="utf-8-sig")
    if not isinstance(vocab, dict) or not all(
        type(i) is int for i in vocab.values()
    ):
      raise ValueError("no object of whole numbers")
    "".join(vocab).encode("utf-8")  # Half surrogate pairs are no text.
  except (ValueError, RecursionError) as e:
    raise errors.UserError(
        f"{files[0]} or {files[1].name} is damaged ({e}): copy both again."
    ) from e
  merges = [
      x for x in bpe_files.lines(files[1], rules)
      if x and not x.startswith("#version")
  ]
  codes = config.get("codes", [])
  tokenizer.check_codes(codes, folder)
  return _with_added(ByteBPE(vocab, merges, codes), merges, files, config)


def _with_added(
    tok: ByteBPE,
    merges: Sequence[str],
    files: tuple[pathlib.Path, pathlib.Path],
    config: Mapping,
) -> tokenizer.Tokenizer:
  """Returns the tokenizer with what the other files in its folder say."""
  folder, vocab = files[0].parent, tok.bpe.get_vocab()
  added = added_tokens.read(folder, config)
  special = added_tokens.special(folder, config)
  bpe_files.check_reachable(
      vocab, str, (line.split(" ") for line in merges),
      # `<s>` and `[PAD]` are no pieces of text either.
      lambda piece: piece in special or piece in added
      or re.fullmatch(r"<.+>|\[.+\]", piece), files[::-1],
  )
  new = added_tokens.behind(vocab, added, folder)
  tokens = {*vocab, *new}
  of_text = {*pre_tokenizers.ByteLevel.alphabet()}
  of_text.update(line.replace(" ", "") for line in merges)
  end = added_tokens.end(folder, config, tokens, of_text)
  if end is None and END in tokens:
    end = END
  if not new and end in (END, None):
    return tok
  # What text yields is text, also where it is said to pad, say.
  special = (special | {end, END}) & tokens - of_text
  rule = added_tokens.rule(tok.bpe, new, special)
  return tokenizer_json.TokenizerJson(rule, end, tok.codes)
