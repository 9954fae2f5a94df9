import pytest

from ctrl_jax import errors
from ctrl_jax.decoding import window


def test_stride_one_keeps_the_code_and_the_last_tokens():
  ids = list(range(20))
  assert window.visible(ids, 2, window=8, stride=1) == [
      0, 1, 14, 15, 16, 17, 18, 19,
  ]


def test_nothing_is_dropped_while_all_fits():
  assert window.visible([5, 6, 7], 1, window=3, stride=2) == [5, 6, 7]


@pytest.mark.parametrize("stride", [1, 2, 5, 7])
def test_window_is_never_overfull_nor_emptier_than_a_stride(stride):
  for n in range(9, 60):
    shown = window.visible(list(range(n)), 1, window=8, stride=stride)
    assert 8 - stride < len(shown) <= 8
    assert shown[0] == 0
    assert shown[1:] == list(range(n - len(shown) + 1, n))


def test_stride_must_leave_the_code():
  assert window.check_stride(0, 1, 256) == 64
  assert window.check_stride(0, 3, 4) == 1
  with pytest.raises(errors.UserError, match="stride=8"):
    window.check_stride(8, 1, 8)
  with pytest.raises(errors.UserError, match="control code"):
    window.check_stride(1, 8, 8)


def test_the_releases_window():
  """It stays at its edge for one token, and keeps the first token always."""
  visible = lambda n: window.visible(list(range(n)), 0, 8, 1, "release")
  assert visible(8) == visible(9) == list(range(8))
  assert visible(10) == [0, 3, 4, 5, 6, 7, 8, 9]
