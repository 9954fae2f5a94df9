"""What differs between CPU, GPU and TPU, chosen in one place.

Measured on CPU: float32 products are faster than bfloat16 ones, and an unrolled
stack of layers is faster than a scanned one in decoding. On TPU both are the
other way round. threefry is the generator everywhere: on CPU it is the faster
one, and rbg makes each device of a mesh draw the bits of the whole batch (a
third of CTRL's step on 256 cores; docs/plan.md).
"""

import dataclasses

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class Backend:
  """Choices for one platform.

  Attributes:
    dtype: of matrix products and activations; parameters stay float32.
    scan_layers: `lax.scan` over the layers (one compiled layer) instead of an
      unrolled loop.
    prng: JAX's name of the generator for dropout.
  """

  dtype: jnp.dtype
  scan_layers: bool
  prng: str


_CPU = Backend(jnp.dtype(jnp.float32), False, "threefry2x32")
_GPU = Backend(jnp.dtype(jnp.bfloat16), True, "threefry2x32")
_TPU = Backend(jnp.dtype(jnp.bfloat16), True, "threefry2x32")


def of(platform: str) -> Backend:
  """Returns the choices for JAX's name of a platform."""
  return {"cpu": _CPU, "tpu": _TPU}.get(platform, _GPU)


def current() -> Backend:
  """Returns the choices for the platform that JAX computes on."""
  return of(jax.default_backend())
