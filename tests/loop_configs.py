"""Configurations of short runs, for tests of training."""


def changed(config, **train_fields):
  """Returns a copy with other fields of `train`."""
  copy = config.copy_and_resolve_references()
  with copy.unlocked():
    copy.train.update(train_fields)
  return copy
