import pytest

from ctrl_jax.data import inventory


def of(attributes):
  found = inventory.Inventory()
  for attribute in attributes:
    found.add(attribute)
  return found.attributes()


@pytest.mark.parametrize("attributes, expected", [
    ([], ()),
    (["", ""], ()),
    (["b", "a", "b", "", "a"], ("a", "b")),
    # Two of three are their documents' own: prompts, say.
    (["b", "a", "b"], ()),
    (["a"], ()),
])
def test_an_inventory_or_text(attributes, expected):
  assert of(attributes) == expected


def test_too_many_are_text():
  many = [str(i % 10_000) for i in range(30_000)]
  assert len(of(many)) == 10_000
  assert of([*many, "one more"]) == ()
