"""An auxiliary network over SmolLM2-135M, a real pretrained model: keywords.

  export CTRL_JAX_DATA=/path/to/data
  export CTRL_JAX_MODEL=/path/to/SmolLM2-135M-Instruct.Q4_1.gguf
  python -m ctrl_jax.keywords --output=data/keywords \
      --within=configs/auxiliary_base.py \
      --triples='$CTRL_JAX_DATA/keywords/marker_sentences.jsonl.gz'
  python -m ctrl_jax.prepare --config=configs/auxiliary_smollm2.py
  python -m ctrl_jax.train --config=configs/auxiliary_smollm2.py \
      --workdir=runs/smollm2_keyword
  python -m ctrl_jax.sample --model=runs/smollm2_keyword --prompt="It is" \
      --attribute=nevertheless --temperature=1 --penalty=1

README says where the model comes from. Some 10,000 of the triples, whose frozen
states are computed once (runs/smollm2_states, 2.2 GB) and read in every epoch.
"""

from configs import auxiliary, auxiliary_keyword


def get_config():
  """Returns the configuration; reads the sizes of $CTRL_JAX_MODEL."""
  c = auxiliary.get_config()
  c.data.folder = "data/smollm2_keyword"
  c.data.sources = tuple(
      # It has no control codes.
      {**source, "code": "",
       "path": [f"data/keywords/{source['split']}.jsonl.gz"]}
      for source in c.data.sources
  )
  c.data.train_share = 0.7
  c.data.sequence_length = 48
  c.data.attribute_length = auxiliary_keyword.ATTRIBUTE_LENGTH
  c.auxiliary.attribute_length = c.data.attribute_length
  c.train.frozen_states = "runs/smollm2_states"
  c.train.steps = 1500
  c.train.eval_every = 250
  c.train.eval_sequences = 256
  c.train.keep_checkpoints = 1
  return c
