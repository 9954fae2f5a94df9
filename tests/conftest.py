"""Shared by all tests: a quiet CPU backend and strict broadcasting."""

import os

# Must stand before jax is imported: tests never touch an accelerator.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# No test waits for a network.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Tiny models: the time goes to the compiler, not to what it makes.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0"
    " --xla_llvm_disable_expensive_passes=true",
)

import jax  # noqa: E402
import pytest  # noqa: E402
from absl import flags  # noqa: E402

jax.config.update("jax_numpy_rank_promotion", "raise")

# grain's worker threads read absl's flags, which only a program parses.
if not flags.FLAGS.is_parsed():
  flags.FLAGS.mark_as_parsed()


@pytest.fixture(scope="session")
def cvae_workdirs(tmp_path_factory):
  """A base and two CVAEs, see `cvae_runs.make`."""
  import cvae_runs

  return cvae_runs.make(tmp_path_factory.mktemp("cvae_workdirs"))
