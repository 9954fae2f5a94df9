"""Text from text, with characters as tokens."""

import numpy as np
import pytest
from decoding_fakes import CONFIG, Characters, constant, model

from ctrl_jax import errors
from ctrl_jax.decoding import continuation
from ctrl_jax.decoding.options import GenerationOptions

TOKENIZER = Characters()


def generate(prompts, codes="Books", on_text=None, **options):
  options = GenerationOptions(**({"max_new_tokens": 12} | options))
  return continuation.generate(
      model()[0], TOKENIZER, prompts, codes, options, on_text
  )


def test_results():
  results = generate(["Hello", ""], num_samples=2, temperature=1.0)
  assert [len(samples) for samples in results] == [2, 2]
  for samples in results:
    for result in samples:
      assert result.text == TOKENIZER.decode(result.token_ids)
      assert result.finished in ("length", "end")
      assert not set(result.token_ids) & {128, 129, 131}
  assert results[0][0].prompt == "Hello"
  assert results[1][1].code == "Books"


def test_codes_and_unknown_never_come():
  hot = generate([""], temperature=50.0, penalty=1.0, num_samples=32)
  ids = {i for result in hot[0] for i in result.token_ids}
  assert len(ids) > 60
  assert not ids & {128, 129, 131}


def test_the_unknown_token_comes_where_it_is_not_banned():
  generator = constant({131: 3.0, 97: 2.0})
  for ban_unknown, expected in ((True, [97] * 3), (False, [131] * 3)):
    options = GenerationOptions(
        max_new_tokens=3, penalty=1.0, ban_unknown=ban_unknown
    )
    (result,), = continuation.generate(
        generator, TOKENIZER, ["b"], None, options
    )
    assert result.token_ids == expected


def test_stop_string_wherever_it_falls():
  free = generate(["Hello"], temperature=1.0, penalty=1.0)[0][0]
  for start in range(len(free.text) - 2):
    stop = free.text[start:start + 3]
    first = free.text.find(stop)
    for block_size in (1, 4, 16):
      result = generate(
          ["Hello"], temperature=1.0, penalty=1.0, stop=(stop, "never"),
          block_size=block_size,
      )[0][0]
      assert result.finished == "stop"
      assert result.text == free.text[:first]
      assert result.token_ids == free.token_ids[:first + 3]


def test_streaming_gives_the_texts_in_pieces():
  pieces = {}

  def on_text(prompt, sample, text):
    pieces.setdefault((prompt, sample), []).append(text)

  options = dict(temperature=1.0, num_samples=2, block_size=3)
  free = generate(["Hello", "B"], **options)
  options["stop"] = free[0][0].text[4:7]
  results = generate(["Hello", "B"], on_text=on_text, **options)
  for i, samples in enumerate(results):
    for j, result in enumerate(samples):
      assert "".join(pieces[i, j]) == result.text
  assert len(pieces[1, 1]) > 1
  assert results == generate(["Hello", "B"], **options)


def test_bans():
  free = generate(["Hello"])[0][0]
  letter = free.text[0]
  result = generate(["Hello"], ban=(letter, free.token_ids[1]))[0][0]
  assert letter not in result.text
  assert free.token_ids[1] not in result.token_ids
  with pytest.raises(errors.UserError, match="no token contains"):
    generate(["Hello"], ban="ab")
  with pytest.raises(errors.UserError, match="ids are 0 to 131"):
    generate(["Hello"], ban=132)


def test_rows_that_the_tokenizer_lacks_are_banned():
  banned = continuation.banned_tokens(TOKENIZER, 140, GenerationOptions())
  np.testing.assert_array_equal(
      np.flatnonzero(banned), [128, 129, *range(131, 140)]
  )
  assert CONFIG.vocab_size == TOKENIZER.vocab_size


def test_what_begins_every_text():

  class Begun(Characters):
    begin_ids = (7,)

    def code_ids(self, code):
      return [7, *super().code_ids(code)]

  encode = continuation.encode_prompt
  assert encode(Begun(), "ab", None) == ([7, 97, 98], 1)
  assert encode(Begun(), "", None) == ([7], 1)
  assert encode(Begun(), "a", "Books") == ([7, 128, 97], 2)


def test_bad_requests():
  with pytest.raises(errors.UserError, match="no control code"):
    generate(["a", ""], None)
  with pytest.raises(errors.UserError, match="Did you mean 'Books'"):
    generate(["a"], "Boks")
  with pytest.raises(errors.UserError, match="2 prompts, but 1 codes"):
    generate(["a", "b"], ["Books"])
