"""Templates: fields become text, and text never becomes a template."""

import pytest

from ctrl_jax import errors
from ctrl_jax.data import templates


def test_templates():
  fields = {"a": {"b": ["x", 2]}, "a.c": "dot", "s": "\ud83d!"}
  assert templates.render("{a.b}; {a.c}; {s}", fields, "f:1") == (
      "x, 2; dot; \ufffd!"
  )
  # A value is never a template, and attributes are out of reach.
  assert templates.render("{a}", {"a": "{b}"}, "f:1") == "{b}"
  with pytest.raises(errors.UserError, match="no field 'a.__class__'"):
    templates.render("{a.__class__}", fields, "f:1")
  for bad in ("{", "a}b", "{}"):
    with pytest.raises(errors.UserError, match="stands alone"):
      templates.render(bad, fields, "f:1")


def test_names_are_the_fields_without_the_braces():
  assert templates.names("{a}{{b}} {c.d}, {a}") == ["a", "c.d", "a"]
  assert templates.names("{{no field}}") == []
  with pytest.raises(errors.UserError, match=r"'\}' stands alone.*\{name\}"):
    templates.names("{a}}")


@pytest.mark.parametrize("template", ["{a}", "{b.c}", "{d.e}"])
def test_an_object_is_no_text(template):
  fields = {"a": {"x": 1}, "b": {"c": {"x": 1}}, "d.e": {"x": 1}}
  with pytest.raises(errors.UserError, match=r"is an object of 'x': name one"):
    templates.render(template, fields, "a.jsonl:7")


def test_a_missing_field_names_the_record_and_the_nearest_field():
  with pytest.raises(errors.UserError) as e:
    templates.render("{titel}", {"title": "x", "text": "y"}, "a.jsonl:7")
  assert str(e.value).startswith("a.jsonl:7: no field 'titel'")
  assert "Did you mean 'title'? Known: title, text." in str(e.value)
