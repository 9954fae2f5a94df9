"""Sets of options: the release's loop written down again, Hugging Face's."""

import decoding_fakes as fakes
import numpy as np
import pytest

from ctrl_jax import decoding, errors
from ctrl_jax.decoding import presets

# A window as small as the fakes' (24); the release has 256.
WINDOW = fakes.CONFIG.max_length
NEWLINE = 10


class Pieces(fakes.Characters):
  """Has the pieces that the release's script singles out."""

  tokens = [
      "Sco@@" if i == ord("S") else "http" if i == ord("h") else chr(i)
      for i in range(132)
  ]

  def decode(self, ids):
    ids = list(ids)
    return "http" if ids == [ord("h")] else super().decode(ids)


def release_loop(logits_of, tokens, steps, theta, unknown, score, http):
  """generation.py, step by step, at temperature 0 and without cuts."""
  tokens = list(tokens)
  for token in range(len(tokens) - 1, len(tokens) - 1 + steps):
    if token <= WINDOW:
      seen = tokens[:WINDOW][: token + 1]
    else:
      seen = [tokens[0], *tokens[token - WINDOW + 2:token + 1]]
    logits = logits_of(seen).copy()
    for i in set(tokens):
      if i != NEWLINE:
        logits[i] /= np.float32(theta)
    logits[unknown] = logits[score] = -1e8
    # The whole vocabulary, best first; URL tokens are deleted; the first wins.
    order = [i for i in np.argsort(-logits, kind="stable") if i not in http]
    tokens.append(int(order[0]))
  return tokens


@pytest.mark.parametrize("code", [None, "Books"])
@pytest.mark.parametrize("prompt", ["An S\nh", "x" * (WINDOW - 2)])
def test_release_step_by_step(prompt, code):
  tok = Pieces()
  generator, params = fakes.model()
  start = [*(tok.code_ids(code) if code else []), *tok.encode(prompt)]
  steps = 2 * WINDOW

  def logits_of(ids):
    logits = fakes.plain_logits(fakes.CONFIG, params, ids).copy()
    # What the release has not: reserved codes are banned here.
    logits[[128, 129]] = -np.inf
    return logits

  expected = release_loop(
      logits_of, start, steps, 1.2, tok.unknown_id, ord("S"), {ord("h")}
  )
  (found,), = decoding.generate(
      generator, tok, [prompt], code,
      decoding.GenerationOptions(
          max_new_tokens=steps, **presets.options("release", tok)
      ),
  )
  assert start + found.token_ids == expected
  assert len(start) + steps > WINDOW + 2  # Past its edge.


def test_each_difference_matters():
  """Without one of them the release's text would be another."""
  tok = Pieces()
  generator, _ = fakes.model()
  fields = presets.options("release", tok)

  def text(**changes):
    options = decoding.GenerationOptions(
        max_new_tokens=60, **fields | changes
    )
    return decoding.generate(generator, tok, ["An S\nh"], None, options)[0][
        0
    ].token_ids

  assert text() != text(window_rule="paper")
  assert set(text(ban_after=tuple(range(0, 128, 2)))).isdisjoint(
      range(0, 128, 2)
  )
  frequent = max(set(text()), key=text().count)
  assert text() != text(penalty_exempt=(frequent,))


def test_huggingface_and_names():
  tok = fakes.Characters()
  assert presets.options("paper", tok) == {}
  options = presets.options("huggingface", tok)
  assert options == dict(penalty_rule="sign_aware", ban_unknown=False)
  decoding.GenerationOptions(**options)
  # A tokenizer without the release's pieces.
  assert presets.options("release", tok)["ban_after"] == ()
  with pytest.raises(errors.UserError, match="'release'"):
    presets.options("relase", tok)
