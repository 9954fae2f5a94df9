import json
import lzma

import pytest

from ctrl_jax import errors
from ctrl_jax.data.readers import reddit


def post(title, body, score=5, subreddit="LegalAdvice"):
  return json.dumps(dict(
      subreddit=subreddit, title=title, selftext=body, score=score, id="t3",
  ))


@pytest.fixture
def dump(tmp_path):
  lines = [
      post("Sued", "My landlord.\nHelp!"),
      post("Low", "Nobody liked it.", score=2),
      post("A link", ""),
      post("Gone", "[removed]"),
      post("[deleted]", "[deleted]"),
      post("Cats", "Meow.", subreddit="cats"),
      json.dumps(dict(title="No score", selftext=None, subreddit="cats")),
  ]
  path = tmp_path / "RS_2019-01.xz"
  path.write_bytes(lzma.compress("\n".join(lines).encode()))
  return str(path)


def texts(*args, **options):
  return [fields["text"] for fields, _ in reddit.read(*args, **options)]


def test_one_subreddit_with_enough_karma(dump):
  assert texts([dump], subreddit="legaladvice", min_score=3) == [
      "Title: Sued Text: My landlord.\nHelp!", "Title: A link", "Title: Gone"
  ]
  assert texts([dump], subreddit="r/Cats", min_score=1) == [
      "Title: Cats Text: Meow."
  ]


def test_all(dump):
  assert len(texts([dump])) == 6


def test_what_is_no_submission(tmp_path):
  file = tmp_path / "RC_2019-01"
  file.write_text('{"body": "a comment", "subreddit": "cats", "score": 1}\n')
  with pytest.raises(errors.UserError, match=r"RC_2019-01:1: no submission"):
    texts([str(file)])
  packed = tmp_path / "RS_2019-01.zst"
  packed.write_bytes(b"x")
  with pytest.raises(errors.UserError, match="zstd -d"):
    texts([str(packed)])
