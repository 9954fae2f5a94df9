"""Peak arithmetic of the devices, to report MFU against."""

import time

import jax
import jax.numpy as jnp

# bfloat16 FLOP/s a device as JAX counts devices (a v2 or v3 chip is two), from
# Google Cloud's and NVIDIA's data sheets.
_PEAK = {
    "TPU v2": 22.5e12,
    "TPU v3": 61.5e12,
    "TPU v4": 275e12,
    "TPU v5 lite": 197e12,
    "TPU v5e": 197e12,
    "TPU v5": 459e12,
    "TPU v5p": 459e12,
    "TPU v6 lite": 918e12,
    "TPU v6e": 918e12,
    "NVIDIA A100": 312e12,
    "NVIDIA H100": 989e12,
    "NVIDIA H200": 989e12,
}


def peak_flops(device: jax.Device) -> float:
  """Returns FLOP/s of one device; on a CPU, those of a product measured now.

  An unknown accelerator gives 0: no MFU is reported rather than a wrong one.
  """
  if device.platform == "cpu":
    return _measure_product()
  names = [n for n in _PEAK if device.device_kind.startswith(n)]
  return _PEAK[max(names, key=len)] if names else 0.0


def _measure_product(n: int = 1024, seconds: float = 0.5) -> float:
  """Best of the float32 products [n, n] x [n, n] in some time, over all cores.

  Many, since other programs on the machine slow most of them.
  """
  x = jnp.ones((n, n))
  product = jax.jit(jnp.dot)
  product(x, x).block_until_ready()
  best, end = float("inf"), time.perf_counter() + seconds
  while (start := time.perf_counter()) < end or best == float("inf"):
    product(x, x).block_until_ready()
    best = min(best, time.perf_counter() - start)
  return 2 * n**3 / best
