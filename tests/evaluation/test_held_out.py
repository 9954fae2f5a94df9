import json

import cvae_runs
import numpy as np
import pytest

from ctrl_jax import errors, prepare, text
from ctrl_jax.data.sources import Source
from ctrl_jax.evaluation import held_out


@pytest.fixture(scope="module")
def made(tmp_path_factory):
  """A prepared data set of pairs, and its tokenizer."""
  folder = tmp_path_factory.mktemp("held_out")
  file = folder / "pairs.jsonl"
  file.write_text("".join(
      json.dumps(dict(prompt=f"the {i}", text=f"a {i}, b!" * (1 + i % 4),
                      topic=["x", "y"][i % 2])) + "\n"
      for i in range(60)
  ))
  c = cvae_runs.pairs_config(folder, file)
  c.data.test_fraction = 0.3
  c.data.validation_fraction = 0.2
  c.tokenizer.vocab_size = 108
  manifest = prepare.prepare(c)
  return manifest, text.load_tokenizer(manifest.tokenizer_folder), file


def rows(texts):
  return sorted(
      (t.tolist(), w.tolist()) for t, w in zip(texts.tokens, texts.weights)
  )


def test_sources_read_anew_are_the_records(made):
  manifest, tokenizer, _ = made
  records = held_out.of_records(manifest, "test")
  sources = held_out.sources_of(manifest)
  texts = held_out.of_sources(
      sources, manifest, tokenizer, "test", label="{topic}"
  )
  assert rows(records) == rows(texts)
  assert len(texts.labels) == len(texts.tokens) and set(texts.labels) == {
      "x", "y"
  }
  # Few are the first of all, whatever their order.
  few = held_out.of_sources(sources, manifest, tokenizer, "test", max_texts=5)
  np.testing.assert_array_equal(few.tokens, texts.tokens[:5])
  assert few.labels == ()
  assert len(held_out.of_records(manifest, "test", 5).tokens) == 5


def test_what_is_unseen_is_of_the_test_split_first(made):
  manifest = made[0]
  test = held_out.of_records(manifest, "test")
  validation = held_out.of_records(manifest, "validation")
  few = held_out.unseen(manifest, 5)
  np.testing.assert_array_equal(
      few.tokens, held_out.of_records(manifest, "test", 5).tokens
  )
  count = len(test.tokens)
  more = held_out.unseen(manifest, count + 2)
  np.testing.assert_array_equal(more.tokens[:count], test.tokens)
  assert rows(more)[-1] and len(more.tokens) == len(more.weights) == count + 2
  all_ = held_out.unseen(manifest, 10**6)
  assert rows(all_) == sorted(rows(test) + rows(validation))


def test_batches_hold_each_text_once_and_none_alone(made):
  texts = held_out.of_records(made[0], "test")
  texts = held_out.Texts(*(x[:9] for x in texts[:2]))
  found = list(held_out.batches(texts, 4))
  assert [b["tokens"].shape for b in found] == [(4, 25)] * 3
  counts = [b["weights"].any(1).sum() for b in found]
  assert counts == [3, 3, 3]  # Not 4, 4 and 1.
  real = np.concatenate([b["tokens"][:3] for b in found])
  np.testing.assert_array_equal(real, texts.tokens)


def test_words_are_of_the_targets(made):
  manifest, tokenizer, _ = made
  end = [tokenizer.end_id]
  ids = tokenizer.code_ids("Text") + tokenizer.encode("the 1 2\n")
  target = tokenizer.encode("a 1, b!") + end
  tokens = np.array([ids + target])
  weights = np.array([[0] * len(ids) + [1] * len(target)])
  texts = held_out.Texts(tokens, weights)
  assert texts.targets()[0].tolist() == target
  assert held_out.num_words(texts, tokenizer).tolist() == [5]
  only_end = held_out.Texts(np.array([end]), np.array([[1]]))
  assert held_out.num_words(only_end, tokenizer).tolist() == [1]


def test_bad_input(made, tmp_path):
  manifest, tokenizer, file = made
  source = Source(
      "jsonl", "Text", (str(file),), "{prompt}\n" * 20, "{text}", split="test"
  )
  of = lambda s, split="test", **kw: held_out.of_sources(
      [s], manifest, tokenizer, split, **kw
  )
  with pytest.raises(errors.UserError, match="leaves no room"):
    of(source)
  with pytest.raises(errors.UserError, match="no validation texts"):
    of(source, "validation")
  empty = tmp_path / "empty.jsonl"
  empty.write_text('{"prompt": "a", "text": "b", "topic": null}\n')
  with pytest.raises(errors.UserError, match="is empty for a text"):
    of(Source("jsonl", "Text", (str(empty),), "{prompt}", "{text}",
              split="test"), label="{topic}")
  with pytest.raises(errors.UserError, match="no field 'genre'"):
    of(Source("jsonl", "Text", (str(empty),), "{prompt}", "{text}",
              split="test"), label="{genre}")
