"""Hashes of shards, read on other machines than wrote them."""

import pytest
from etils import epath

pytest.importorskip("apache_beam", reason="needs the extra `beam`")

import beam_options  # noqa: E402

from ctrl_jax.data import records, settings, sources  # noqa: E402
from ctrl_jax.data.beam import check, options  # noqa: E402
from ctrl_jax.data.manifest import file_info  # noqa: E402


def test_shards_are_hashed_as_they_were_written(one_machine, tmp_path):
  config, manifest = one_machine
  # The same rows in many shards.
  writer = records.Writer(tmp_path, "train", 17, 8, shard_records=100)
  for record in records.open_split(manifest.folder, "train"):
    writer._content += records.content_digest(writer.size, record)
    writer._write_one(record)
  info, content = writer.finish()
  assert info.num_shards > 3
  shards, start = [], 0
  for file, length in zip(info.filepaths, info.shard_lengths, strict=True):
    shards.append(("train", start, str(file)))
    start += length
  found = settings.Settings(
      sources=tuple(map(sources.Source.from_config, config.data.sources)),
      sequence_length=16, max_unknown=1, validation_fraction=0.1,
      test_fraction=0.1, seed=0, attribute_length=8,
  )
  hashes, files = check.check(
      shards, found, options.parse(beam_options.ONE), epath.Path(tmp_path)
  )
  assert hashes == {"train": content}
  assert files == {p.name: file_info(p) for p in map(epath.Path, (
      file for _, _, file in shards
  ))}
