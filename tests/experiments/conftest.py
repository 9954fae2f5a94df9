"""Models and data that the experiments on keywords and topics share."""

import pytest


@pytest.fixture(scope="session")
def keyword_models(tmp_path_factory):
  """See `keyword_runs.make`."""
  import keyword_runs

  return keyword_runs.make(tmp_path_factory.mktemp("keyword_models"))
