"""What a call says of attributes, and the terms that it means."""

import types

import pytest

from ctrl_jax import errors
from ctrl_jax.decoding import attributes


def head(known=(), dropout=0.1, takes=True, limit=4):
  return types.SimpleNamespace(
      takes_attribute=takes, attributes=known, attribute_dropout=dropout,
      config=types.SimpleNamespace(attribute_length=limit),
  )


LETTERS = types.SimpleNamespace(encode=lambda text: [ord(c) for c in text])
HEADS = {"word": head(known=("so", "yet")), "topic": head(dropout=0.0)}
SO, YET, A = ([ord(c) for c in text] for text in ("so", "yet", "a"))


def terms(attribute, num_prompts=1, heads=HEADS, **kwargs):
  found = attributes.weighted(heads, LETTERS, num_prompts, attribute, **kwargs)
  rows = [[list(ids) for ids in row] for row in found.get("attributes", [])]
  return found.get("weighted", []), rows


def test_one_for_all_prompts_or_one_a_prompt():
  assert terms({"word": "so"}, 2) == ([("word", 1.0)], [[SO], [SO]])
  assert terms({"word": ["so", "yet"]}, 2) == ([("word", 1.0)], [[SO], [YET]])
  only = {"word": HEADS["word"]}
  assert terms("so", heads=only) == ([("word", 1.0)], [[SO]])
  assert terms(None) == ([], [])


def test_weights_of_several_heads():
  both = {"word": "so", "topic": "a"}
  rows = [[SO, A]]
  assert terms(both, weight=0.5) == ([("word", 0.5), ("topic", 0.5)], rows)
  assert terms(both, weight={"topic": 2.0}) == (
      [("word", 1.0), ("topic", 2.0)], rows
  )


def test_guidance_is_a_difference_of_two_terms():
  # w (l(none) + g (l(a) - l(none))) = w g l(a) + w (1 - g) l(none)
  found, rows = terms({"word": "so"}, guidance=3.0, weight=0.5)
  assert found == [("word", 1.5), ("word", -1.0)] and rows == [[SO, []]]


def test_a_head_without_attribute_is_always_on():
  heads = HEADS | {"side": head(takes=False)}
  assert terms(None, heads=heads) == ([("side", 1.0)], [[[]]])
  assert terms(None, heads=heads, weight=0.0) == ([("side", 0.0)], [[[]]])
  assert terms({"word": "so"}, heads=heads) == (
      [("side", 1.0), ("word", 1.0)], [[[], SO]]
  )
  with pytest.raises(errors.UserError, match="'side' takes no attribute"):
    terms({"side": "so"}, heads=heads)


@pytest.mark.parametrize(
    "attribute, kwargs, says",
    [
        (None, dict(weight=2.0), "there is no attribute"),
        (None, dict(guidance=2.0), "there is no attribute"),
        ("so", {}, r"2 heads \(word, topic\)"),
        ({"wrd": "so"}, {}, "no head 'wrd'. .*word"),
        ({"word": "so"}, dict(weight={"wrd": 1.0}), "no head 'wrd'"),
        ({"word": "sox"}, {}, "not trained on the attribute 'sox'"),
        ({"topic": "abcde"}, {}, "5 tokens; .* takes 1 to 4"),
        ({"topic": ""}, {}, "0 tokens"),
        ({"topic": 3}, {}, "3 is not a string"),
        ({"topic": ["a", "b"]}, {}, "2 attributes for 1 prompts"),
        ({"topic": "a"}, dict(guidance=2.0), "never saw a text without"),
        ({"word": "so"}, dict(weight=float("nan")), "weight=nan must be"),
        ({"word": "so"}, dict(weight=True), "weight=True must be"),
        ({"word": "so"}, dict(guidance="2"), "guidance='2' must be"),
    ],
)
def test_what_is_refused(attribute, kwargs, says):
  with pytest.raises(errors.UserError, match=says):
    terms(attribute, **kwargs)


def test_a_model_without_heads():
  with pytest.raises(errors.UserError, match="no head that obeys"):
    terms("so", heads={})
