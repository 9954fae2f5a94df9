"""The Transformer CVAE at its paper's size, over GPT-2, on WritingPrompts.

  export CTRL_JAX_MODEL=gpt2      # a folder, or a name on the hub
  export CTRL_JAX_DATA=/path/to/writingPrompts
  python -m ctrl_jax.prepare --config=configs/cvae_gpt2.py
  python -m ctrl_jax.train --config=configs/cvae_gpt2.py --workdir=runs/cvae

12 layers, 6 of them in the encoder, d = z = 768, the pretrained weights frozen
for 10,000 steps; 169,331,712 parameters and 589,824 for input injection, or
21,252,096 for pseudo self-attention. It has not been run: here is what the
paper says (section "Implementation Details") and, where that is silent, what
the authors' train_dist.py does. Differences:

  learning rate     no decay
  KL                the ELBO's scale (cvae.kl_scale="original" is theirs)
  loss              covers the story alone, as the paper's equation 2 does and
                    their code does not
  separator         a line end between prompt and story, where theirs is
                    <|endoftext|>: the tokenizer makes no special token of a
                    template's text. A story ends with it here, too.
  first token       the prompt's; theirs begin with <|endoftext|> in training,
                    and without it, positions shifted by one, in generation
"""

from ctrl_jax import config

_SPLITS = {"train": "train", "validation": "valid", "test": "test"}


def get_config():
  c = config.default()
  c.data.folder = "data/cvae_gpt2"
  c.data.sources = tuple(
      config.source(
          "writing_prompts", "", path=f"$CTRL_JAX_DATA/{file}.wp_source",
          template="{prompt}\n", target="{story}", split=split,
      )
      for split, file in _SPLITS.items()
  )
  c.data.truncate = True
  c.data.sequence_length = 1024
  c.tokenizer.path = "$CTRL_JAX_MODEL"
  c.tokenizer.vocab_size = 50257

  m = c.model
  m.d_model, m.d_ff, m.num_layers, m.num_heads = 768, 3072, 12, 12
  m.max_length = 1024
  m.positions, m.activation, m.layer_norm_epsilon = "learned", "gelu_tanh", 1e-5
  m.scale_embedding = m.head_bias = False
  m.embedding_init = 0.02
  m.remat = "dots"

  c.task.name = "cvae"
  c.cvae.num_layers = 6
  c.cvae.latent_size = 768
  c.cvae.pooling = "gelu"
  c.cvae.freeze_steps = 10_000
  c.cvae.beta_period = 101_640

  c.optimizer.name = "adam"
  c.optimizer.learning_rate = 5e-5
  c.optimizer.warmup_steps = 10_000
  c.optimizer.clip_norm = 5.0
  c.train.init_from = "$CTRL_JAX_MODEL"
  c.train.steps = 203_280
  c.train.batch_size = 8
  c.train.loss_chunk = 4096
  c.train.eval_every = 5000
  c.train.checkpoint_every = 5000
  c.train.sample_tokens = 0
  return c
