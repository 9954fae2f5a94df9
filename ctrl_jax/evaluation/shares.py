"""Shares of samples that do what they were asked for, over all and by group."""

from collections.abc import Sequence
from typing import Any

from ctrl_jax import errors
from ctrl_jax.evaluation import intervals


def measure(
    hits: Sequence[bool], groups: Sequence[str], name: str
) -> dict[str, Any]:
  """Returns the share of hits, and each group's.

  Args:
    hits: one a sample.
    groups: what each sample was asked for.
    name: of the grouping.

  Returns:
    value, low, high (95 %, Wilson; samples count as independent), samples;
    by_NAME: the same for each group, sorted; hits: 0 or 1 a sample, as text.

  Raises:
    errors.UserError: no sample at all.

  Example:

  >>> measure([True, False, True], ["a", "a", "b"], "topic")["by_topic"].keys()
  dict_keys(['a', 'b'])
  """
  if not hits:
    raise errors.UserError("There are no samples to measure.")
  of_group = {group: [] for group in sorted(set(groups))}
  for group, hit in zip(groups, hits, strict=True):
    of_group[group].append(hit)
  return _share(hits) | {
      f"by_{name}": {group: _share(x) for group, x in of_group.items()},
      "hits": "".join("01"[bool(hit)] for hit in hits),
  }


def _share(hits: Sequence[bool]) -> dict[str, Any]:
  interval = intervals.wilson(sum(hits), len(hits))
  return dict(interval._asdict(), samples=len(hits))
