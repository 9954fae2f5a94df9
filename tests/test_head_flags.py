"""What the flags of heads become, and which do not go together."""

import command_runs
import pytest

from ctrl_jax import errors, head_flags


def parsed(*arguments):
  return command_runs.parsed(head_flags.define, *arguments)


@pytest.mark.parametrize("arguments, expected", [
    ([], {}),
    (["--attribute=soon"], dict(attribute="soon", weight=1.0, guidance=1.0)),
    (["--attribute=soon", "--weight=.5", "--guidance=2"],
     dict(attribute="soon", weight=0.5, guidance=2.0)),
    (["--attribute=a=x = y", "--attribute=b=z", "--weight=b=3"],
     dict(attribute=dict(a="x = y", b="z"), weight=dict(b=3.0), guidance=1.0)),
    (["--weight=0"], dict(attribute=None, weight=0.0, guidance=1.0)),
])
def test_what_generate_takes(arguments, expected):
  assert head_flags.generate_options(parsed(*arguments)) == expected


@pytest.mark.parametrize("arguments, message", [
    (["--guidance=2"], "--attribute, too"),
    (["--attribute=soon", "--next_tokens=3"], "leave out --attribute"),
    (["--attribute=soon", "--weight=much"], "--weight=much must be a number"),
    (["--attribute=soon", "--attribute=late"], "NAME=VALUE"),
    (["--attribute=a=soon", "--attribute=a=late"], "each name once"),
    (["--attribute=soon", "--weight==1"], "each name once"),
])
def test_what_does_not_go(arguments, message):
  with pytest.raises(errors.UserError, match=message):
    head_flags.generate_options(parsed(*arguments))


def test_what_load_takes():
  assert head_flags.load_options(parsed()) == {}
  found = head_flags.load_options(
      parsed("--base=runs/base", "--head=runs/topic/", "--head=k=runs/keyword")
  )
  assert found == dict(
      base="runs/base", heads={"topic": "runs/topic/", "k": "runs/keyword"}
  )
