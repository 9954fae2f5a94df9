"""Shared by all tests: a quiet CPU backend and strict broadcasting."""

import importlib.metadata
import os
import pickle
import tempfile

# Must stand before jax is imported: tests never touch an accelerator.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# No test waits for a network.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Tiny models: the time goes to the compiler, not to what it makes.
_xla_flags = (
    "--xla_backend_optimization_level=0"
    " --xla_llvm_disable_expensive_passes=true"
)
# Half the compiler's time. Other versions may end at a flag that they lack.
if importlib.metadata.version("jaxlib").startswith("0.10."):
  _xla_flags += " --xla_cpu_use_fusion_emitters=false"
os.environ.setdefault("XLA_FLAGS", _xla_flags)
# What a file compiles twice, and the processes that it starts, is compiled
# once. Each worker has its own folder: JAX does not write these files at once.
_compiled = tempfile.TemporaryDirectory(prefix="ctrl_jax_tests_")
os.environ["JAX_COMPILATION_CACHE_DIR"] = _compiled.name
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"

import filelock  # noqa: E402
import jax  # noqa: E402
import pytest  # noqa: E402
from absl import flags  # noqa: E402

jax.config.update("jax_numpy_rank_promotion", "raise")

# grain's worker threads read absl's flags, which only a program parses.
if not flags.FLAGS.is_parsed():
  flags.FLAGS.mark_as_parsed()

# What takes longest, so that the workers end together.
_FIRST = (
    "test_processes.py", "test_sharding.py", "test_cvae.py", "test_encode.py",
    "test_loop.py",
)


def pytest_collection_modifyitems(items):
  items.sort(key=lambda item: item.path.name not in _FIRST)


def pytest_unconfigure():
  _compiled.cleanup()


@pytest.fixture(scope="session")
def cvae_workdirs(tmp_path_factory):
  """A base and two CVAEs, see `cvae_runs.make`."""
  import cvae_runs

  return _shared(tmp_path_factory, "cvae_workdirs", cvae_runs.make)


def _shared(tmp_path_factory, name, make):
  """Returns what `make` makes in a folder, once for all of xdist's workers."""
  root = tmp_path_factory.getbasetemp()
  if "PYTEST_XDIST_WORKER" in os.environ:
    root = root.parent
  folder, made = root / name, root / f"{name}.pickle"
  with filelock.FileLock(f"{folder}.lock"):
    if not made.exists():
      folder.mkdir()
      made.write_bytes(pickle.dumps(make(folder)))
  return pickle.loads(made.read_bytes())
