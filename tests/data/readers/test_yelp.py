"""Reviews with their stars."""

import pytest

from ctrl_jax import errors
from ctrl_jax.data import sources
from ctrl_jax.data.readers import yelp

LINES = "0\tbad . 4 stars\n\n2\tso\tso\n3\tgood\n4\t \n1\tmeh\n"


def test_labels_are_no_part_of_the_text(tmp_path):
  (tmp_path / "train.txt").write_text(LINES)
  found = list(yelp.read([f"{tmp_path}/train.txt"]))
  assert [tuple(fields.values()) for fields, _ in found] == [
      ("bad . 4 stars", "0", "negative"),
      ("so\tso", "2", "neutral"),
      ("good", "3", "positive"),
      ("meh", "1", "negative"),
  ]
  assert found[1][1] == f"{tmp_path}/train.txt:3"
  found = yelp.read([f"{tmp_path}/train.txt"], drop_neutral=True)
  assert [fields["label"] for fields, _ in found] == ["0", "3", "1"]
  assert "yelp" in sources.READERS


@pytest.mark.parametrize("line", ["5\tx", "good", "00\tx", "\tx", "x\t1"])
def test_bad_lines(tmp_path, line):
  (tmp_path / "a.txt").write_text("1\tfine\n" + line)
  with pytest.raises(errors.UserError, match=r"a\.txt:2: not a label"):
    list(yelp.read([f"{tmp_path}/a.txt"]))
