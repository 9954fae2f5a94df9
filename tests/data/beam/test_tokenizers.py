"""Tokenizers on the way to other machines."""

import fake_bucket
import pytest
from etils import epath

pytest.importorskip("apache_beam", reason="needs the extra `beam`")

from ctrl_jax import text  # noqa: E402
from ctrl_jax.data.beam import tokenizers  # noqa: E402


@pytest.mark.parametrize("folder", ["gs://bucket/parts/tokenizer", "here/a"])
def test_a_tokenizer_comes_back(one_machine, tmp_path, monkeypatch, folder):
  fake_bucket.make(tmp_path, monkeypatch)
  monkeypatch.chdir(tmp_path)
  tokenizer = text.load_tokenizer(one_machine[1].tokenizer_folder)
  tokenizers.save(tokenizer, epath.Path(folder))
  found = tokenizers.load(folder)
  assert found.hash == tokenizer.hash
  assert found.encode("The cat sat") == tokenizer.encode("The cat sat")
  assert tokenizers.load(folder) is found  # Read once.
  tokenizers.load.cache_clear()
