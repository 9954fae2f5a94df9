"""The CVAE's control experiment p(y | x1, z2), scored by position in the text.

The paper shows examples of stories that begin with one prompt and are decoded
under another's latent (its Tables 7 and 11), and says that the second takes
effect along the story. Here: how like each third of a sample is to the true
story of its prompt and to that of its latent, beside samples under the own
latent, p(y | x1, z1). Likeness is the cosine of TF-IDF vectors of words.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ctrl_jax import errors
from ctrl_jax.evaluation import diversity, intervals

Pair = tuple[str, str]
SOURCES = ("prior", "posterior")


def sample(
    model: Any,
    pairs: Sequence[Pair],
    code: str | None,
    *,
    shift: int = 1,
    source: str = "prior",
    **options,
) -> list[str]:
  """Returns a sample of p(y | x_i, z_i+shift) for each pair, around.

  Args:
    model: a `LanguageModel` with a latent.
    pairs: (prompt with its separator, true text) of held-out texts.
    code: the control code of all.
    shift: 1 for the next pair's latent, 0 for the own.
    source: "prior", the mean of p(z | prompt), as in the paper; "posterior",
      that of q(z | prompt, text).
    **options: of `LanguageModel.generate`.

  Raises:
    errors.UserError: an unknown source.
  """
  if source not in SOURCES:
    raise errors.UserError(
        f"source={source!r} is unknown. {errors.nearest(source, SOURCES)}"
    )
  items = [pair if source == "posterior" else pair[0] for pair in pairs]
  means, _ = model.encode(items, code)
  found = model.generate(
      [prompt for prompt, _ in pairs], code,
      latent=np.roll(means, -shift, axis=0), **options,
  )
  return [samples[0].text for samples in found]


def likeness(
    samples: Sequence[str],
    texts: Sequence[str],
    corpus: Sequence[str],
    parts: int = 3,
) -> np.ndarray:
  """Returns how like each part of a sample is to a text, float64 [N, parts].

  Args:
    samples: N; cut into parts of equally many words.
    texts: one a sample.
    corpus: texts that say how rare words are.
    parts: of each sample; an empty one is like nothing, 0.

  Raises:
    errors.UserError: not as many texts as samples, or no words.
  """
  from sklearn.feature_extraction import text as features

  if len(samples) != len(texts) or not samples:
    raise errors.UserError(
        f"{len(samples)} samples and {len(texts)} texts: give one a sample."
    )
  vectors = features.TfidfVectorizer(sublinear_tf=True, stop_words="english")
  try:
    vectors.fit(corpus)
  except ValueError as e:
    raise errors.UserError(
        "The corpus has no words but the most common: give more text."
    ) from e
  of_texts = vectors.transform(texts)
  cut = [
      np.array_split(np.array(diversity.words(text), str), parts)
      for text in samples
  ]
  return np.stack(
      [
          np.asarray(
              vectors.transform([" ".join(words[i]) for words in cut])
              .multiply(of_texts).sum(1)
          )[:, 0]
          for i in range(parts)
      ],
      axis=1,
  )


def measure(
    controlled: Sequence[str],
    own: Sequence[str],
    texts: Sequence[str],
    corpus: Sequence[str],
    *,
    shift: int = 1,
    parts: int = 3,
) -> dict[str, Any]:
  """Returns how like samples are to both stories, by position.

  Args:
    controlled: from `sample` with `shift`.
    own: from `sample` with shift 0.
    texts: the true ones, in the order of the pairs.
    corpus: see `likeness`.
    shift: see `sample`.
    parts: of each sample.

  Returns:
    controlled and own: to_first, to_second, each a list of parts with value,
    low, high (95 %); effect, of the parts: how much more like x2's text and
    less like x1's the sample is than under its own latent,
    (second - first) - (second - first of own), paired; samples.
  """
  second = [*texts[shift:], *texts[:shift]]
  found = {
      name: dict(
          to_first=likeness(samples, texts, corpus, parts),
          to_second=likeness(samples, second, corpus, parts),
      )
      for name, samples in (("controlled", controlled), ("own", own))
  }
  leaning = {k: v["to_second"] - v["to_first"] for k, v in found.items()}
  by_part = lambda values: [
      intervals.bootstrap_mean(column)._asdict() for column in values.T
  ]
  return {
      **{
          name: {k: by_part(values) for k, values in of.items()}
          for name, of in found.items()
      },
      "effect": by_part(leaning["controlled"] - leaning["own"]),
      "samples": len(controlled),
  }
