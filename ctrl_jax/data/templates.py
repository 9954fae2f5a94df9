"""Templates: how a record's fields become a document's text."""

import functools
import re
from collections.abc import Mapping

from ctrl_jax import errors

# `{{`, `}}`, `{name}` or `{outer.inner}`; any other brace is an error.
_PARTS = re.compile(r"(\{\{|\}\}|\{[^{}]*\}|[{}])")


def render(template: str, fields: Mapping, where: str) -> str:
  """Returns `template` with each `{name}` replaced by that field.

  `{a.b}` is field `b` of the object in `a` (a field whose own name is `a.b`
  goes first); `{{` and `}}` are braces. A list is joined by ", ", a missing
  value (JSON's null) is empty. Half a surrogate pair, which JSON can hold,
  becomes U+FFFD.

  Raises:
    errors.UserError: the record has no such field, or it is an object; or a
      brace stands alone.
  """
  text = "".join(
      _text(_value(part, fields, template, where)) if is_field else part
      for is_field, part in _parse(template)
  )
  return re.sub("[\ud800-\udfff]", "\ufffd", text)


def names(template: str) -> list[str]:
  """Returns the fields that a template names.

  Raises:
    errors.UserError: a brace stands alone.
  """
  return [part for is_field, part in _parse(template) if is_field]


@functools.lru_cache
def _parse(template: str) -> tuple[tuple[bool, str], ...]:
  """Cuts a template into (is it a field, text or the field's name)."""
  parts = []
  for part in filter(None, _PARTS.split(template)):
    if part in ("{", "}", "{}"):
      raise errors.UserError(
          f"Template {template!r}: {part!r} stands alone. Write a field as"
          " {name}, and a brace as {{ or }}."
      )
    if part in ("{{", "}}"):
      parts.append((False, part[0]))
    elif part.startswith("{"):
      parts.append((True, part[1:-1]))
    else:
      parts.append((False, part))
  return tuple(parts)


def _value(name: str, fields: Mapping, template: str, where: str):
  value = fields
  for part in [name] if name in fields else name.split("."):
    if not isinstance(value, Mapping) or part not in value:
      raise errors.UserError(
          f"{where}: no field {name!r}, which the template {template!r} needs."
          f" {errors.nearest(name, map(str, fields))}"
      )
    value = value[part]
  if isinstance(value, Mapping):
    raise errors.UserError(
        f"{where}: the field {name!r} of the template {template!r} is an object"
        f" of {', '.join(map(repr, list(value)[:5]))}: name one,"
        f" {{{name}.FIELD}}."
    )
  return value


def _text(value) -> str:
  if value is None:
    return ""
  if isinstance(value, (list, tuple)):
    return ", ".join(map(_text, value))
  return str(value)
