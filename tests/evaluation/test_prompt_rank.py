import pytest
from decoding_fakes import Characters

from ctrl_jax import errors
from ctrl_jax.evaluation import prompt_rank

PROMPTS = ["a\n", "bb\n", "c\n", "a\n"]


def test_candidates_are_the_own_prompt_and_different_others():
  found = prompt_rank.candidates(PROMPTS, PROMPTS, 3)
  assert [group[0] for group in found] == PROMPTS
  assert all(sorted(group) == ["a\n", "bb\n", "c\n"] for group in found)
  assert found == prompt_rank.candidates(PROMPTS, PROMPTS, 3)
  assert prompt_rank.candidates(["z"], PROMPTS, 3)[0][0] == "z"
  with pytest.raises(errors.UserError, match="3 different prompts, but 4"):
    prompt_rank.candidates(PROMPTS, PROMPTS, 4)


def test_a_story_has_the_same_targets_under_each():
  tokenizer = Characters()
  code = tokenizer.code_ids("Books")
  texts = prompt_rank.rows(
      tokenizer, [["a", "bbb"], ["c", "a"]], ["xyzxyz", "x"], "Books",
      len(code) + 7, attribute_length=4,
  )
  targets = [tokenizer.decode(t.tolist()) for t in texts.targets()]
  assert targets == ["xyzx", "xyzx", "x", "x"]
  fronts = [row[w.argmax() - n : w.argmax()].tolist() for row, w, n in zip(
      texts.tokens, texts.weights, (1, 3, 1, 1)
  )]
  assert fronts == [tokenizer.encode(p) for p in ("a", "bbb", "c", "a")]
  assert (texts.tokens[:, : len(code)] == code).all()
  assert texts.attribute_length.tolist() == [1, 3, 1, 1]
  assert texts.attribute.shape == (4, 4)
  assert texts.attribute[1, :3].tolist() == tokenizer.encode("bbb")
  with pytest.raises(errors.UserError, match="leaves no room"):
    prompt_rank.rows(tokenizer, [["a", "b" * 9]], ["x"], "Books", 8)
  with pytest.raises(errors.UserError, match="has 3 tokens"):
    prompt_rank.rows(tokenizer, [["a", "bbb"]], ["x"], "Books", 20, 2)


def test_ranks_by_hand():
  found = prompt_rank.measure([
      [1.0, 2.0, 3.0],  # First.
      [2.0, 1.0, 3.0],  # Second.
      [2.0, 2.0, 1.0],  # Third: the tie counts against it.
      [0.0, 9.0, 9.0],
  ])
  assert found["accuracy"]["value"] == 0.5 and found["chance"] == 1 / 3
  assert found["mean_rank"]["value"] == (1 + 2 + 3 + 1) / 4
  assert (found["stories"], found["candidates"]) == (4, 3)
