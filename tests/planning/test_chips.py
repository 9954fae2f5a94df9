import types

import pytest

from ctrl_jax import errors
from ctrl_jax.planning import chips
from ctrl_jax.training import flops

KINDS = {"v3": "TPU v3", "v4": "TPU v4", "v5e": "TPU v5 lite",
         "v5p": "TPU v5p", "v6e": "TPU v6 lite"}


@pytest.mark.parametrize("name", chips.CHIPS)
def test_peak_is_the_one_that_mfu_is_logged_against(name):
  device = types.SimpleNamespace(platform="tpu", device_kind=KINDS[name])
  assert chips.find(name).peak == flops.peak_flops(device)


def test_unknown_chip():
  with pytest.raises(errors.UserError, match="v99.*Known"):
    chips.find("v99")
