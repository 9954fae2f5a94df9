"""The compiler's account of programs whose memory is known."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from decoding_fakes import CONFIG, model

from ctrl_jax import programs
from ctrl_jax.decoding.generator import Row
from ctrl_jax.decoding.options import GenerationOptions


@functools.partial(jax.jit, static_argnums=1)
def scale(x, number):
  return {"y": x["x"] * number}


def test_arguments_results_and_temporaries():
  x = jax.ShapeDtypeStruct((1000,), np.float32)
  add = jax.jit(lambda x: x + 1)
  assert programs.peak_bytes(add.lower(x).compile()) == 8000
  donated = jax.jit(lambda x: x + 1, donate_argnums=0)
  assert programs.peak_bytes(donated.lower(x).compile()) == 4000
  # An outer product that no result holds: a temporary of 4 MB, or it is fused.
  outer = jax.jit(lambda x: jnp.sort(x[:, None] * x[None], axis=0).sum())
  assert programs.peak_bytes(outer.lower(x).compile()) > 4_000_000


def test_the_largest_call_of_each_function():
  calls = programs.Calls()
  assert calls.peak_bytes() == 0
  for size in (10, 1000, 100):
    calls.note(scale, {"x": np.zeros(size, np.float32)}, 3)
  assert calls.peak_bytes() == 8000
  calls.note(scale, {"x": jnp.zeros(500)}, 2)
  assert calls.peak_bytes() == 8000
  calls.clear()
  assert calls.peak_bytes() == 0


def test_what_generation_holds():
  generator, params = model(CONFIG)

  def peak(count):
    rows = [Row([128, 5, 9], 1, (i, 0)) for i in range(count)]
    generator.run(rows, GenerationOptions(max_new_tokens=3))
    return generator.calls.peak_bytes()

  one, many = peak(1), peak(16)
  size = sum(x.nbytes for x in jax.tree.leaves(params))
  # Keys and values of a layer: rows of a bucket of 16 slots.
  cache = CONFIG.num_layers * 2 * 16 * CONFIG.d_model * 4
  assert one > size + cache and many - one > 15 * cache
  assert peak(1) == one  # Of the last run alone.
