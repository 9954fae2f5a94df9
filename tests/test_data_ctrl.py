"""configs/data_ctrl.py: the paper's table 7, and a run over all its sources.

The corpus below is laid out as the configuration expects, in each publisher's
own format, and made up.
"""

import gzip
import io
import itertools
import json
import lzma
import random
import string
import tarfile

import numpy as np
import pytest
import test_configs

from ctrl_jax import prepare, text
from ctrl_jax.data import records
from ctrl_jax.text import ctrl_codes

# Codes of the release that the paper's table does not have.
NOT_IN_TABLE_7 = {"Ask", "Ass", "Event", "Narcissus", "Support"}
WORDS = "the cat sat on a mat while dogs ran far away from old trees".split()


def test_every_code_of_table_7_once():
  c, module = test_configs.load("data_ctrl")
  expected = set(ctrl_codes.PRIORS) - NOT_IN_TABLE_7
  assert len(expected) == 50
  # A code's sources stand together: each code is written down once.
  codes = [code for code, _ in itertools.groupby(
      c.data.sources, key=lambda source: source["code"]
  )]
  assert sorted(codes) == sorted(expected)
  subreddits = [subreddit for _, subreddit in module.SUBREDDITS]
  assert len(subreddits) == len(set(subreddits)) == 41
  paths = [path for source in c.data.sources for path in source["path"]]
  assert len(paths) == len(set(paths))


def test_the_papers_settings():
  c, _ = test_configs.load("data_ctrl")
  assert c.data.max_unknown == 2
  assert c.tokenizer.kind == "fastbpe" and c.tokenizer.train_chars == 0
  assert c.tokenizer.learn_from == ("Wikipedia=1.0", "Links=0.05")
  wikipedia = [s["path"] for s in c.data.sources if s["code"] == "Wikipedia"]
  assert wikipedia == [("$CTRL_CORPUS/wikipedia/en/*/wiki_*",)]


class Corpus:
  """Writes texts that name the source they are of."""

  def __init__(self, folder):
    self.folder = folder
    self._rng = random.Random(0)

  def text(self, name):
    return f"{name} says " + " ".join(self._rng.choices(WORDS, k=30)) + "."

  def write(self, name, content):
    path = self.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content if isinstance(content, bytes) else content.encode()
    if name.endswith(".gz"):
      data = gzip.compress(data)
    path.write_bytes(data)

  def write_lines(self, name, *objects):
    self.write(name, "".join(json.dumps(o) + "\n" for o in objects))

  def write_tar(self, name, packed, members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=f"w:{packed}") as tar:
      for member, content in members.items():
        info = tarfile.TarInfo(member)
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content.encode()))
    self.write(name, out.getvalue())


