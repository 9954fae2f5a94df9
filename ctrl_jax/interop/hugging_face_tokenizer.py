"""The files from which transformers' `AutoTokenizer` makes our tokenizers.

What they make gives the same ids, with these differences:

- CTRL's own class (`CTRLTokenizer`) cuts at all white space, so texts with
  NBSP or several line ends differ; it gives `<unk>` for merged symbols outside
  the vocabulary, which fastBPE takes apart (24 of the release's, more of a
  small vocabulary's); its convention for line ends is "huggingface".
- SentencePiece and `ScoreBPE`: U+2581 in a text is a space there, a character
  here; where two overlapping pairs make one piece, `ScoreBPE` takes the left
  one.
- `<unk>` in a text, and GPT-2's `<|endoftext|>`, are spelt out here and are
  the symbol itself there.
- Words of control codes that are reserved here are no tokens of text there
  either: put their ids in front (`ctrl_jax.json` and `tokenizer_config.json`
  name the codes).
"""

import json
from typing import Any

import sentencepiece as spm
import tokenizers
from tokenizers import (
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from ctrl_jax.text import (
    byte_bpe,
    fastbpe,
    score_bpe,
    sentencepiece,
    tokenizer,
    tokenizer_json,
)

_SPACE = "\u2581"


def files(tok: tokenizer.Tokenizer) -> dict[str, bytes]:
  """Returns name -> content: the tokenizer's own files and transformers'."""
  own = tok.files()
  config = json.loads(own[tokenizer.CONFIG_FILE])
  if isinstance(tok, fastbpe.FastBPE):
    config |= dict(tokenizer_class="CTRLTokenizer", unk_token="<unk>")
    added = _fastbpe(tok)
  elif isinstance(tok, byte_bpe.ByteBPE):
    # It reads vocab.json and merges.txt, which are the tokenizer's own files.
    config |= dict(tokenizer_class="GPT2Tokenizer", add_prefix_space=False)
    added = {}
  elif isinstance(tok, sentencepiece.SentencePiece):
    config |= dict(
        tokenizer_class="PreTrainedTokenizerFast",
        unk_token="<unk>", eos_token="</s>",
        clean_up_tokenization_spaces=False,
    )
    rule = _sentencepiece(own[sentencepiece.MODEL_FILE])
    added = {"tokenizer.json": rule.to_str(pretty=False).encode("utf-8")}
  elif isinstance(tok, score_bpe.ScoreBPE):
    content = json.loads(own[score_bpe.FILE])
    pieces, end = content["pieces"], tok.end_id
    config |= dict(
        tokenizer_class="PreTrainedTokenizerFast",
        eos_token=None if end is None else pieces[end],
        clean_up_tokenization_spaces=False,
    )
    rule = _score_bpe(content)
    added = {"tokenizer.json": rule.to_str(pretty=False).encode("utf-8")}
  else:
    if isinstance(tok, tokenizer_json.TokenizerJson):
      config |= dict(
          tokenizer_class="PreTrainedTokenizerFast",
          clean_up_tokenization_spaces=False,
      )
    added = {}
  text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
  return own | added | {tokenizer.CONFIG_FILE: text.encode("utf-8")}


def _fastbpe(tok: fastbpe.FastBPE) -> dict[str, bytes]:
  vocab = {token: i for i, token in enumerate(tok.tokens)}
  merges = ["#version: 0.1", *(f"{a} {b}" for a, b in tok.merges), ""]
  return {
      "vocab.json": json.dumps(vocab, ensure_ascii=False).encode("utf-8"),
      "merges.txt": "\n".join(merges).encode("utf-8"),
  }


def _sentencepiece(model: bytes) -> tokenizers.Tokenizer:
  """A `tokenizers` rule with a SentencePiece model's ids."""
  sp = spm.SentencePieceProcessor(model_proto=model)
  pieces = [sp.id_to_piece(i) for i in range(sp.vocab_size())]
  scores = [sp.get_score(i) for i in range(sp.vocab_size())]
  reserved = {
      i for i in range(sp.vocab_size())
      if sp.is_control(i) or sp.is_unknown(i)
  }
  given = [p for i, p in enumerate(pieces) if p in "\n\t" and i not in reserved]
  if _is_unigram(model):
    # A reserved piece must not be the best path of a text that holds the word.
    worst = min(scores) - 1e6
    vocab = [
        (p, worst if i in reserved else s)
        for i, (p, s) in enumerate(zip(pieces, scores))
    ]
    rule = tokenizers.Tokenizer(models.Unigram(vocab, unk_id=sp.unk_id()))
  else:
    vocab = {p: i for i, p in enumerate(pieces)}
    rule = tokenizers.Tokenizer(
        models.BPE(vocab, _merges(vocab, scores, reserved),
                   unk_token=pieces[sp.unk_id()], fuse_unk=True)
    )
  rule.add_tokens([
      tokenizers.AddedToken(p, normalized=False, special=False) for p in given
  ])
  rule.normalizer = normalizers.Replace(" ", _SPACE)
  # SentencePiece's pieces never reach over the beginning of a word.
  rule.pre_tokenizer = pre_tokenizers.Split(
      tokenizers.Regex(f"{_SPACE}*[^{_SPACE}]+|{_SPACE}+"), "isolated"
  )
  rule.decoder = decoders.Sequence(
      [decoders.Replace(_SPACE, " "), decoders.Fuse()]
  )
  return rule


def _score_bpe(content: dict[str, Any]) -> tokenizers.Tokenizer:
  """A `tokenizers` rule with the ids of a `ScoreBPE`."""
  pieces, kinds = content["pieces"], content["kinds"]
  kind = score_bpe.Kind
  vocab = {p: i for i, p in reversed(list(enumerate(pieces)))}
  plain = (kind.NORMAL, kind.USER_DEFINED)
  reserved = {i for i, k in enumerate(kinds) if k not in plain}
  unknown = next((p for p, k in zip(pieces, kinds) if k == kind.UNKNOWN), None)
  rule = tokenizers.Tokenizer(
      models.BPE(
          vocab, _merges(vocab, content["scores"], reserved),
          unk_token=unknown, fuse_unk=True, byte_fallback=True,
      )
  )
  rule.add_tokens([
      tokenizers.AddedToken(p, normalized=False, special=k == kind.CONTROL)
      for p, k in zip(pieces, kinds) if k in (kind.CONTROL, kind.USER_DEFINED)
  ])
  front = content["space_in_front"]
  rule.normalizer = normalizers.Sequence([
      *([normalizers.Prepend(_SPACE)] if front else []),
      normalizers.Replace(" ", _SPACE),
  ])
  rule.decoder = decoders.Sequence([
      decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse(),
      *([decoders.Strip(" ", 1, 0)] if front else []),
  ])
  begin = content["begin_id"]
  if begin is not None:
    rule.post_processor = processors.TemplateProcessing(
        single=[pieces[begin], "$A"],
        special_tokens=[(pieces[begin], begin)],
    )
  return rule


def _is_unigram(model: bytes) -> bool:
  """Whether a serialised SentencePiece model is a unigram model.

  ModelProto.trainer_spec is field 2, TrainerSpec.model_type field 3; 1 is
  unigram, 2 BPE (sentencepiece_model.proto).
  """
  from ctrl_jax.interop import wire

  spec = dict(wire.fields(model)).get(2, b"")
  return dict(wire.fields(spec)).get(3, 1) == 1


def _merges(
    vocab: dict[str, int], scores: list[float], reserved: set[int]
) -> list[tuple[str, str]]:
  """Pairs of pieces that make a piece, the best score first.

  SentencePiece merges whatever two pieces make the piece of the best score.
  """
  found: list[tuple[Any, ...]] = []
  for piece, i in vocab.items():
    if i in reserved or len(piece) < 2:
      continue
    for cut in range(1, len(piece)):
      left, right = piece[:cut], piece[cut:]
      if (
          left in vocab and right in vocab
          and vocab[left] not in reserved and vocab[right] not in reserved
      ):
        found.append((-scores[i], vocab[left], vocab[right], left, right))
  return [(left, right) for *_, left, right in sorted(found)]
