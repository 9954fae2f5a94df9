"""What a tokenizer learns from."""

import dataclasses

import pytest

from ctrl_jax import config, errors
from ctrl_jax.data import learning, sources
from ctrl_jax.data.settings import Settings


def make_settings(folder, seed=0, count=2000):
  found = []
  for code, name in (("A", ""), ("A", "second"), ("B", "")):
    path = folder / f"{code}{name}.txt"
    path.write_text("".join(f"{path.stem} {i}\n\n" for i in range(count)))
    found.append(sources.Source.from_config(config.source(
        "text", code, path=str(path), piece_chars=1, name=name
    )))
  return Settings(
      sources=tuple(found), sequence_length=8, max_unknown=2,
      validation_fraction=0.25, test_fraction=0.25, seed=seed,
  )


def collect(settings, *learn_from):
  shares = learning.shares(settings.sources, learn_from)
  return [
      t for _, t in learning.texts(settings, shares, lambda source, count: None)
  ]


def test_shares_by_code_and_by_name(tmp_path):
  found = make_settings(tmp_path, count=1).sources
  assert learning.shares(found, ()) == [1, 1, 1]
  assert learning.shares(found, ("A=0.5",)) == [0.5, 0.5, 0]
  assert learning.shares(found, ("second=1", "B=0.05")) == [0, 1, 0.05]
  assert learning.shares(found, (f"B: {tmp_path}/B.txt=1",)) == [0, 0, 1]


@pytest.mark.parametrize(
    "learn_from, says",
    [
        (("A",), "must be NAME=SHARE"),
        (("A=0",), "must be NAME=SHARE"),
        (("A=1.5",), "must be NAME=SHARE"),
        (("A=nan",), "must be NAME=SHARE"),
        (("=1",), "must be NAME=SHARE"),
        (("secnd=1",), "Did you mean 'second'"),
        (("A=1", "second=0.5"), "'second' twice"),
    ],
)
def test_bad_shares(tmp_path, learn_from, says):
  found = make_settings(tmp_path, count=1).sources
  with pytest.raises(errors.UserError, match=says):
    learning.shares(found, learn_from)


def test_a_share_is_by_document_and_by_seed(tmp_path):
  settings = make_settings(tmp_path)
  everything = collect(settings)
  tenth = collect(settings, "A=0.1")
  assert tenth == collect(settings, "A=0.1")
  # 2,000 training documents of the two sources: half are held out.
  assert len(tenth) == pytest.approx(200, abs=60)
  assert set(tenth) < set(everything) and not any("B" in t for t in tenth)
  # A larger share holds the smaller one.
  assert set(tenth) < set(collect(settings, "A=0.2"))
  assert set(tenth) != set(collect(make_settings(tmp_path, seed=1), "A=0.1"))


def test_only_documents_that_are_trained_on(tmp_path):
  whole = make_settings(tmp_path, count=400)
  part = dataclasses.replace(whole, train_share=0.1)
  found = set(collect(part))
  assert 50 < len(found) < 150 and found < set(collect(whole))


def test_a_sample_is_bounded_and_of_the_share(tmp_path):
  settings = make_settings(tmp_path)
  shares = learning.shares(settings.sources, ("A=0.1",))
  found = learning.sample(settings, 500, shares, lambda source, count: None)
  assert set(found) < set(collect(settings, "A=0.1"))
  assert 500 <= sum(map(len, found)) < 520
