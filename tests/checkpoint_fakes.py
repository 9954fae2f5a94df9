"""A state to save, and damage to what was saved."""

import pathlib

import jax
import jax.numpy as jnp


def state(step):
  x = jax.random.normal(jax.random.key(step), (64, 32))
  return {
      "params": {"w": x, "b": x[0]}, "opt_state": (x**2,),
      "step": jnp.int32(step),
  }


def abstract():
  sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
  return jax.tree.map(
      lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding),
      state(0),
  )


def largest_file(folder: pathlib.Path) -> pathlib.Path:
  files = [p for p in folder.rglob("*") if p.is_file()]
  return max(files, key=lambda p: p.stat().st_size)


def flip_a_bit(folder: pathlib.Path, parts: int = 2):
  """Between each of `parts` parts of the largest file, where the data lie."""
  file = largest_file(folder)
  raw = bytearray(file.read_bytes())
  for i in range(1, parts):
    raw[i * len(raw) // parts] ^= 8
  file.write_bytes(bytes(raw))
