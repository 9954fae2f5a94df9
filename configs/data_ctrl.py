"""The paper's data: each source of its section 3.1 and table 7, by its code.

  export CTRL_CORPUS=/path/to/corpus
  python -m ctrl_jax.prepare --config=configs/data_ctrl.py

Each source is read as its publisher packs it (ctrl_jax/data/readers says where
it comes from); lay them out in $CTRL_CORPUS as the paths below say. Take out
what you do not have. The paper's text was 180 GB before sequences with unknown
tokens were dropped; `ctrl_1b.py` trains on it.

Five codes of the release are not in table 7, and nothing says what their
sources were: Ask, Ass, Event, Narcissus, Support.
"""

from ctrl_jax import config

_CORPUS = "$CTRL_CORPUS/"

# Control code and subreddit. Where table 7 prints no subreddit's name, it is
# the one that is likely meant: the first two lines are "childfree" (as for
# Extract) and "nfy" there, the last three lack a letter or more.
SUBREDDITS = (
    ("Alone", "foreveralone"),
    ("Human", "hfy"),
    ("Feminism", "twoxchromosomes"),
    ("Relationship", "relationship_advice"),
    ("Teenage", "teenagers"),
    ("Atheism", "atheism"),
    ("Christianity", "christianity"),
    ("Computing", "computing"),
    ("Confession", "offmychest"),
    ("Confessions", "confession"),
    ("Conspiracy", "conspiracy"),
    ("Diet", "keto"),
    ("Extract", "childfree"),
    ("Finance", "personalfinance"),
    ("Fitness", "fitness"),
    ("Funny", "funny"),
    ("Gaming", "gaming"),
    ("Horror", "nosleep"),
    ("India", "india"),
    ("Joke", "jokes"),
    ("Joker", "joke"),
    ("Learned", "todayilearned"),
    ("Legal", "legaladvice"),
    ("Movies", "movies"),
    ("Netflix", "netflix"),
    ("Norman", "lifeofnorman"),
    ("Notion", "unpopularopinion"),
    ("Opinion", "changemyview"),
    ("Politics", "politics"),
    ("Pregnancy", "babybumps"),
    ("Relationships", "relationships"),
    ("Retail", "talesfromretail"),
    ("Running", "running"),
    ("Saving", "frugal"),
    ("Scary", "scaryshortstories"),
    ("Science", "science"),
    ("Technologies", "technology"),
    ("Thoughts", "showerthoughts"),
    ("Tip", "lifeprotips"),
    ("Weight", "loseit"),
    ("Writing", "writingprompts"),
)
# The paper names no threshold; this is OpenWebText's.
_MIN_KARMA = 3
_MRQA = (
    "SQuAD", "NewsQA", "TriviaQA", "SearchQA", "HotpotQA", "NaturalQuestions"
)
_LANGUAGES = {"de": "German", "es": "Spanish", "fr": "French"}


def sources():
  """The paper's sources, by control code and secondary codes."""
  return (
      *_encyclopedia_and_books(), *_web(), *_reddit(), *_news(),
      *_translation(), *_questions(),
  )


def _source(kind, code, path, **fields):
  paths = (path,) if isinstance(path, str) else path
  return config.source(
      kind, code, path=tuple(_CORPUS + p for p in paths), **fields
  )


def _encyclopedia_and_books():
  """Dumps after WikiExtractor; no secondary codes."""
  for language in ("en", *_LANGUAGES):
    yield _source(
        "wikiextractor", "Wikipedia" if language == "en" else "multilingual",
        f"wikipedia/{language}/*/wiki_*", template="{title}\n\n{text}",
    )
  yield _source("gutenberg", "Books", "gutenberg/*.txt")


def _web():
  """The URL and the stars are secondary codes."""
  yield _source(
      "openwebtext", "Links", "openwebtext/*_data.xz", template="{url} {text}"
  )
  yield _source(
      "amazon_reviews", "Reviews", "amazon/reviews_*.json.gz",
      template="Rating: {overall} {reviewText}",
  )


def _reddit():
  """Titles and texts, behind `Title:` and `Text:`.

  A file a subreddit, packed as you like: reading the dumps of all Reddit under
  each of these codes would take 41 passes over them.
  """
  for code, subreddit in SUBREDDITS:
    yield _source(
        "reddit", code, f"reddit/{subreddit}_submissions*",
        options=dict(subreddit=subreddit, min_score=_MIN_KARMA),
    )


def _news():
  yield _source(
      "cnn_dailymail", "News",
      ("news/cnn_stories.tgz", "news/dailymail_stories.tgz"),
  )
  yield _source("new_york_times", "News", "news/nyt_corpus/data/*/*.tgz")
  yield _source("jsonl", "News", "news/newsroom/*.jsonl.gz")
  yield _source("text", "News", "news/wmt/news.*.en.shuffled.deduped.gz")


def _translation():
  """WMT's Europarl and UN texts; its UN texts are not in German."""
  for language, name in _LANGUAGES.items():
    template = f"English : {{source}} ; {name} : {{target}}"
    pair = f"{language}-en"
    corpora = ("europarl-v7",) + (("undoc.*",) if language != "de" else ())
    for corpus in corpora:
      yield _source(
          "parallel", "Translation",
          tuple(f"wmt/{corpus}.{pair}.{end}" for end in ("en", language)),
          template=template,
      )


def _questions():
  """Table 7: of ELI5 the main post alone, of MRQA questions and answers."""
  yield _source("eli5", "Explain", "eli5/explainlikeimfive_train.json")
  yield _source(
      "mrqa", "Questions", tuple(f"mrqa/{name}.jsonl.gz" for name in _MRQA),
      template="Q: {question} A: {answer}",
  )


def get_config():
  c = config.default()
  c.data.folder = "data/ctrl_256"
  c.data.sources = sources()
  c.data.sequence_length = 256
  c.data.max_unknown = 2
  # fastBPE's merges from English Wikipedia and 5 % of OpenWebText; 200,000 of
  # them, as in the release, gave 246,531 tokens and three more.
  c.tokenizer.kind = "fastbpe"
  c.tokenizer.num_merges = 200_000
  c.tokenizer.vocab_size = 246_534
  c.tokenizer.learn_from = ("Wikipedia=1.0", "Links=0.05")
  c.tokenizer.train_chars = 0
  return c
