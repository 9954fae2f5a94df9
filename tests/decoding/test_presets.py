"""Sets of options: the release's loop written down again, Hugging Face's."""

import dataclasses
import functools

import decoding_fakes as fakes
import jax
import numpy as np
import pytest

from ctrl_jax import decoding, errors
from ctrl_jax.decoding import presets

# A window as small as the fakes'; the release has 256.
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


def release_loop(
    logits_of, tokens, steps, tok, window=WINDOW, temperature=0, topk=0,
    nucleus=0, noise=None,
):
  """generation.py, step by step, where it is well-defined.

  `noise(step)` is Gumbel's, [V]: the largest sum with log p is a draw from p,
  which the original takes from a generator of its own.
  """
  tokens = list(tokens)
  for step in range(steps):
    token = len(tokens) - 1
    if token <= window:
      seen = tokens[:window][: token + 1]
    else:
      seen = [tokens[0], *tokens[token - window + 2:token + 1]]
    logits = np.float64(logits_of(seen)) / (temperature or 1)
    for i in set(tokens):
      if i != NEWLINE:
        logits[i] /= 1.2
    logits[[tok.unknown_id, ord("S")]] = -1e8
    probs = np.exp(logits) / np.exp(logits).sum()
    kept = np.argsort(-probs, kind="stable")
    if nucleus:
      crossing = np.flatnonzero(np.cumsum(probs[kept]) > nucleus)[0]
      kept = kept[: max(crossing, 1)]
    elif topk:
      kept = kept[:topk]
    kept = [i for i in kept if tok.tokens[i] != "http"]
    if temperature:
      drawn = logits + noise(step)
      kept.sort(key=lambda i: -drawn[i])
    tokens.append(int(kept[0]))
  return tokens


def logits_of(config, params, ids):
  logits = fakes.plain_logits(config, params, ids).copy()
  # What the release has not: reserved codes are banned here.
  logits[[128, 129]] = -np.inf
  return logits


def gumbel(step):
  """The noise of a call's first result, from its seed, 0, and the step."""
  key = jax.random.key(0)
  for number in (0, 0, step):
    key = jax.random.fold_in(key, number)
  return np.asarray(jax.random.gumbel(key, (Pieces.vocab_size,)))


@pytest.mark.parametrize(
    "code, prompt, draw",
    [
        (None, "An S\nh", {}),
        ("Books", "x" * (WINDOW - 2), {}),
        ("Books", "An S\nh", dict(temperature=1.5)),
        (None, "An S\nh", dict(temperature=1.5, topk=20)),
        # The original's own order: the nucleus goes before top-k.
        (None, "x" * WINDOW, dict(temperature=1.5, topk=2, nucleus=0.8)),
    ],
)
def test_release_step_by_step(code, prompt, draw):
  tok = Pieces()
  generator, params = fakes.model()
  start = [*(tok.code_ids(code) if code else []), *tok.encode(prompt)]
  steps = 2 * WINDOW

  expected = release_loop(
      functools.partial(logits_of, fakes.CONFIG, params), start, steps, tok,
      **draw, noise=gumbel,
  )
  options = dict(
      temperature=draw.get("temperature", 0), top_k=draw.get("topk", 0),
      top_p=draw.get("nucleus", 1.0),
  )
  (found,), = decoding.generate(
      generator, tok, [prompt], code,
      decoding.GenerationOptions(
          max_new_tokens=steps, **options, **presets.options("release", tok)
      ),
  )
  assert start + found.token_ids == expected
  assert len(start) + steps > WINDOW + 2  # Past its edge.
  assert len(set(found.token_ids)) > 5


