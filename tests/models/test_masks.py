import jax.numpy as jnp
import numpy as np

from ctrl_jax.models import masks


def test_masks_of_extra_keys():
  causal = masks.causal_mask(2)
  found = masks.mask_with_extra(causal, 1)
  np.testing.assert_array_equal(
      found[0, 0], [[True, True, False], [True, True, True]]
  )
  own = jnp.array([[True, False], [False, False]])
  found = masks.mask_with_extra(causal, 2, own)
  assert found.shape == (2, 1, 2, 4)
  np.testing.assert_array_equal(found[0, 0, 0], [True, False, True, False])
  np.testing.assert_array_equal(found[1, 0, 1], [False, False, True, True])
