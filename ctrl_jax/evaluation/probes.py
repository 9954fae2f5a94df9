"""How well labels can be read off latents: k nearest, logistic regression."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ctrl_jax import errors
from ctrl_jax.evaluation import intervals


def knn_accuracy(
    train: np.ndarray,
    train_labels: Sequence[Any],
    test: np.ndarray,
    test_labels: Sequence[Any],
    k: int = 10,
) -> float:
  """Returns how often the label of most of the k nearest is the right one.

  Args:
    train: [N, Z], latents whose labels are known.
    train_labels: N.
    test: [M, Z].
    test_labels: M.
    k: neighbours, by Euclidean distance; at most N.

  Raises:
    errors.UserError: fewer latents than neighbours.
  """
  from sklearn import neighbors

  if k > len(train):
    raise errors.UserError(
        f"{k} neighbours among {len(train)} latents: give more, or a smaller k."
    )
  classifier = neighbors.KNeighborsClassifier(k)
  return float(classifier.fit(train, train_labels).score(test, test_labels))


def linear_probe_accuracy(
    train: np.ndarray,
    train_labels: Sequence[Any],
    test: np.ndarray,
    test_labels: Sequence[Any],
) -> float:
  """Returns how often logistic regression on scaled latents is right.

  Args:
    train: [N, Z], latents whose labels are known.
    train_labels: N.
    test: [M, Z].
    test_labels: M.
  """
  from sklearn import linear_model, pipeline, preprocessing

  classifier = pipeline.make_pipeline(
      preprocessing.StandardScaler(),
      linear_model.LogisticRegression(max_iter=2000),
  )
  return float(classifier.fit(train, train_labels).score(test, test_labels))


def measure(
    train: np.ndarray,
    train_labels: Sequence[Any],
    test: np.ndarray,
    test_labels: Sequence[Any],
    k: int = 10,
) -> dict[str, Any]:
  """Returns both accuracies with 95 % intervals, and that of the most frequent.

  Args:
    train: see `knn_accuracy`, like the others.
    train_labels: N.
    test: [M, Z].
    test_labels: M.
    k: neighbours.

  Raises:
    errors.UserError: fewer latents than neighbours, or a single label.
  """
  labels = list(train_labels)
  if len(set(labels)) < 2:
    raise errors.UserError(
        f"All training texts have the label {labels[0]!r}: there is nothing to"
        " tell apart."
    )
  most = max(sorted(set(labels)), key=labels.count)
  count = len(test_labels)
  share = lambda accuracy: intervals.wilson(
      round(accuracy * count), count
  )._asdict()
  of = (train, train_labels, test, test_labels)
  return dict(
      train=len(labels),
      test=count,
      knn=share(knn_accuracy(*of, k)),
      linear=share(linear_probe_accuracy(*of)),
      most_frequent=share(sum(x == most for x in test_labels) / count),
  )