# Where each field of a set decides: (logits or None for the model's own,
# prompt, options). "S" is `Sco@@`, "h" has "http".
S, H, NEW, END, UNKNOWN = ord("S"), ord("h"), NEWLINE, 130, 131
DRAW = dict(temperature=1.0, penalty=1.0)
PAIR = {ord("a"): 8.0, ord("b"): 7.5, ord("c"): 7.0}  # 0.51, 0.31, 0.19
FLAT = {i: -i / 500 for i in range(132)}
DECIDES = {
    "release": {
        "penalty_exempt": ({NEW: 3.0, ord("a"): 2.9}, "\n", {}),
        "ban": ({S: 3.0, ord("a"): 2.0}, "b", {}),
        "ban_after": ({H: 3.0, ord("a"): 2.0}, "b", {}),
        "top_k_with_top_p": (PAIR, "d", dict(DRAW, top_k=1, top_p=0.9)),
        "top_p_crossing": (PAIR, "d", dict(DRAW, top_p=0.6)),
        "stop_at_end": ({END: 3.0}, "b", {}),
        "stride": (None, "An S\nh", {}),
        "window_rule": (None, "An S\nh", {}),
    },
    "huggingface": {
        "penalty_rule": ({i: -2.0 - i / 500 for i in range(132)}, "\0", {}),
        "ban_unknown": ({UNKNOWN: 3.0, ord("a"): 2.0}, "b", {}),
    },
    "cvae": {
        "temperature": (PAIR, "d", {}),
        "top_k": (FLAT, "d", {}),
        "top_p": (FLAT, "d", {}),
        "penalty": (PAIR, "a", {}),
    },
}


@pytest.mark.parametrize(
    "rules, field", [(r, f) for r, fields in DECIDES.items() for f in fields]
)
def test_each_difference_matters(rules, field):
  """Without it other tokens would come."""
  tok = Pieces()
  logits, prompt, given = DECIDES[rules][field]
  generator = fakes.constant(logits) if logits else fakes.model()[0]
  fields = presets.options(rules, tok)

  def tokens(fields):
    options = decoding.GenerationOptions(
        max_new_tokens=40, **given, **fields
    )
    found = decoding.generate(generator, tok, [prompt], None, options)
    return found[0][0].token_ids

  whole = tokens(fields)
  del fields[field]
  assert tokens(fields) != whole


def test_what_follows_where_the_release_fails():
  """Top-k leaves `http` alone, which is banned after it."""
  tok = Pieces()
  options = decoding.GenerationOptions(
      max_new_tokens=3, temperature=1.0, top_k=1,
      **presets.options("release", tok)
  )
  generator = fakes.constant({H: 3.0, ord("a"): 2.0})
  (found,), = decoding.generate(generator, tok, ["b"], None, options)
  assert found.text == "aaa"


def test_the_releases_window_in_a_longer_model():
  """256 of them, also where the model could read more."""
  config = dataclasses.replace(fakes.CONFIG, max_length=288)
  tok, prompt, steps = Pieces(), "An S\nh " * 36, 12
  prompt = prompt[:250]
  generator, params = fakes.model(config)

  found = {}
  for window in (256, 0):
    fields = presets.options("release", tok)
    assert fields["window"] == 256
    options = decoding.GenerationOptions(
        max_new_tokens=steps, **fields | dict(window=window)
    )
    (result,), = decoding.generate(generator, tok, [prompt], None, options)
    found[window] = result.token_ids
  expected = release_loop(
      functools.partial(logits_of, config, params), tok.encode(prompt), steps,
      tok, window=256,
  )
  assert tok.encode(prompt) + found[256] == expected
  assert found[0] != found[256]


def test_every_difference_has_a_test():
  for rules, fields in DECIDES.items():
    tested = {*fields, "window"} if rules == "release" else {*fields}
    assert presets.options(rules, Pieces()).keys() == tested


def test_huggingface_and_names():
  tok = fakes.Characters()
  assert presets.options("paper", tok) == {}
  options = presets.options("huggingface", tok)
  assert options == dict(penalty_rule="sign_aware", ban_unknown=False)
  decoding.GenerationOptions(**options)
  # arXiv 2101.00828: "k=100 and p=0.9 ... T=0.9", and no penalty.
  options = presets.options("cvae", tok)
  assert options == dict(temperature=0.9, top_k=100, top_p=0.9, penalty=1.0)
  # A tokenizer without the release's pieces.
  assert presets.options("release", tok)["ban_after"] == ()
  with pytest.raises(errors.UserError, match="'release'"):
    presets.options("relase", tok)
