"""Models and tokenizers of llama2.c, in its first ("legacy") format.

A model is seven int32 (width, inner width, layers, heads, heads of keys,
vocabulary, positions) and float32 tensors without names; a negative vocabulary
says that the head has a table of its own. Rows of queries and keys are in the
order of "pairs", see `gguf_model`.

Source: karpathy/llama2.c, run.c and export.py (legacy_export).
"""

import pathlib
import re
import struct
from typing import Any

import numpy as np

from ctrl_jax import errors
from ctrl_jax.interop import assemble, llama_layout
from ctrl_jax.models import rotary
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.text import score_bpe

_HEADER = struct.Struct("<7i")
# Our leaves in the file's order, under names of run.c.
_NAMES = {
    "embedding/table": "token_embedding_table",
    "layers/norm1/scale": "rms_att_weight.{}",
    "layers/query/kernel": "wq.{}",
    "layers/key/kernel": "wk.{}",
    "layers/value/kernel": "wv.{}",
    "layers/output/kernel": "wo.{}",
    "layers/norm2/scale": "rms_ffn_weight.{}",
    "layers/gate/kernel": "w1.{}",
    "layers/down/kernel": "w2.{}",
    "layers/up/kernel": "w3.{}",
    "final_norm/scale": "rms_final_weight",
    "head/table": "wcls",
}
# What run.c has fixed.
_EPSILON, _THETA = 1e-5, 10000.0
_BEGIN = 1


def is_model(path: pathlib.Path) -> bool:
  """Whether a path is a file of this name, `*.bin`."""
  return path.is_file() and path.suffix == ".bin"


def read(path: pathlib.Path) -> tuple[TransformerConfig, dict[str, Any]]:
  """Reads a model.

  Args:
    path: the file.

  Returns:
    The configuration and the parameters: NumPy, float32.

  Raises:
    errors.UserError: the file is of another kind or length, holds numbers that
      are not finite, or turns by other frequencies than run.c's.
  """
  config = read_config(path)
  numbers = np.memmap(path, "<f4", "r", offset=_HEADER.size)
  tensors, at = {}, 0
  for name, shape in _shapes(config):
    size = int(np.prod(shape))
    tensors[name] = numbers[at:at + size].reshape(shape)
    at += size
  _check_frequencies(config, tensors.pop("freq_cis_real"), np.cos, path)
  _check_frequencies(config, tensors.pop("freq_cis_imag"), np.sin, path)

  def get(name: str) -> np.ndarray:
    x = np.asarray(tensors[name])
    heads = {"wq": config.num_heads, "wk": config.kv_heads}.get(name[:2])
    return x if heads is None else rotary.halves_from_pairs(x, heads)

  params = assemble.assemble(
      config,
      llama_layout.tensors(config, _NAMES),
      {name: list(x.shape) for name, x in tensors.items()},
      get,
      str(path),
  )
  return config, params


def read_config(path: pathlib.Path) -> TransformerConfig:
  """Reads the sizes; raises as `read` does for a file of another length."""
  size = path.stat().st_size
  with path.open("rb") as f:
    header = f.read(_HEADER.size)
  other = errors.UserError(
      f"{path} is no model in llama2.c's first format: it is damaged, or a"
      " `.bin` of another program. Get it again, or export it as safetensors."
  )
  if len(header) < _HEADER.size:
    raise other
  width, inner, layers, heads, kv_heads, vocab, length = _HEADER.unpack(header)
  try:
    config = llama_layout.make_config(
        vocab_size=abs(vocab), d_model=width, d_ff=inner, num_layers=layers,
        num_heads=heads, num_kv_heads=kv_heads or -1, max_length=length,
        tied_head=vocab > 0, layer_norm_epsilon=_EPSILON, rotary_theta=_THETA,
    )
  except errors.UserError as e:
    raise other from e
  # In Python's integers: what is no such file has absurd sizes.
  d, f, kv = width, inner, config.kv_heads * config.head_size
  layer = 2 * d + 2 * d * d + 2 * kv * d + 3 * f * d
  rest = length * config.head_size + d + abs(vocab) * d * (2 - (vocab > 0))
  if size != _HEADER.size + 4 * (layers * layer + rest):
    raise other
  return config


