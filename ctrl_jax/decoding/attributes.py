"""What a call says of attributes -> the terms that are added."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ctrl_jax import errors


def weighted(
    heads: Mapping[str, Any],
    tokenizer: Any,
    num_prompts: int,
    attribute: Any,
    weight: float | Mapping[str, float] = 1.0,
    guidance: float = 1.0,
) -> dict[str, Any]:
  """Returns what `continuation.generate` takes: `weighted`, `attributes`.

  A head that takes no attribute (a side network) is a term of every call.

  Args:
    heads: name -> `saved_head.Head`.
    tokenizer: of the model and the heads.
    num_prompts: in the call.
    attribute: see `LanguageModel.generate`, like the next two.
    weight: of each head.
    guidance: 1 is off; else each head is two terms, with its attribute and
      without.

  Raises:
    errors.UserError: a head or attribute that is not known, an attribute that
      is too long, or numbers that are not finite.
  """
  always = [name for name, head in heads.items() if not head.takes_attribute]
  if attribute is None:
    if guidance != 1.0 or weight != 1.0 and not always:
      raise errors.UserError(
          "weight and guidance are of heads, and there is no attribute: give"
          " one."
      )
    attribute = {}
  elif not isinstance(attribute, Mapping):
    attribute = {_only(heads): attribute}
  weights = weight if isinstance(weight, Mapping) else (
      dict.fromkeys([*attribute, *always], weight)
  )
  _check_call(heads, attribute, weights, guidance)
  none = [()] * num_prompts
  # (head, weight) and the attribute's ids of each prompt.
  terms = [((name, weights.get(name, 1.0)), none) for name in always]
  for name, values in attribute.items():
    number = weights.get(name, 1.0)
    values = _a_prompt(values, num_prompts)
    ids = [_encode(name, heads[name], tokenizer, value) for value in values]
    terms.append(((name, guidance * number), ids))
    if guidance != 1.0:
      terms.append(((name, (1 - guidance) * number), none))
  if not terms:
    return {}
  weighted_terms, columns = zip(*terms)
  return dict(
      weighted=list(weighted_terms), attributes=list(zip(*columns))
  )


def _check_call(heads, attribute, weights, guidance) -> None:
  """Refuses names that are none, numbers that are none, and what was not
  trained."""
  for name in [*attribute, *weights]:
    if name not in heads:
      raise errors.UserError(
          f"There is no head {name!r}. {errors.nearest(name, heads)}"
      )
  _check_number("guidance", guidance)
  for number in weights.values():
    _check_number("weight", number)
  for name in attribute:
    if not heads[name].takes_attribute:
      raise errors.UserError(
          f"The head {name!r} takes no attribute: it is always on"
          " (weight 0 turns it off)."
      )
    if guidance != 1.0 and not heads[name].attribute_dropout:
      raise errors.UserError(
          f"The head {name!r} never saw a text without an attribute, which"
          " guidance compares with: train it with task.attribute_dropout"
          " above 0, or leave guidance at 1."
      )


def _only(heads: Mapping[str, Any]) -> str:
  heads = [name for name, head in heads.items() if head.takes_attribute]
  if len(heads) == 1:
    return next(iter(heads))
  if not heads:
    raise errors.UserError(
        "This model has no head that obeys an attribute: load one that"
        " Auxiliary Tuning made (heads=, --head)."
    )
  raise errors.UserError(
      f"There are {len(heads)} heads ({', '.join(heads)}): say whose attribute"
      " it is, as attribute={'NAME': ...} (--attribute=NAME=...)."
  )


def _a_prompt(values: Any, num_prompts: int) -> list[str]:
  if not isinstance(values, list | tuple):  # What it is, `_encode` looks at.
    values = [values] * num_prompts
  if len(values) != num_prompts:
    raise errors.UserError(
        f"{len(values)} attributes for {num_prompts} prompts: give one for all"
        " or one a prompt."
    )
  return list(values)


def _encode(
    name: str, head: Any, tokenizer: Any, value: Any
) -> Sequence[int]:
  if not isinstance(value, str):
    raise errors.UserError(f"The attribute {value!r} is not a string.")
  if head.attributes and value not in head.attributes:
    raise errors.UserError(
        f"The head {name!r} was not trained on the attribute {value!r}."
        f" {errors.nearest(value, head.attributes)}"
    )
  ids = tuple(tokenizer.encode(value))
  limit = head.config.attribute_length
  if not ids or len(ids) > limit:
    raise errors.UserError(
        f"The attribute {value!r} has {len(ids)} tokens; the head {name!r}"
        f" takes 1 to {limit}: shorten it."
    )
  return ids


def _check_number(what: str, value: Any) -> None:
  if isinstance(value, bool) or not isinstance(value, int | float) or not (
      math.isfinite(value)
  ):
    raise errors.UserError(f"{what}={value!r} must be a finite number.")
