"""Every kind can be configured and read."""

import pytest

from ctrl_jax import config, errors
from ctrl_jax.data import sources, story_kinds


@pytest.mark.parametrize("kind", story_kinds.READERS)
def test_is_a_kind_of_source(tmp_path, kind):
  source = sources.Source.from_config(
      config.source(kind, "A", path=f"{tmp_path}/none")
  )
  with pytest.raises(errors.UserError, match="No file"):
    next(sources.records(source))
