"""Merges by score: against the plain loop of run.c, bytes, files, errors."""

import json
import pickle
import random

import pytest
from interop_fakes import KINDS, PIECES, SCORES

from ctrl_jax import errors, text
from ctrl_jax.text.score_bpe import ScoreBPE


def make(pieces=PIECES, scores=SCORES, kinds=KINDS, **kwargs):
  return ScoreBPE(
      pieces, scores, kinds,
      **dict(begin_id=1, end_id=2, space_in_front=True) | kwargs,
  )


def plain(text):
  """The loop of run.c: the best pair of all, the leftmost first, again."""
  ids = {p.replace("\u2581", " "): i for i, p in enumerate(PIECES) if i > 258}
  symbols = list(" " + text)
  while True:
    best = None
    for i in range(len(symbols) - 1):
      found = ids.get(symbols[i] + symbols[i + 1])
      if found is not None and (best is None or SCORES[found] > best[0]):
        best = SCORES[found], i
    if best is None:
      break
    i = best[1]
    symbols[i:i + 2] = [symbols[i] + symbols[i + 1]]
  return [
      i for s in symbols
      for i in ([ids[s]] if s in ids else [b + 3 for b in s.encode()])
  ]


def test_merges_are_those_of_the_plain_loop():
  tok, rng = make(), random.Random(0)
  for _ in range(500):
    string = "".join(rng.choices("aaab bc\nz\u00e9", k=rng.randint(1, 30)))
    assert tok.encode(string) == plain(string), string
    assert tok.decode(tok.encode(string)) == string


def test_overlapping_pairs_of_one_piece_go_left_first():
  assert make(space_in_front=False).pieces("aaaa") == ["aaa", "a"]


def test_what_text_never_yields():
  tok = make()
  ids = tok.encode("<s></s><unk>\u2581<0x41>")
  assert not {0, 1, 2} & set(ids)
  assert tok.decode(ids) == "<s></s><unk>\u2581<0x41>"
  assert tok.decode([1, *ids, 2]) == "<s></s><unk>\u2581<0x41>"
  assert tok.decode([0]) == "\ufffd"
  assert tok.encode("") == []
  assert tok.encode("\ud800") == tok.encode("\ufffd")
  assert tok.begin_ids == (1,) and tok.end_id == 2


def test_user_defined_pieces_come_first_the_longest_before_all():
  pieces = [*PIECES, "ca", "cab"]
  tok = make(pieces, [*SCORES, 0.0, 0.0], [*KINDS, 4, 4], space_in_front=False)
  assert tok.pieces("abcabca") == ["ab", "cab", "ca"]


def test_without_bytes_there_is_an_unknown_token():
  keep = [i for i, k in enumerate(KINDS) if k != 6]
  pick = lambda x: [x[i] for i in keep]
  tok = make(pick(PIECES), pick(SCORES), pick(KINDS), space_in_front=False)
  assert tok.pieces("az") == ["a", "<unk>"] and tok.unknown_id == 0
  with pytest.raises(errors.UserError, match="neither an unknown token"):
    make(["a"], [0.0], [1], begin_id=None, end_id=None)


def test_codes_behind_the_pieces(tmp_path):
  tok = make().with_codes(["Books r/a"])
  assert tok.vocab_size == len(PIECES) + 2 and len(tok.tokens) == tok.vocab_size
  assert tok.code_ids("Books") == [1, len(PIECES)]
  assert tok.decode([len(PIECES)]) == ""
  tok.save(tmp_path)
  for back in (text.load_tokenizer(tmp_path), pickle.loads(pickle.dumps(tok))):
    assert back.hash == tok.hash and back.codes == tok.codes
    assert back.encode("ab\u00e9") == tok.encode("ab\u00e9")


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(scores=[0.0]), "1 scores"),
        (dict(kinds=[9] * len(PIECES)), "kind 9"),
        (dict(scores=[float("nan")] * len(PIECES)), "score nan"),
        (dict(pieces=[1] * len(PIECES)), "piece 0 is 1"),
        (dict(kinds=[6] * len(PIECES)), "kind 6"),
        (dict(begin_id=500), "begins a text, 500"),
        (dict(end_id=True), "ends a text, True"),
    ],
)
def test_damage(tmp_path, change, message):
  with pytest.raises(errors.UserError, match=message):
    make(**change)
  make().save(tmp_path)
  file = tmp_path / "score_bpe.json"
  file.write_text(json.dumps(json.loads(file.read_text()) | change))
  with pytest.raises(errors.UserError, match=message):
    text.load_tokenizer(tmp_path)


@pytest.mark.parametrize("content", ["{", "[]", '{"pieces": 3}', "{}"])
def test_a_damaged_file(tmp_path, content):
  make().save(tmp_path)
  (tmp_path / "score_bpe.json").write_text(content)
  with pytest.raises(errors.UserError, match="is damaged"):
    text.load_tokenizer(tmp_path)
  (tmp_path / "score_bpe.json").unlink()
  with pytest.raises(errors.UserError, match="is missing"):
    text.load_tokenizer(tmp_path)


def test_ids_outside():
  with pytest.raises(errors.UserError, match="outside the vocabulary"):
    make().decode([len(PIECES)])
