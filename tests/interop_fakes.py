"""Tiny models of the kinds that other programs keep, shared by the tests."""

import dataclasses
import struct

import jax
import numpy as np

from ctrl_jax.models import transformer
from ctrl_jax.models.config import TransformerConfig

CTRL = TransformerConfig(
    vocab_size=13, d_model=8, d_ff=12, num_layers=3, num_heads=2, max_length=6
)
GPT2 = dataclasses.replace(
    CTRL, positions="learned", activation="gelu_tanh", scale_embedding=False,
    head_bias=False, layer_norm_epsilon=1e-5,
)
LLAMA = dataclasses.replace(
    CTRL, positions="rotary", activation="swiglu", norm="rms", num_kv_heads=1,
    biases=False, scale_embedding=False, head_bias=False, dropout=0.0,
    layer_norm_epsilon=1e-5, rotary_theta=1000.0,
)
UNTIED = dataclasses.replace(LLAMA, tied_head=False, num_kv_heads=0)


# The released CTRL's vocabulary and heads, narrow.
RELEASE = TransformerConfig(
    vocab_size=246_534, d_model=8, d_ff=8, num_layers=1, num_heads=2,
    max_length=64,
)


def random_params(config, seed=0):
  """Parameters with no two leaves, or rows, alike."""
  leaves, tree = jax.tree.flatten(
      jax.eval_shape(lambda k: transformer.init(config, k), jax.random.key(0))
  )
  rng = np.random.default_rng(seed)
  return jax.tree.unflatten(
      tree, [rng.normal(size=x.shape).astype(np.float32) for x in leaves]
  )


PIECES = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)),
          "\u2581", "a", "b", "c", "\n", "\u2581a", "ab", "aa", "aaa", "bc"]
SCORES = [0.0] * 259 + [-9.0] * 5 + [-1.0, -2.0, -3.0, -1.5, -2.5]
KINDS = [2, 3, 3] + [6] * 256 + [1] * 10


def write_llama2c_tokenizer(file, pieces=PIECES, scores=SCORES):
  """As llama2.c's tokenizer.py does."""
  pieces = [p.replace("\u2581", " ").encode() for p in pieces]
  pieces[1:3] = b"\n<s>\n", b"\n</s>\n"
  data = struct.pack("<i", max(map(len, pieces)))
  for piece, score in zip(pieces, scores):
    data += struct.pack("<fi", score, len(piece)) + piece
  file.write_bytes(data)


def pairs_from_halves(x, num_heads):
  """[D, H*K] with each head's columns as llama.cpp and llama2.c keep them."""
  heads = x.reshape(len(x), num_heads, 2, -1)
  return heads.swapaxes(2, 3).reshape(x.shape)


def llama_layers(config, params):
  """A dict a layer, kernels [out, in], heads in the order of "pairs"."""
  found = []
  for i in range(config.num_layers):
    layer = {}
    for name, leaf in params["layers"].items():
      x = next(iter(leaf.values()))[i]
      if name in ("query", "key"):
        heads = config.num_heads if name == "query" else config.kv_heads
        x = pairs_from_halves(x, heads)
      layer[name] = np.ascontiguousarray(x.T)
    found.append(layer)
  return found


def write_llama2c(file, config, params):
  """As llama2.c's export.py does in its first format."""
  vocab = config.vocab_size if config.tied_head else -config.vocab_size
  layers = llama_layers(config, params)
  angles = np.arange(config.max_length)[:, None] * 10000.0 ** (
      -np.arange(0, config.head_size, 2) / config.head_size
  )
  parts = [params["embedding"]["table"]]
  for name in ("norm1", "query", "key", "value", "output", "norm2", "gate",
               "down", "up"):
    parts += [layer[name] for layer in layers]
  parts += [params["final_norm"]["scale"], np.cos(angles), np.sin(angles)]
  if not config.tied_head:
    parts.append(params["head"]["table"])
  header = struct.pack(
      "<7i", config.d_model, config.d_ff, config.num_layers, config.num_heads,
      config.kv_heads, vocab, config.max_length,
  )
  file.write_bytes(
      header + b"".join(x.astype("<f4").tobytes() for x in parts)
  )


GGUF_NAMES = dict(
    norm1="attn_norm", query="attn_q", key="attn_k", value="attn_v",
    output="attn_output", norm2="ffn_norm", gate="ffn_gate", up="ffn_up",
    down="ffn_down",
)


def write_gguf(file, config, params, *, fields=None, tensors=None, drop=()):
  """Writes a model with gguf's own writer, which must be installed.

  `fields` and `tensors` are added to what the model needs or put in its place,
  `drop` names what is left out. A tensor may be (array, quantised type).
  """
  import gguf

  found = {
      "token_embd.weight": params["embedding"]["table"],
      "output_norm.weight": params["final_norm"]["scale"],
  }
  if not config.tied_head:
    found["output.weight"] = params["head"]["table"]
  for i, layer in enumerate(llama_layers(config, params)):
    found |= {f"blk.{i}.{GGUF_NAMES[k]}.weight": x for k, x in layer.items()}
  said = {
      "llama.embedding_length": config.d_model,
      "llama.feed_forward_length": config.d_ff,
      "llama.block_count": config.num_layers,
      "llama.attention.head_count": config.num_heads,
      "llama.attention.head_count_kv": config.kv_heads,
      "llama.context_length": config.max_length,
      "llama.attention.layer_norm_rms_epsilon": config.layer_norm_epsilon,
      "llama.rope.freq_base": config.rotary_theta,
      "llama.rope.dimension_count": config.head_size,
  } | (fields or {})
  architecture = said.pop("general.architecture", "llama")
  writer = gguf.GGUFWriter(file, architecture)
  add = {bool: writer.add_bool, int: writer.add_uint32, str: writer.add_string,
         float: writer.add_float32, list: writer.add_array}
  for key, value in said.items():
    if key not in drop:
      add[type(value)](key, value)
  for name, x in (found | (tensors or {})).items():
    if name in drop:
      continue
    kind = None
    if isinstance(x, tuple):
      x, kind = gguf.quants.quantize(*x), x[1]
    writer.add_tensor(name, np.ascontiguousarray(x), raw_dtype=kind)
  writer.write_header_to_file()
  writer.write_kv_data_to_file()
  writer.write_tensors_to_file()
  writer.close()


def assert_same(a, b):
  flat_a = jax.tree_util.tree_leaves_with_path(a)
  flat_b = dict(jax.tree_util.tree_leaves_with_path(b))
  assert {path for path, _ in flat_a} == flat_b.keys()
  for path, x in flat_a:
    np.testing.assert_array_equal(x, flat_b[path])