def write_corpus(corpus, module):
  # Every character, inside words and at their ends: no token is unknown.
  rng = random.Random(1)
  letters = " ".join(
      "".join(rng.choices(string.printable[:94], k=4)) for _ in range(2000)
  )
  corpus.write_lines(
      "wikipedia/en/AB/wiki_07", dict(title="Letters", text=letters)
  )
  for language in ("en", "de", "es", "fr"):
    corpus.write_lines(
        f"wikipedia/{language}/AA/wiki_00",
        dict(title="A page", text=corpus.text(f"wiki_{language}")),
    )
  corpus.write("gutenberg/1-0.txt", (
      "Licence\n*** START OF THE PROJECT GUTENBERG EBOOK ONE ***\n"
      f"{corpus.text('gutenberg')}\n"
      "*** END OF THE PROJECT GUTENBERG EBOOK ONE ***\nLicence\n"
  ))
  corpus.write_tar("openwebtext/2017-04-1_data.xz", "xz", {
      f"{i:07d}-m.txt": corpus.text(f"openwebtext{i}") for i in range(3)
  })
  corpus.write_tar("openwebtext/2017-04-1_meta.xz", "xz", {
      f"{i:07d}-m.json": json.dumps(dict(url=f"https://www.example.com/{i}"))
      for i in range(3)
  })
  corpus.write_lines(
      "amazon/reviews_Books.json.gz",
      dict(overall=4.0, summary="s", reviewText=corpus.text("amazon")),
  )
  for _, subreddit in module.SUBREDDITS:
    post = dict(subreddit=subreddit.upper(), title="A post", score=3,
                selftext=corpus.text(subreddit))
    low = dict(post, selftext="lowscore", score=2)
    other = dict(post, selftext="elsewhere", subreddit="other")
    lines = "\n".join(map(json.dumps, (post, low, other)))
    corpus.write(f"reddit/{subreddit}_submissions.xz",
                 lzma.compress(lines.encode()))
  for site in ("cnn", "dailymail"):
    corpus.write_tar(f"news/{site}_stories.tgz", "gz", {
        f"{site}/stories/a.story":
            f"{corpus.text(site)}\n\n@highlight\n\nhighlights\n"
    })
  corpus.write_tar("news/nyt_corpus/data/1987/01.tgz", "gz", {
      "01/01/1.xml": "<nitf><body><body.content><block class='full_text'>"
      f"<p>{corpus.text('nyt')}</p></block></body.content></body></nitf>"
  })
  corpus.write_lines(
      "news/newsroom/train.jsonl.gz",
      dict(url="u", title="t", text=corpus.text("newsroom"), summary="s"),
  )
  corpus.write(
      "news/wmt/news.2018.en.shuffled.deduped.gz", corpus.text("crawl") + "\n"
  )
  for name in ("europarl-v7.de-en", "europarl-v7.es-en", "europarl-v7.fr-en",
               "undoc.2000.es-en", "undoc.2000.fr-en"):
    for end in ("en", name.split(".")[-1][:2]):
      corpus.write(f"wmt/{name}.{end}", corpus.text(f"{name}.{end}") + "\n\n")
  corpus.write("eli5/explainlikeimfive_train.json", json.dumps([dict(
      id="1", question=f"Why? --T-- {corpus.text('eli5')}", document="webpage",
      answer="answered",
  )]))
  for name in ("SQuAD", "NewsQA", "TriviaQA", "SearchQA", "HotpotQA",
               "NaturalQuestions"):
    qas = [dict(question=corpus.text(name), answers=["this", "that"])]
    corpus.write_lines(
        f"mrqa/{name}.jsonl.gz", dict(header=dict(dataset=name)),
        dict(context="context", qas=qas),
    )


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
  """The data set of such a corpus."""
  c, module = test_configs.load("data_ctrl")
  folder = tmp_path_factory.mktemp("corpus")
  write_corpus(Corpus(folder), module)
  c.data.folder = str(folder / "set")
  c.data.workers = 1
  c.data.validation_fraction = c.data.test_fraction = 0.0
  c.tokenizer.num_merges = 50
  with pytest.MonkeyPatch.context() as patch:
    patch.setenv("CTRL_CORPUS", str(folder))
    yield prepare.prepare(c)


def streams(manifest):
  """Returns (code, text of all its rows) a source."""
  tok = text.load_tokenizer(manifest.tokenizer_folder)
  data = records.open_split(manifest.folder, "train")
  for source in manifest.sources:
    rows = [data[i] for i in range(*source.ranges["train"])]
    assert all(row["tokens"][0] == tok.code_ids(source.code)[0] for row in rows)
    ids = np.concatenate(
        [row["tokens"][1:][row["weights"][1:] == 1] for row in rows]
    )
    yield source.code, tok.decode(ids)


def test_a_run_over_all_sources(manifest):
  found = {}
  for code, stream in streams(manifest):
    found[code] = found.get(code, "") + stream
  assert len(found) == 50
  expected = {
      "Wikipedia": ["A page\n\n", "wiki_en says"],
      "multilingual": ["wiki_de says", "wiki_es says", "wiki_fr says"],
      "Books": ["gutenberg says"],
      "Links": ["https://www.example.com/2 openwebtext2 says"],
      "Reviews": ["Rating: 4.0 amazon says"],
      "Legal": ["Title: A post Text: legaladvice says"],
      "News": [f"{n} says" for n in (
          "cnn", "dailymail", "nyt", "newsroom", "crawl"
      )],
      "Translation": [
          "English : europarl-v7.de-en.en says",
          " ; German : europarl-v7.de-en.de says",
          " ; Spanish : undoc.2000.es-en.es says",
          " ; French : undoc.2000.fr-en.fr says",
      ],
      "Explain": ["Title: Why? Text: eli5 says"],
      "Questions": ["Q: SQuAD says", "Q: NaturalQuestions says", " A: this"],
  }
  for code, texts in expected.items():
    for wanted in texts:
      assert wanted in found[code]
  everything = "".join(found.values())
  for absent in ("Licence", "lowscore", "elsewhere", "highlights", "webpage",
                 "answered", "context", "that"):
    assert absent not in everything


def test_nothing_of_it_is_dropped(manifest):
  for source in manifest.sources:
    assert not any(source.dropped_documents.values()), source.name
    assert not source.splits["train"].dropped_sequences, source.name
