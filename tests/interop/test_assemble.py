"""A tree from named tensors: complete and exact, or a list of what is wrong."""

import jax
import numpy as np
import pytest
from interop_fakes import CTRL, GPT2, assert_same, random_params

from ctrl_jax import errors
from ctrl_jax.interop import assemble, layouts


def assembled(config, found, get=None):
  return assemble.assemble(
      config, layouts.tensors(config),
      {name: x.shape for name, x in found.items()}, get or found.get, "a.bin",
  )


def named(config, params):
  """The tensors that `config`'s layout makes of `params`."""
  leaves = assemble.flat(params)
  found = {}
  for tensor in layouts.tensors(config):
    parts = [
        leaves[path] if tensor.layer is None else leaves[path][tensor.layer]
        for path in tensor.leaves
    ]
    x = np.concatenate(parts, axis=-1)
    found[tensor.name] = x.T if tensor.transpose else x
  return found


@pytest.mark.parametrize("config", [CTRL, GPT2], ids=["ctrl", "gpt2"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_every_tensor_finds_its_place(config, dtype):
  params = jax.tree.map(lambda x: x.astype(dtype), random_params(config))
  found = assembled(config, named(config, params))
  assert {x.dtype.name for x in jax.tree.leaves(found)} == {"float32"}
  assert_same(params, found)


def test_missing_and_surplus_are_listed():
  found = named(CTRL, random_params(CTRL))
  gone = [name for name in found if ".h.1." in name]
  for name in gone:
    del found[name]
  found["more"] = np.zeros(3, np.float32)
  with pytest.raises(errors.UserError) as e:
    assembled(CTRL, found)
  assert str(e.value) == (
      "a.bin does not fit its configuration. Missing:"
      f" {', '.join(sorted(gone)[:8])} and 8 more. Not expected: more."
  )


def test_no_tensor_is_read_before_all_shapes_fit():
  found = named(CTRL, random_params(CTRL))
  name = "transformer.h.2.ffn.0.weight"
  found[name] = found[name].T
  with pytest.raises(
      errors.UserError, match=rf"Of another shape: {name} \[8, 12\]\.$"
  ):
    assembled(CTRL, found, get=lambda name: pytest.fail(f"read {name}"))


def test_all_that_are_not_finite_floats_are_listed():
  found = named(CTRL, random_params(CTRL))
  found["lm_head.bias"] = np.full(13, np.inf, np.float16)
  found["transformer.w.weight"] = found["transformer.w.weight"].astype(np.int8)
  with pytest.raises(
      errors.UserError,
      match=r"a\.bin cannot .* floats: transformer\.w\.weight, lm_head\.bias\.",
  ):
    assembled(CTRL, found)


def test_listing():
  assert assemble.listing("Missing", []) == ""
  assert assemble.listing("Missing", ["a", "b"]) == " Missing: a, b."
  assert assemble.listing("Missing", list("abcdefghij")) == (
      " Missing: a, b, c, d, e, f, g, h and 2 more."
  )


@pytest.mark.parametrize("config", [CTRL, GPT2], ids=["ctrl", "gpt2"])
def test_leaf_by_leaf(config):
  params = random_params(config)
  found = named(config, params)
  read = []

  def get(name):
    read.append(name)
    return found[name]

  stored = assemble.Stored(
      config, layouts.tensors(config),
      {name: x.shape for name, x in found.items()}, get, "a.bin",
  )
  tree = assemble.Tree(params)
  assert not read
  assert stored.shapes == tree.shapes
  for tensor in layouts.tensors(config):
    for a, b in zip(
        stored.parts(tensor.leaves, tensor.layer),
        tree.parts(tensor.leaves, tensor.layer), strict=True,
    ):
      np.testing.assert_array_equal(a, b)
  assert read == list(found)  # Each once.
  found["transformer.h.1.layernorm1.bias" if config is CTRL
        else "transformer.h.1.ln_1.bias"][0] = np.nan
  with pytest.raises(errors.UserError, match=r"floats: transformer\.h\.1\."):
    stored.parts(["layers/norm1/bias"], 1)


def test_finite_in_blocks(monkeypatch):
  monkeypatch.setattr(assemble, "_BLOCK", 4)
  x = np.zeros((3, 5), np.float32)
  assert assemble.is_finite(x) and assemble.is_finite(x[0, 0])
  x[2, 4] = np.inf
  assert not assemble.is_finite(x)
