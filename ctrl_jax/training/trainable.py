"""What trains: rules on the paths of a parameter tree, in phases."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax

# (regular expression for a leaf's whole path, whether it trains): the first
# that matches decides.
Rule = tuple[tuple[str, bool], ...]
EVERYTHING: Rule = ((r".*", True),)


@dataclasses.dataclass(frozen=True)
class Phase:
  """A stretch of training with one set of trained leaves.

  Attributes:
    rule: which leaves train.
    until_step: the step it ends before; None for the last phase.
  """

  rule: Rule = EVERYTHING
  until_step: int | None = None


def mask(tree: Any, rule: Rule) -> Any:
  """Returns a tree like `tree`, True for the leaves that train.

  Args:
    tree: parameters (`base/layers/up/kernel` is such a path), in boxes or not.
    rule: must cover every leaf.

  Raises:
    ValueError: a leaf that no pattern matches, or a pattern that no leaf
      matches first.
  """
  used = set()

  def one(path, _):
    name = jax.tree_util.keystr(path, simple=True, separator="/")
    for pattern, trains in rule:
      if re.fullmatch(pattern, name):
        used.add(pattern)
        return trains
    raise ValueError(f"No rule says whether {name!r} trains: {rule}.")

  result = jax.tree_util.tree_map_with_path(one, tree, is_leaf=is_box)
  unused = [pattern for pattern, _ in rule if pattern not in used]
  if unused:
    raise ValueError(f"Nothing is matched by the rule {unused[0]!r}.")
  return result


def select(tree: Any, chosen: Any) -> Any:
  """Returns the part of `tree` where `chosen` is True, without empty dicts.

  Args:
    tree: nested dicts of arrays or boxes; may lack what is not chosen.
    chosen: a mask of it.
  """
  if not isinstance(chosen, Mapping):
    return tree if chosen else {}
  parts = {
      name: select(tree[name], part)
      for name, part in chosen.items() if name in tree
  }
  return {name: part for name, part in parts.items() if not _is_empty(part)}


def merge(*trees: Any) -> Any:
  """Puts together what `select` took apart: each leaf is in one tree."""
  trees = [tree for tree in trees if not _is_empty(tree)]
  if len(trees) == 1:
    return trees[0]
  assert all(isinstance(tree, Mapping) for tree in trees), "a leaf twice"
  names = dict.fromkeys(name for tree in trees for name in tree)
  return {
      name: merge(*[tree[name] for tree in trees if name in tree])
      for name in sorted(names)
  }


def inverse(chosen: Any) -> Any:
  """Returns the mask of everything else."""
  return jax.tree.map(lambda c: not c, chosen)


def groups(masks: list[Any]) -> list[Any]:
  """Returns the masks of leaves that train in the same phases.

  Args:
    masks: one mask a phase.

  Returns:
    A mask a group; together they cover each leaf that any phase trains once.
    Each group has an optimizer state of its own, which stands still, its
    counts included, in a phase that does not train it.
  """
  member = jax.tree.map(lambda *trains: trains, *masks)
  is_member = lambda x: isinstance(x, tuple)
  kinds = dict.fromkeys(jax.tree.leaves(member, is_leaf=is_member))
  kinds = [kind for kind in kinds if any(kind)]
  # Those that train first come first, whatever the order of the leaves.
  kinds.sort(reverse=True)
  return [
      jax.tree.map(lambda m, kind=kind: m == kind, member, is_leaf=is_member)
      for kind in kinds
  ]


def sizes(task: Any, phase: int = 0) -> tuple[int, int]:
  """Counts a task's parameters, padding included.

  Args:
    task: see `step.TrainStep`.
    phase: a place in its phases.

  Returns:
    How many train in that phase, and how many there are.
  """
  abstract = jax.eval_shape(task.init, jax.random.key(0))
  trained = select(abstract, mask(abstract, task.phases[phase].rule))
  count = lambda tree: sum(x.size for x in jax.tree.leaves(tree))
  return count(trained), count(abstract)


def is_box(x: Any) -> bool:
  """Whether `x` is a leaf in a box that names its logical axes."""
  return isinstance(x, nn.LogicallyPartitioned)


def _is_empty(tree: Any) -> bool:
  return isinstance(tree, Mapping) and not tree
