import gzip
import json

import pytest

from ctrl_jax import errors
from ctrl_jax.data.readers import amazon_reviews


def write(tmp_path, *lines):
  path = tmp_path / "reviews_Books.json.gz"
  path.write_bytes(gzip.compress("\n".join(lines).encode()))
  return [str(path)]


def test_json_and_loose_json(tmp_path):
  review = {
      "reviewerID": "A1", "asin": "000", "helpful": [2, 3], "overall": 5.0,
      "reviewText": "It's a \"knife\".", "summary": "Sharp", "verified": True,
  }
  path = write(
      tmp_path,
      json.dumps(review),
      repr(review),  # Python's literals.
      json.dumps({"overall": 3, "reviewText": "So so."}),
      json.dumps({"overall": 1.0, "summary": "No text"}),
      json.dumps({"overall": 1.0, "reviewText": " "}),
  )
  found = [fields for fields, _ in amazon_reviews.read(path)]
  assert [(f["overall"], f["reviewText"], f["summary"]) for f in found] == [
      ("5.0", 'It\'s a "knife".', "Sharp"),
      ("5.0", 'It\'s a "knife".', "Sharp"),
      ("3.0", "So so.", ""),
  ]


@pytest.mark.parametrize(
    "line, says",
    [
        ("nothing of the kind", ":1: neither a JSON object"),
        ("['a']", ":1: neither a JSON object"),
        ('{"reviewText": "a"}', ":1: `overall` must be 1 to 5 stars"),
        ('{"reviewText": "a", "overall": "x"}', "`overall` .* not 'x'"),
        ('{"reviewText": "a", "overall": NaN}', "`overall` .* not nan"),
        ('{"reviewText": "a", "overall": 1e999}', "`overall` .* not inf"),
        ('{"reviewText": "a", "overall": true}', "`overall` .* not True"),
        ('{"reviewText": "a", "overall": -7}', "`overall` .* not -7"),
        ('{"reviewText": "a", "overall": 1%s}' % ("0" * 400), "`overall`"),
        ('{"reviewText": ["a"], "overall": 1}', "`reviewText` is no text"),
        ("{[1]: 2}", ":1: neither a JSON object"),
    ],
)
def test_what_is_no_review(tmp_path, line, says):
  with pytest.raises(errors.UserError, match=says):
    list(amazon_reviews.read(write(tmp_path, line)))
