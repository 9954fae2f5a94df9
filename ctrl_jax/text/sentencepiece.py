"""SentencePiece tokenizers: learn one from text, or load one."""

import io
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import sentencepiece as spm

from ctrl_jax import errors
from ctrl_jax.text import tokenizer

MODEL_FILE = "sentencepiece.model"
# What SentencePiece writes for a space, inside pieces.
_SPACE = "\u2581"
_SPACES = "  a  b\n \t"
# Always in the alphabet, however rare in the training text: prompts use them.
_ASCII = "".join(map(chr, range(ord("!"), ord("~") + 1)))
# Text that is longer is cut at its line ends before it is encoded, which gives
# the same ids (a line end is a piece of its own) in linear time.
_ENCODE_CHARS = 4000
# Longest stretch of one line that training sees at once.
_TRAIN_LINE_CHARS = 4000


class SentencePiece(tokenizer.Tokenizer):
  """A SentencePiece model whose control symbols are the codes' words.

  `decode(encode(text)) == text` where no token is unknown: models that `train`
  makes normalise nothing and keep every space, tab and line end.

  Args:
    model: the serialised model.
    codes: full control codes; each of their words is a control symbol.
  """

  def __init__(self, model: bytes, codes: Sequence[str]):
    self._model = model
    self._processor = spm.SentencePieceProcessor(model_proto=model)
    self.codes = tuple(codes)
    self.vocab_size = self._processor.vocab_size()
    self.unknown_id = self._processor.unk_id()
    end = self._processor.eos_id()
    self.end_id = end if end >= 0 else None
    self._code_words = {
        w: self._processor.piece_to_id(w) for c in codes for w in c.split()
    }
    missing = [
        w for w, i in self._code_words.items()
        if not self._processor.is_control(i)
    ]
    if missing:
      raise errors.UserError(
          f"The SentencePiece model has no control symbol {missing[0]!r}."
      )

  @property
  def tokens(self) -> list[str]:
    """The pieces by id."""
    return [self._processor.id_to_piece(i) for i in range(self.vocab_size)]

  @property
  def code_words(self) -> Mapping[str, int]:
    """Every reserved word of a control code and its id."""
    return self._code_words

  def encode(self, text: str) -> list[int]:
    """Returns the ids of `text`."""
    ids = []
    for i, part in enumerate(text.split(_SPACE)):
      if i:  # The mark itself would come back as a space.
        ids.append(self.unknown_id)
      for stretch in _stretches(part):
        ids.extend(self._processor.encode(stretch))
    return ids

  def pieces(self, text: str) -> list[str]:
    """Returns the pieces `text` is cut into; a space is written U+2581."""
    pieces = []
    for i, part in enumerate(text.split(_SPACE)):
      if i:
        pieces.append(self._processor.id_to_piece(self.unknown_id))
      for stretch in _stretches(part):
        pieces.extend(self._processor.encode(stretch, out_type=str))
    return pieces

  def decode(self, ids: Iterable[int]) -> str:
    """Returns the text of `ids`."""
    return self._processor.decode(self.check_ids(ids))

  def files(self) -> dict[str, bytes]:
    """Returns the configuration and the model."""
    return {
        tokenizer.CONFIG_FILE: tokenizer.config_file(
            "sentencepiece", self.codes
        ),
        MODEL_FILE: self._model,
    }

  def __reduce__(self):  # The processor cannot travel to another process.
    return SentencePiece, (self._model, self.codes)


def load(folder: pathlib.Path, config: Mapping) -> SentencePiece:
  """Returns the tokenizer whose files lie in `folder`.

  Raises:
    errors.UserError: the model is missing, damaged or lacks a code.
  """
  file = folder / MODEL_FILE
  codes = config.get("codes", [])
  tokenizer.check_codes(codes, folder)
  if not file.is_file():
    raise errors.UserError(f"The tokenizer's model {str(file)!r} is missing.")
  try:
    # Of nothing SentencePiece makes a processor that knows nothing.
    if not file.stat().st_size:
      raise RuntimeError("the file is empty")
    tok = SentencePiece(file.read_bytes(), codes)
    _ = tok.tokens  # A piece may be no UTF-8.
    # What a model says of white space stands at its end: one that is cut
    # short between two fields would follow other rules.
    if tok.decode(tok.encode(_SPACES)) != _SPACES:
      raise RuntimeError("it does not keep spaces")
    return tok
  except (RuntimeError, UnicodeDecodeError) as e:
    raise errors.UserError(
        f"{str(file)!r} is no SentencePiece model: it is damaged or of another"
        " kind. Copy it again."
    ) from e


