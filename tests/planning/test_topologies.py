import importlib.util

import jax
import pytest

from ctrl_jax import errors
from ctrl_jax.planning import topologies

needs_libtpu = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None,
    reason='the TPU compiler is not installed: pip install ".[tpu]"',
)


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
def test_virtual_devices(platform):
  found = topologies.find(f"{platform}:{jax.device_count('cpu')}")
  assert (found.platform, found.chip) == (platform, None)
  assert len(found.devices) == jax.device_count("cpu")


@pytest.mark.parametrize(
    "name, says",
    [
        ("v3-256", "CHIP:AxB"),
        ("v99:2x2", "v99"),
        ("cpu:2x2", "one number"),
        ("gpu:0", "gpu:N takes one number"),
        ("cpu:4096", "process of its own"),
    ],
)
def test_what_is_no_slice(name, says):
  with pytest.raises(errors.UserError, match=says):
    topologies.find(name)


def test_without_the_compiler_says_what_to_install(monkeypatch):
  monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
  with pytest.raises(errors.UserError, match="tpu"):
    topologies.find("v5e:2x2")


@needs_libtpu
def test_slices_have_their_devices():
  topologies.prepare_environment()
  for name, count in (("v3:8x16", 256), ("v5e:4x4", 16), ("v6e:2x4", 8),
                      ("v5e:1x1", 1), ("v4:2x2x1", 4)):
    assert len(topologies.find(name).devices) == count, name
  with pytest.raises(errors.UserError, match="no such slice"):
    topologies.find("v5e:3x7")


def test_rings():
  def slice_(name, *sizes):
    chip = topologies.chips.find(name)
    return topologies.Topology(name, "tpu", sizes, (), chip)

  assert not topologies.is_ring(slice_("v3", 8, 16), 1)
  assert topologies.is_ring(slice_("v3", 32, 32), 0)
  assert topologies.is_ring(slice_("v5e", 16, 16), 0)
  assert not topologies.is_ring(slice_("v5e", 4, 4), 0)
  assert topologies.is_ring(slice_("v5p", 4, 4, 8), 2)
  assert not topologies.is_ring(slice_("v5p", 2, 2, 4), 2)
