"""A tiny GPT-2 as others keep it, for tests of what begins with one."""

import jax
from tokenizers import pre_tokenizers

from ctrl_jax.interop import hugging_face, hugging_face_tokenizer
from ctrl_jax.models import transformer
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.text import byte_bpe


def write(folder):
  """Writes a model with a tokenizer of bytes.

  Returns:
    Its configuration and parameters.
  """
  pieces = sorted(pre_tokenizers.ByteLevel.alphabet()) + ["<|endoftext|>"]
  tokenizer = byte_bpe.ByteBPE({p: i for i, p in enumerate(pieces)}, [])
  config = TransformerConfig(
      vocab_size=tokenizer.vocab_size, d_model=16, d_ff=24, num_layers=2,
      num_heads=2, max_length=32, positions="learned",
      activation="gelu_tanh", scale_embedding=False, head_bias=False,
      layer_norm_epsilon=1e-5,
  )
  params = transformer.init(config, jax.random.key(3))
  hugging_face.write(folder, config, params)
  for name, content in hugging_face_tokenizer.files(tokenizer).items():
    (folder / name).write_bytes(content)
  return config, params
