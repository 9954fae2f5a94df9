"""Windows: each token once, with enough context."""

import pytest

from ctrl_jax.evaluation import windows


@pytest.mark.parametrize("num_prefix", [0, 1, 2])
@pytest.mark.parametrize("num_tokens", [0, 1, 2, 7, 8, 9, 10, 13, 40, 41])
def test_each_token_is_scored_once(num_prefix, num_tokens):
  prefix = tuple(range(100, 100 + num_prefix))
  cut = windows.cut(5, prefix, range(num_tokens), 8)
  scored = [t for w in cut for t in w.ids[w.first:]]
  assert scored == list(range(0 if num_prefix else 1, num_tokens))
  for i, w in enumerate(cut):
    assert w.row == 5
    assert w.ids[:num_prefix] == prefix
    assert len(w.ids) - 1 <= 8  # What the model reads.
    assert w.first >= 1
    text = w.ids[num_prefix:]
    assert text == tuple(range(text[0], text[-1] + 1))
    if i:
      assert w.first - num_prefix >= (9 - num_prefix) // 2
      assert w.num_scored > 0


def test_a_text_that_fits_is_one_window():
  [w] = windows.cut(0, [9], range(8), 8)
  assert (w.ids, w.first) == ((9, *range(8)), 1)
  assert len(windows.cut(0, [9], range(9), 8)) == 2
