"""What the machines tell: written by parts, read as a whole."""

import pytest
from etils import epath

pytest.importorskip("apache_beam", reason="needs the extra `beam`")

import apache_beam as beam  # noqa: E402
import beam_options  # noqa: E402

from ctrl_jax.data import documents, inventory  # noqa: E402
from ctrl_jax.data.beam import options, summary  # noqa: E402


def test_lines_come_back(tmp_path):
  values = [{"a": i, "text": "\u2028 \n \x85"} for i in range(50)]
  prefix = epath.Path(tmp_path) / "folder" / "values"
  with beam.Pipeline(options=options.parse(beam_options.ONE)) as pipeline:
    summary.save(pipeline | beam.Create(values), prefix)
  found = sorted(summary.saved(prefix), key=lambda v: v["a"])
  assert found == values
  assert not list(summary.saved(prefix.parent / "others"))


@pytest.mark.parametrize("make, result, values", [
    (
        lambda: documents.Sample(100), documents.Sample.texts,
        [(bytes([i * 37 % 251]) * 16, "x" * (i % 17 + 1)) for i in range(90)],
    ),
    (
        inventory.Inventory, inventory.Inventory.attributes,
        [f"a{i % 7}" for i in range(60)],
    ),
])
def test_parts_merge_into_the_whole(make, result, values):
  merged = summary.Merged(make, result)

  def of(part):
    accumulator = merged.create_accumulator()
    for value in part:
      accumulator = merged.add_input(accumulator, value)
    return accumulator

  whole = merged.extract_output(of(values))
  assert len(whole) > 5
  for cuts in ((0, 10, 11, 90), (0, 45, 90), (0, 0, 90)):
    parts = [of(values[a:b]) for a, b in zip(cuts, cuts[1:])]
    found = merged.merge_accumulators(reversed(parts))
    assert merged.extract_output(found) == whole
