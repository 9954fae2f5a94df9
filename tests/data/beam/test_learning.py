"""What a tokenizer learns from, as on one machine."""

import pytest
from etils import epath

pytest.importorskip("apache_beam", reason="needs the extra `beam`")

import beam_options  # noqa: E402

from ctrl_jax import config as config_lib  # noqa: E402
from ctrl_jax import errors  # noqa: E402
from ctrl_jax.data import learning as one_machine_learning  # noqa: E402
from ctrl_jax.data import settings, sources  # noqa: E402
from ctrl_jax.data.beam import learning, options  # noqa: E402


def settings_of(*found):
  return settings.Settings(
      sources=tuple(map(sources.Source.from_config, found)),
      sequence_length=16, max_unknown=1, validation_fraction=0.1,
      test_fraction=0.1, seed=0, attribute_length=8,
  )


def sample(found, chars, shares, folder):
  return learning.sample(
      found, chars, shares, options.parse(beam_options.ONE),
      epath.Path(folder) / "work",
  )


@pytest.mark.parametrize("chars, shares", [
    (3000, [0.0, 0.5, 1.0, 0.0, 0.0]), (10**6, [0.1, 1.0, 0.0, 0.3, 1.0]),
])
def test_the_sample_of_one_machine(one_machine, tmp_path, chars, shares):
  found = settings_of(*one_machine[0].data.sources)
  expected = one_machine_learning.sample(
      found, chars, shares, lambda source, count: None
  )
  assert len(expected) > 20
  assert sample(found, chars, shares, tmp_path) == expected


def test_a_source_without_text(tmp_path):
  file = tmp_path / "a.jsonl"
  file.write_text('{"text": " "}\n')
  found = settings_of(config_lib.source("jsonl", "A", path=str(file)))
  with pytest.raises(errors.UserError, match="yields no text"):
    sample(found, 100, [1.0], tmp_path)
