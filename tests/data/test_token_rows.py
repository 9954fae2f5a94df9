import numpy as np
import pytest

from ctrl_jax import errors
from ctrl_jax.data import token_rows


def cut(ids, **changes):
  given = dict(code="Legal", code_ids=[7], vocab_size=9, width=5) | changes
  return token_rows.cut(np.array(ids, np.int32), "a, record 3", **given)


def test_one_padded_row():
  rows = cut([7, 1, 2])
  assert rows.tokens.tolist() == [[7, 1, 2, 0, 0]]
  assert rows.weights.tolist() == [[0, 1, 1, 0, 0]]
  assert rows.length.tolist() == [3]
  rows = cut([1, 2], code="", code_ids=[])
  assert rows.weights.tolist() == [[0, 1, 0, 0, 0]]


@pytest.mark.parametrize(
    "ids, says",
    [
        ([6, 1], "begins with token 6, not with 'Legal'"),
        ([7, 9], "has token 9, outside the vocabulary of 9"),
        ([7, 1, 1, 1, 1, 1], "has 5 tokens: raise data.sequence_length=4"),
    ],
)
def test_rows_that_do_not_fit(ids, says):
  with pytest.raises(errors.UserError, match=f"^a, record 3 {says}"):
    cut(ids)