def train(
    texts: Iterable[str],
    codes: Sequence[str],
    *,
    vocab_size: int,
    model_type: str = "bpe",
    character_coverage: float = 0.9999,
) -> SentencePiece:
  """Learns a SentencePiece model; the same texts give the same model.

  Memory is proportional to the text, so hand in a sample.

  Args:
    texts: documents to learn from.
    codes: control codes; their words become control symbols.
    vocab_size: pieces in all, reserved symbols included.
    model_type: "bpe" or "unigram".
    character_coverage: share of characters the alphabet must cover.

  Raises:
    errors.UserError: a code that cannot be a symbol, an unknown model type, or
      texts too small for `vocab_size`.
  """
  if model_type not in ("bpe", "unigram"):
    raise errors.UserError(
        f"tokenizer.model_type is {model_type!r}."
        f" {errors.nearest(model_type, ['bpe', 'unigram'])}"
    )
  if vocab_size < 1 or not 0.98 <= character_coverage <= 1:
    raise errors.UserError(
        f"tokenizer.vocab_size={vocab_size} must be at least 1, and"
        f" tokenizer.character_coverage={character_coverage} from 0.98 to 1."
    )
  check_codes(codes)
  model = io.BytesIO()
  try:
    spm.SentencePieceTrainer.train(
        sentence_iterator=_lines(texts),
        model_writer=model,
        model_type=model_type,
        vocab_size=vocab_size,
        character_coverage=character_coverage,
        required_chars=_ASCII,
        control_symbols=_words(codes),
        user_defined_symbols=["\n", "\t"],
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=False,
        allow_whitespace_only_pieces=True,
        max_sentence_length=8 * _TRAIN_LINE_CHARS,
        unk_id=0,
        eos_id=1,
        bos_id=-1,
        pad_id=-1,
        unk_surface="\ufffd",
        minloglevel=2,
    )
  except RuntimeError as e:
    raise _training_error(str(e), vocab_size) from e
  return SentencePiece(model.getvalue(), codes)


def _stretches(text: str) -> Iterator[str]:
  """Cuts a long text after line ends."""
  # Half a surrogate pair is no character; U+FFFD is what decoders make of it.
  text = re.sub("[\ud800-\udfff]", "\ufffd", text)
  start = 0
  while len(text) - start > _ENCODE_CHARS:
    end = text.find("\n", start + _ENCODE_CHARS) + 1
    if not end:
      break
    yield text[start:end]
    start = end
  if start < len(text):
    yield text[start:]


def check_codes(codes: Sequence[str]) -> None:
  """Refuses codes whose words cannot be symbols of their own.

  Raises:
    errors.UserError: there is one.
  """
  for word in _words(codes):
    # A single character is a piece of its own already.
    if (
        len(word) == 1
        or word in ("<unk>", "</s>")
        or re.search(f"[{_SPACE}\0\ud800-\udfff]", word)
    ):
      raise errors.UserError(
          f"{word!r} cannot be a word of a control code: single characters,"
          f" <unk>, </s>, and words with U+2581, NUL or half a surrogate pair"
          " are the tokenizer's. Choose another word."
      )


def _words(codes: Sequence[str]) -> list[str]:
  """Returns the codes' words, each once, in order."""
  return list(dict.fromkeys(w for code in codes for w in code.split()))


def _lines(texts: Iterable[str]) -> Iterator[str]:
  """Yields what SentencePiece can learn from: short lines without tabs.

  Tabs and line ends are pieces of their own, so nothing is lost; SentencePiece
  would skip a line that holds a tab.
  """
  for text in texts:
    for line in re.split(r"[\n\t\0]", text):
      for i in range(0, len(line), _TRAIN_LINE_CHARS):
        yield line[i:i + _TRAIN_LINE_CHARS]


def _training_error(message: str, vocab_size: int) -> errors.UserError:
  most = re.search(r"value <= (\d+)", message)
  if most:
    return errors.UserError(
        f"The training text is too small for tokenizer.vocab_size={vocab_size}:"
        f" set it to {most[1]} or less, or add text."
    )
  if "sentences_.empty()" in message:
    return errors.UserError(
        "There is no training text to learn from: add text, or hold out less"
        " of it."
    )
  if "required_chars" in message:
    return errors.UserError(
        f"tokenizer.vocab_size={vocab_size} is smaller than the alphabet and"
        " the reserved symbols: set it higher, or lower"
        " tokenizer.character_coverage."
    )
  return errors.UserError(
      f"SentencePiece could not learn a vocabulary: {message}"
  )
