import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctrl_jax.training import trainable

TREE = {
    "base": {"layers": {"up": jnp.ones(3)}, "table": jnp.zeros(2)},
    "head": {"bias": jnp.full(2, 5.0)},
}
RULE = ((r"base/.*", False), (r"head/.*", True))


def test_the_first_match_decides():
  rule = ((r"base/table", True), *RULE)
  assert trainable.mask(TREE, rule) == {
      "base": {"layers": {"up": False}, "table": True}, "head": {"bias": True}
  }


def test_boxes_count_as_leaves():
  box = nn.LogicallyPartitioned(jnp.ones(2), ("embed",))
  assert trainable.mask({"a": box}, ((r"a", True),)) == {"a": True}
  assert trainable.select({"a": box}, {"a": True}) == {"a": box}


def test_a_rule_must_cover_every_leaf_and_match_one():
  with pytest.raises(ValueError, match="head/bias"):
    trainable.mask(TREE, ((r"base/.*", False),))
  with pytest.raises(ValueError, match="Nothing is matched"):
    trainable.mask(TREE, (*RULE, (r"encoder/.*", True)))
  # Hidden behind an earlier pattern is not matched either.
  with pytest.raises(ValueError, match="Nothing is matched"):
    trainable.mask(TREE, ((r".*", True), (r"head/.*", False)))


def test_merge_undoes_select():
  mask = trainable.mask(TREE, RULE)
  trained = trainable.select(TREE, mask)
  rest = trainable.select(TREE, trainable.inverse(mask))
  assert set(trained) == {"head"} and set(rest) == {"base"}
  merged = trainable.merge(trained, rest)
  jax.tree.map(np.testing.assert_array_equal, merged, TREE)
  assert trainable.select(TREE["base"], {"layers": {"up": False},
                                         "table": False}) == {}
  with pytest.raises(AssertionError):
    trainable.merge(trained, TREE)


def test_groups_are_of_leaves_that_train_together():
  first = trainable.mask(TREE, RULE)
  later = trainable.mask(TREE, trainable.EVERYTHING)
  groups = trainable.groups([first, later])
  assert groups == [first, trainable.inverse(first)]
  assert trainable.groups([first]) == [first]
