import types

import jax

from ctrl_jax.training import flops


def device(kind):
  return types.SimpleNamespace(platform="tpu", device_kind=kind)


def test_longest_matching_name_counts():
  assert flops.peak_flops(device("TPU v5 lite")) == 197e12
  assert flops.peak_flops(device("TPU v5")) == 459e12
  assert flops.peak_flops(device("TPU v4")) == 275e12


def test_unknown_accelerator_reports_nothing():
  assert flops.peak_flops(device("TPU v99")) == 0


def test_cpu_is_measured():
  assert 1e8 < flops.peak_flops(jax.devices("cpu")[0]) < 1e14
