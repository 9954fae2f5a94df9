import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctrl_jax.training import checksum


def test_by_hand():
  tree = {"a": jnp.array([1, 2], jnp.int32), "b": [jnp.float32(1.0)]}
  assert checksum.tree_checksums(tree) == {
      "['a']": 1 * 1 + 2 * 3, "['b'][0]": 0x3F800000
  }


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.int32])
def test_every_flipped_bit_is_seen(dtype):
  x = np.asarray(jnp.arange(60, dtype=dtype).reshape(3, 4, 5))
  right = checksum.tree_checksums(jnp.asarray(x))
  raw = bytearray(x.tobytes())
  for bit in np.random.default_rng(0).integers(0, 8 * len(raw), 50):
    flipped = bytearray(raw)
    flipped[bit // 8] ^= 1 << (bit % 8)
    y = np.frombuffer(bytes(flipped), x.dtype).reshape(x.shape)
    assert checksum.tree_checksums(jnp.asarray(y)) != right


def test_order_counts():
  x = jnp.array([[1, 2], [3, 4]])
  assert checksum.tree_checksums(x) != checksum.tree_checksums(x.T)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.int8])
def test_of_an_array_on_the_host(monkeypatch, dtype):
  x = (100 * jax.random.normal(jax.random.key(0), (7, 11))).astype(dtype)
  for block in (1, 10, 1000):
    monkeypatch.setattr(checksum, "_BLOCK", block)
    assert checksum.array_checksum(np.asarray(x)) == (
        checksum.tree_checksums(x)[""]
    )


def test_equals_numpy():
  x = jax.random.normal(jax.random.key(0), (7, 11))
  words = np.asarray(x).view(np.uint32).ravel().astype(object)
  expected = sum(int(w) * (2 * i + 1) for i, w in enumerate(words)) % 2**32
  assert checksum.tree_checksums(x) == {"": expected}
