"""What holds for every kind of tokenizer, and what importing them brings."""

import functools
import random
import re
import subprocess
import sys

import interop_fakes
import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from ctrl_jax.text import (
    byte_bpe,
    fastbpe,
    learn_bpe,
    score_bpe,
    sentencepiece,
    tokenizer_json,
)

CODES = ["Books", "Reddit r/cats"]
TEXTS = ["The cat sat on the mat.\n\n\tBooks; naïve \u65e5\xa0km.\n"] * 3
# Characters of which each kind treats some in a way of its own.
SPECIAL = (
    "\0\t\n\r \x85\xa0\u2028\u2581\u3000\ufeff\ufffd\ufffeĠ@</w>e1\U0001f600"
)
SURROGATES = range(0xD800, 0xE000)


def _bytes():
  return {t: i for i, t in enumerate(pre_tokenizers.ByteLevel.alphabet())}


def _rule():
  made = tokenizers.Tokenizer(models.BPE(_bytes(), []))
  made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
  made.decoder = decoders.ByteLevel()
  return tokenizer_json.TokenizerJson(made.to_str(), None)


def _pieces(without_bytes=False):
  keep = [
      i for i, kind in enumerate(interop_fakes.KINDS)
      if not without_bytes or kind != score_bpe.Kind.BYTE
  ]
  columns = (interop_fakes.PIECES, interop_fakes.SCORES, interop_fakes.KINDS)
  return score_bpe.ScoreBPE(
      *([column[i] for i in keep] for column in columns),
      begin_id=1, end_id=2, space_in_front=True,
  )


KINDS = {
    "fastbpe": lambda: learn_bpe.train(TEXTS, CODES, 40),
    "byte_bpe": lambda: byte_bpe.ByteBPE(_bytes(), [], CODES),
    "tokenizer_json": lambda: _rule().with_codes(CODES),
    "score_bpe": lambda: _pieces().with_codes(CODES),
    "score_bpe_without_bytes": lambda: _pieces(True).with_codes(CODES),
    "sentencepiece_bpe": lambda: sentencepiece.train(
        TEXTS, CODES, vocab_size=115
    ),
    "sentencepiece_unigram": lambda: sentencepiece.train(
        TEXTS, CODES, vocab_size=106, model_type="unigram"
    ),
}


@functools.cache
def strings(num=400):
  """Random text of all of Unicode; every other one with half pairs."""
  draw, found = random.Random(0), []
  for n in range(num):
    found.append("".join(
        draw.choice(SPECIAL) if draw.random() < 0.5
        else chr(draw.choice(SURROGATES)) if n % 2 and draw.random() < 0.3
        else _character(draw)
        for _ in range(draw.randrange(30))
    ))
  return found


def _character(draw):
  """Any but half a pair; the planes below, which hold most, half the time."""
  code = draw.randrange(draw.choice([0x3000, sys.maxunicode + 1]))
  return _character(draw) if code in SURROGATES else chr(code)


@pytest.mark.parametrize("kind", KINDS)
def test_any_text_is_encoded_and_comes_back(kind):
  tok = KINDS[kind]()
  spelt = 0
  for string in strings():
    ids = tok.encode(string)
    assert len(tok.pieces(string)) == len(ids)
    assert all(0 <= i < tok.vocab_size for i in ids)
    assert not tok.reserved_ids & set(ids) and tok.end_id not in ids
    back = tok.decode(ids)
    back.encode("utf-8")  # Text that can be written.
    if tok.unknown_id is None or tok.unknown_id not in ids:
      assert back == re.sub("[\ud800-\udfff]", "\ufffd", string)
      spelt += 1
  # Where there are no bytes, little of it is known.
  assert spelt == len(strings()) or spelt < 100 and tok.unknown_id is not None


@pytest.mark.parametrize("kind", KINDS)
def test_any_ids_give_text(kind):
  tok, draw = KINDS[kind](), random.Random(1)
  for _ in range(200):
    ids = draw.choices(range(tok.vocab_size), k=draw.randrange(20))
    tok.decode(ids).encode("utf-8")


@pytest.mark.parametrize("newlines", fastbpe.NEWLINES)
def test_any_text_under_each_convention_for_line_ends(newlines):
  tok = KINDS["fastbpe"]()
  for string in strings():
    ids = tok.encode(string, newlines=newlines)
    assert len(ids) == len(tok.pieces(string, newlines=newlines))
    tok.decode(ids)


def test_nothing_compiled_is_imported_but_two_libraries():
  """No compiler, and no wheel that only some platforms have."""
  code = """
import importlib.machinery, pkgutil, sys
import ctrl_jax.text
for module in pkgutil.iter_modules(ctrl_jax.text.__path__):
  importlib.import_module(f"ctrl_jax.text.{module.name}")
endings = tuple(importlib.machinery.EXTENSION_SUFFIXES)
found = {
    name.split(".")[0] for name, module in list(sys.modules.items())
    if (getattr(module, "__file__", None) or "").endswith(endings)
}
print(*sorted(found - sys.stdlib_module_names))
"""
  done = subprocess.run(
      [sys.executable, "-c", code], capture_output=True, text=True, check=True
  )
  assert done.stdout.split() == ["sentencepiece", "tokenizers"]