def _shapes(config: TransformerConfig) -> list[tuple[str, tuple[int, ...]]]:
  """Returns names and shapes, [out, in], in the file's order."""
  c, d, f = config, config.d_model, config.d_ff
  kv = c.kv_heads * c.head_size
  shapes = {
      "layers/query/kernel": (d, d), "layers/key/kernel": (kv, d),
      "layers/value/kernel": (kv, d), "layers/output/kernel": (d, d),
      "layers/gate/kernel": (f, d), "layers/down/kernel": (d, f),
      "layers/up/kernel": (f, d), "embedding/table": (c.vocab_size, d),
      "head/table": (c.vocab_size, d),
  }
  found = []
  for leaf, name in _NAMES.items():
    shape = shapes.get(leaf, (d,))
    if "{}" in name:
      found += [(name.format(i), shape) for i in range(c.num_layers)]
    elif leaf != "head/table":
      found.append((name, shape))
  table = (c.max_length, c.head_size // 2)
  found += [("freq_cis_real", table), ("freq_cis_imag", table)]
  return found if c.tied_head else [*found, ("wcls", shapes["head/table"])]


def _check_frequencies(config, table, function, path) -> None:
  """The file's own table of rotations must be what is computed here."""
  k = np.arange(0, config.head_size, 2) / config.head_size
  angles = np.arange(config.max_length)[:, None] * _THETA**-k
  if not np.allclose(table, function(angles), atol=1e-3):
    raise errors.UserError(
        f"{path} turns its positions by other angles than llama2.c does: it is"
        " damaged, or scaled for longer texts, which is not computed here."
    )


def find_tokenizer(
    path: pathlib.Path, vocab_size: int
) -> pathlib.Path | None:
  """Returns the tokenizer's file beside a model, None where there is none."""
  for name in (f"tok{vocab_size}.bin", "tokenizer.bin"):
    if (path.parent / name).is_file():
      return path.parent / name
  return None


def load_tokenizer(path: pathlib.Path) -> score_bpe.ScoreBPE:
  """Reads a tokenizer: the longest piece's length, then score, length, piece.

  As in run.c, id 1 both begins a text and ends it, and a space is put in front.

  Raises:
    errors.UserError: the file is damaged or of another kind.
  """
  data = path.read_bytes()
  pieces, scores, at = [], [], 4
  try:
    while at < len(data):
      score, length = struct.unpack_from("<fi", data, at)
      at += 8
      if not 0 <= length <= len(data) - at:
        raise ValueError(f"a piece of {length} bytes")
      pieces.append(data[at:at + length].decode("utf-8"))
      scores.append(score)
      at += length
    if len(pieces) < 259:
      raise ValueError(f"{len(pieces)} pieces")
    if max(len(p.encode()) for p in pieces) > struct.unpack_from("<i", data)[0]:
      raise ValueError("a piece that is longer than the longest")
    pieces[:3] = "<unk>", "<s>", "</s>"  # Two of them have line ends around.
    return score_bpe.ScoreBPE(
        [p.replace(" ", score_bpe.SPACE) for p in pieces], scores,
        [_kind(i, p) for i, p in enumerate(pieces)],
        begin_id=_BEGIN, end_id=_BEGIN, space_in_front=True,
    )
  except (ValueError, struct.error) as e:
    raise errors.UserError(
        f"{path} is no tokenizer of llama2.c, or damaged ({e}): get it again."
    ) from e


def _kind(i: int, piece: str) -> score_bpe.Kind:
  if i < 3:
    return score_bpe.Kind.CONTROL if i else score_bpe.Kind.UNKNOWN
  if i < 259 and re.fullmatch("<0x[0-9A-F]{2}>", piece):
    return score_bpe.Kind.BYTE
  return score_bpe.Kind.NORMAL
