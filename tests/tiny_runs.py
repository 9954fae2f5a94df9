"""A model and a training so small that tests can afford them."""


def shrink(c, length, **train):
  """Makes a configuration tiny.

  Args:
    c: to change.
    length: of the sequences and of the model's window.
    **train: fields of `train` that differ from a few steps of 8 sequences.
  """
  c.data.sequence_length = length
  c.data.workers = 1
  c.model.update(
      dict(d_model=16, d_ff=32, num_layers=2, num_heads=2, max_length=length)
  )
  c.train.update(
      dict(batch_size=8, log_every=1, eval_sequences=8, sample_tokens=0) | train
  )
