"""Which options the flags of generation give."""

import dataclasses

import command_runs
import pytest

from ctrl_jax import errors, generation_flags
from ctrl_jax.decoding.options import GenerationOptions


def given(*arguments):
  found = command_runs.parsed(generation_flags.define, *arguments)
  return generation_flags.given(found)


def test_what_is_not_given_is_left_to_the_rules():
  assert given() == dict(rules="paper")
  assert given("--temperature=0", "--rules=release", "--ban=x", "--ban=y") == (
      dict(temperature=0.0, rules="release", ban=["x", "y"])
  )


def test_every_option_has_a_flag():
  found = command_runs.parsed(generation_flags.define)
  for field in dataclasses.fields(GenerationOptions):
    assert field.name in found, field.name


def test_a_bad_value():
  with pytest.raises(errors.UserError, match="temperature"):
    given("--temperature=-1")
