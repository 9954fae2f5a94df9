"""Combinations of flags that are refused before a model is loaded."""

import command_runs
import pytest

from ctrl_jax import errors, latent_flags


def parsed(*arguments):
  return command_runs.parsed(latent_flags.define, *arguments)


@pytest.mark.parametrize("arguments", [
    [], ["--latent=prior"], ["--latent=mean"], ["--latent=z.npz"],
    ["--latent=z.npz", "--latent_id=3"],
    ["--latent=from-text", "--latent_text=a"],
    ["--latent=from-text", "--latent_text=a", "--latent_prompt=b"],
    ["--latent=interpolate", "--latent_text=a", "--latent_text=b"],
    ["--latent=analogy", *["--latent_text=a"] * 3],
])
def test_what_goes_together(arguments):
  latent_flags.check(parsed(*arguments))


@pytest.mark.parametrize("arguments, message", [
    (["--latent=priro"], "Did you mean 'prior'"),
    (["--latent=from-text"], "takes one or more --latent-text, not 0"),
    (["--latent=interpolate", "--latent_text=a"], "takes 2 .* not 1"),
    (["--latent=analogy", "--latent_text=a"], "takes 3 .* not 1"),
    (["--latent_text=a"], "give one of these"),
    (["--latent=prior", "--latent_prompt=a"], "give one of these"),
    (["--latent=from-text", "--latent_text=a", "--latent_prompt=b",
      "--latent_prompt=c"], "2 --latent-prompt for 1"),
    (["--latent=prior", "--latent_id=a"], "of a file"),
    (["--latent=prior", "--next_tokens=3"], "leave out --latent"),
])
def test_what_does_not(arguments, message):
  with pytest.raises(errors.UserError, match=message):
    latent_flags.check(parsed(*arguments))


def test_without_texts_prompts_stay_what_they_are():
  prompts = [object(), object()]
  assert latent_flags.expand(parsed(), None, prompts) == (prompts, None)
  assert latent_flags.expand(parsed("--latent=mean"), None, prompts) == (
      prompts, "mean"
  )
