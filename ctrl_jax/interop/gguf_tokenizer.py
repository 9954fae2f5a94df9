"""The tokenizer that lies in a GGUF file.

Sources: llama.cpp, src/llama-vocab.cpp (what is put in front unless the file
says, and what cuts the text before merging).
"""

import json
import pathlib
from collections.abc import Sequence

import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors

from ctrl_jax import errors
from ctrl_jax.interop import gguf_file
from ctrl_jax.text import byte_bpe, score_bpe, tokenizer_json
from ctrl_jax.text.tokenizer import Tokenizer

_PREFIX = "tokenizer.ggml."
# What cuts the text, in front of GPT-2's own rule.
_CUTS = {
    "gpt-2": (),
    "smollm": (pre_tokenizers.Digits(individual_digits=True),),
}


def load(path: pathlib.Path) -> Tokenizer:
  """Returns a file's tokenizer.

  Raises:
    errors.UserError: there is none, it is damaged, or of a kind that this
      program does not have.
  """
  file = gguf_file.read(path)
  fields = {
      key.removeprefix(_PREFIX): value for key, value in file.fields.items()
      if key.startswith(_PREFIX)
  }
  kind = fields.get("model")
  make = None
  if isinstance(kind, str):
    make = {"gpt2": _byte_bpe, "llama": _score_bpe}.get(kind)
  if make is None:
    raise errors.UserError(
        f"{file.where}: {_PREFIX}model={kind!r}; this program has the"
        " tokenizers 'gpt2' and 'llama'."
    )
  tokens = fields.get("tokens")
  if not isinstance(tokens, list) or not all(
      isinstance(t, str) for t in tokens
  ) or len(_list(fields, "token_type")) != len(tokens):
    raise errors.UserError(
        f"{file.where}: {_PREFIX}tokens and token_type are no two lists of one"
        " length: the file is damaged."
    )
  try:
    return make(fields, tokens)
  except errors.UserError as e:
    raise errors.UserError(f"{file.where}: {e}") from e


def has_tokenizer(path: pathlib.Path) -> bool:
  """Whether a file says anything of a tokenizer (maybe a damaged one)."""
  return f"{_PREFIX}model" in gguf_file.read(path).fields


def _list(fields, name: str) -> list:
  found = fields.get(name)
  return found if isinstance(found, list) else []


def _id(fields, name: str, size: int) -> int | None:
  found = fields.get(f"{name}_token_id")
  if found is not None and not (type(found) is int and 0 <= found < size):
    raise errors.UserError(
        f"{_PREFIX}{name}_token_id={found!r} is none of the {size} tokens."
    )
  return found


def _begin_id(fields, size: int, default: bool) -> int | None:
  begin = _id(fields, "bos", size)
  if not fields.get("add_bos_token", default):
    return None
  if begin is None:
    raise errors.UserError(
        f"Texts begin with a token, but {_PREFIX}bos_token_id is missing."
    )
  return begin


def _score_bpe(fields, tokens: Sequence[str]) -> Tokenizer:
  """SentencePiece's kind, of Llama 1 and 2."""
  return score_bpe.ScoreBPE(
      tokens,
      _list(fields, "scores"),
      _list(fields, "token_type"),
      begin_id=_begin_id(fields, len(tokens), True),
      end_id=_id(fields, "eos", len(tokens)),
      space_in_front=bool(fields.get("add_space_prefix", True)),
  )


def _byte_bpe(fields, tokens: Sequence[str]) -> Tokenizer:
  """GPT-2's kind, with the rule that cuts texts.

  SmolLM2 has no tokens for 21 bytes, most of which UTF-8 never has; such bytes
  of a text are left out, in transformers, too.
  """
  cut = fields.get("pre")
  if not isinstance(cut, str) or cut not in _CUTS:
    raise errors.UserError(
        f"{_PREFIX}pre={cut!r} is a way to cut texts that this program does not"
        f" have. {errors.nearest(str(cut), _CUTS)}"
    )
  vocab = {token: i for i, token in enumerate(tokens)}
  merges = fields.get("merges")
  if not isinstance(merges, list) or not all(
      isinstance(line, str) for line in merges
  ):
    raise errors.UserError(
        f"{_PREFIX}merges is no list of merges: the file is damaged."
    )
  byte_bpe.check(vocab, merges)
  rule = tokenizers.Tokenizer(
      models.BPE(vocab, [tuple(line.split(" ")) for line in merges])
  )
  rule.pre_tokenizer = pre_tokenizers.Sequence(
      [*_CUTS[cut], pre_tokenizers.ByteLevel(add_prefix_space=False)]
  )
  rule.decoder = decoders.ByteLevel()
  kinds = fields["token_type"]
  for kind, special in ((score_bpe.Kind.CONTROL, True),
                        (score_bpe.Kind.USER_DEFINED, False)):
    rule.add_tokens([
        AddedToken(token, special=special, normalized=False)
        for token, k in zip(tokens, kinds) if k == kind
    ])
  begin = _begin_id(fields, len(tokens), False)
  if begin is not None:
    rule.post_processor = processors.TemplateProcessing(
        single=[tokens[begin], "$A"], special_tokens=[(tokens[begin], begin)]
    )
  end = _id(fields, "eos", len(tokens))
  return tokenizer_json.TokenizerJson(
      json.dumps(json.loads(rule.to_str()), ensure_ascii=False),
      None if end is None else tokens[end],
  )
