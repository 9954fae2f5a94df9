"""A tiny prepared data set and its configuration, made once; checkpoints."""

import checkpoint_fakes
import pytest
import tiny_runs

from ctrl_jax import config as config_lib
from ctrl_jax import prepare
from ctrl_jax.training import checkpoint_manager

WORDS = {
    "Fruit": "apple pear plum cherry grape melon fig lemon".split(),
    "Tools": "hammer saw drill wrench file chisel plane vise".split(),
}


@pytest.fixture(scope="session")
def tiny_config(tmp_path_factory):
  """A configuration whose data set is prepared."""
  folder = tmp_path_factory.mktemp("tiny")
  sources = []
  for code, words in WORDS.items():
    file = folder / f"{code}.txt"
    paragraphs = [
        " ".join(words[(i * k + k) % 8] for k in range(1, 30)) + f" {i}."
        for i in range(60)
    ]
    file.write_text("\n\n".join(paragraphs))
    sources.append(
        config_lib.source("text", code, path=str(file), piece_chars=100)
    )
  c = config_lib.default()
  c.data.folder = str(folder / "data")
  c.data.sources = tuple(sources)
  c.data.validation_fraction = 0.2
  c.tokenizer.vocab_size = 150
  c.optimizer.warmup_steps = 4
  tiny_runs.shrink(
      c, 16, steps=8, eval_every=4, checkpoint_every=2, eval_sequences=16,
      sample_tokens=4, keep_checkpoints=3,
  )
  prepare.prepare(c)
  return c.lock()


@pytest.fixture
def saved(tmp_path):
  """A workdir with checkpoints of steps 1, 2 and 3, of which 2 are kept."""
  checkpoints = checkpoint_manager.Checkpoints(tmp_path, keep=2)
  for step in (1, 2, 3):
    checkpoints.save(step, checkpoint_fakes.state(step), 10.0 * step)
  checkpoints.wait()
  yield tmp_path, checkpoints
  checkpoints.close()
