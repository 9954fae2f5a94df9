"""How well a VAE's means tell labels apart, beside vectors of other makers."""

from typing import Any

from ctrl_jax.data.manifest import Manifest
from ctrl_jax.evaluation import (
    baseline,
    held_out,
    intervals,
    latent,
    probes,
    text_vectors,
)
from ctrl_jax.evaluation.held_out import Texts
from ctrl_jax.evaluation.latent import Encoded


def measure(
    model: Any,
    base: Any,
    data: Manifest,
    label: str,
    *,
    train_texts: int,
    test_texts: int,
    seed: int,
) -> tuple[dict[str, Any], Encoded, tuple[str, ...]]:
  """Probes labels that the encoder does not read.

  Args:
    model: a `LanguageModel` with a latent.
    base: the one it began with, whose mean states are probed, too.
    data: what it was trained on.
    label: template of a text's label, `{topic}`.
    train_texts: of the training split, to learn labels from; 0 for all.
    test_texts: of the test split; 0 for all.
    seed: of samples and decompositions.

  Returns:
    By vectors (latent, base_states, lsa), see `probes.measure`; and tf_idf,
    the accuracy of logistic regression on words; what was encoded of the test
    texts, and their labels.
  """
  sources = held_out.sources_of(data)
  train, test = (
      held_out.of_sources(
          sources, data, model.tokenizer, split, label=label, max_texts=count
      )
      for split, count in (("train", train_texts), ("test", test_texts))
  )
  task, params = latent.of_model(model)
  encoded = [
      latent.encode(task, params, held_out.batches(texts, 16), seed)
      for texts in (train, test)
  ]
  # What the encoder sees of a text: its row.
  words = [_texts(texts, model.tokenizer) for texts in (train, test)]
  size = model.cvae.config.latent_size
  vectors = dict(
      latent=[e.mean for e in encoded],
      base_states=[text_vectors.mean_states(base, t) for t in (train, test)],
      lsa=text_vectors.lsa(*words, size, seed),
  )
  found = {
      name: probes.measure(a, train.labels, b, test.labels)
      for name, (a, b) in vectors.items()
  }
  judge = baseline.Baseline(words[0], train.labels)
  right = judge.hits(words[1], test.labels)
  found["tf_idf"] = intervals.wilson(sum(right), len(right))._asdict()
  return found, encoded[1], test.labels


def _texts(texts: Texts, tokenizer: Any) -> list[str]:
  end = tokenizer.end_id
  return [
      tokenizer.decode([i for i in ids.tolist() if i != end])
      for ids in texts.targets()
  ]
