"""Writes TensorFlow's checkpoints, from the format's description.

Sources: tensorflow/core/util/tensor_bundle, google/leveldb doc/table_format.md.
"""

import google_crc32c
import numpy as np

from ctrl_jax.interop import assemble, layouts, wire


def masked(data):
  """A checksum that is stored beside what it covers, as LevelDB has it."""
  crc = google_crc32c.value(data)
  rotated = (crc >> 15 | crc << 17) & 0xFFFFFFFF
  return ((rotated + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


def write_index(prefix, entries, num_shards=1, compression=b"\0"):
  """Writes PREFIX.index: a table of one block, the index block, a footer."""
  data = bytearray()

  def add(pairs):
    content = b"".join(
        b"\0" + wire.to_varint(len(key)) + wire.to_varint(len(value))
        + key + value
        for key, value in pairs
    )
    content += (0).to_bytes(4, "little") + (1).to_bytes(4, "little")
    handle = wire.to_varint(len(data)) + wire.to_varint(len(content))
    data.extend(content + compression + masked(content + compression))
    return handle

  header = wire.message((1, num_shards))
  pairs = [(name.encode(), entry) for name, entry in sorted(entries.items())]
  last = pairs[-1][0] if pairs else b""
  handle = add([(b"", header), *pairs])
  footer = add([]) + add([(last, handle)])
  magic = 0xDB4775248B80FB57
  prefix.with_name(prefix.name + ".index").write_bytes(
      bytes(data) + footer.ljust(40, b"\0") + magic.to_bytes(8, "little")
  )


def entry(dtype, shape, content, shard=0, offset=0):
  """A BundleEntryProto."""
  dims = [(2, wire.message((1, n))) for n in shape]
  return wire.message(
      (1, dtype), (2, wire.message(*dims)), (3, shard), (4, offset),
      (5, len(content)),
  ) + b"\x35" + masked(content)  # Field 6, four bytes.


def write_ctrl(prefix, config, params):
  """Writes a CTRL as the original's training leaves it, with Adagrad's slots.

  The slots hold their weights' own numbers.
  """
  leaves, entries, at = assemble.Tree(params), {}, 0
  file = prefix.with_name(prefix.name + ".data-00000-of-00001")
  with file.open("wb") as f:
    for tensor in layouts.tensorflow_ctrl(config.num_layers):
      (x,) = leaves.parts(tensor.leaves, tensor.layer)
      content = np.ascontiguousarray(x, "<f4").tobytes()
      for name in (tensor.name, f"{tensor.name}/Adagrad"):
        entries[name] = entry(1, x.shape, content, offset=at)
        at += f.write(content)
    step = np.int64(1234).tobytes()
    entries["global_step"] = entry(9, (), step, offset=at)
    f.write(step)
  write_index(prefix, entries)
