"""SLOR: fluency by a language model, freed of length and of rare words.

Kann, Rothe and Filippova 2018 (arXiv 1809.08731):

  SLOR(S) = (ln p_M(S) - ln p_u(S)) / |S|

p_M is a language model, p_u the product of the unigram probabilities of S's
tokens in that model's training data, |S| their number. Tokens are those of the
scoring model (the paper's "WPSLOR").
"""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ctrl_jax import errors
from ctrl_jax.evaluation import intervals
from ctrl_jax.evaluation.unigram import Unigram
from ctrl_jax.training import checksum

OVER = ("sample", "continuation")


class Scores(NamedTuple):
  """What SLOR is made of, a sample each.

  Attributes:
    log_prob: ln p_M, float64 [N].
    unigram_log_prob: ln p_u of the same tokens, float64 [N].
    num_tokens: |S|, int64 [N]; 0 where there is nothing to score.
  """

  log_prob: np.ndarray
  unigram_log_prob: np.ndarray
  num_tokens: np.ndarray

  @property
  def slor(self) -> np.ndarray:
    """SLOR of the samples that have a token, float64 [at most N]."""
    some = self.num_tokens > 0
    difference = self.log_prob[some] - self.unigram_log_prob[some]
    return difference / self.num_tokens[some]


def check_scorer(scorer: Any, under_test: Sequence[Any]) -> None:
  """Checks that the scorer is no part of what it judges.

  Args:
    scorer: a `LanguageModel`.
    under_test: `LanguageModel`s or parameter trees.

  Raises:
    errors.UserError: all parameters of the scorer are among those of a model
      under test, be it that model or the frozen base inside it.
  """
  own = set(checksum.tree_checksums(scorer.params).values())
  for i, model in enumerate(under_test):
    params = getattr(model, "params", model)
    if own <= set(checksum.tree_checksums(params).values()):
      raise errors.UserError(
          f"The scorer is the model under test (number {i + 1}), or its base:"
          " it would praise its own text. Train another one, on other"
          " documents."
      )


def score(
    scorer: Any,
    unigram: Unigram,
    texts: Sequence[str],
    prefixes: Sequence[str] | None = None,
    *,
    code: str | None = None,
    over: str = "sample",
    with_end: bool = False,
    progress: str = "",
) -> Scores:
  """Scores samples.

  Args:
    scorer: a `LanguageModel`.
    unigram: of the scorer's training data.
    texts: continuations, or whole samples without `prefixes`.
    prefixes: what each text continues.
    code: a control code of the scorer, read in front of every sample and not
      counted. Without one nothing predicts a sample's first token: it counts in
      neither probability nor in the length.
    over: S is the "sample", prefix and text, as the paper scores whole
      sentences; or the "continuation" given the prefix: ln p_M then is that of
      the text after the prefix.
    with_end: whether S ends with the symbol that ends documents, in both
      probabilities. Samples that were cut at a number of tokens have no end,
      hence the default.
    progress: what a progress bar is called; "" for none.

  Raises:
    errors.UserError: a unigram model of another tokenizer, an unknown `over`,
      as many prefixes as not texts, or `with_end` without such a symbol.
  """
  tokenizer = scorer.tokenizer
  _check(tokenizer, unigram, texts, prefixes, over, with_end)
  code_ids = [] if code is None else tokenizer.code_ids(code)
  end = [tokenizer.end_id] if with_end else []
  pairs = []
  for prefix, text in zip(prefixes or itertools.repeat(""), texts):
    ids = tokenizer.encode(prefix + text)
    size = 0
    if over == "continuation":
      size = _common(ids, tokenizer.encode(prefix))
    pairs.append((code_ids + ids[:size], ids[size:] + end))
  found = scorer.score_ids(pairs, progress=progress)
  scored = [ids[0 if context else 1 :] for context, ids in pairs]
  assert [s.num_tokens for s in found] == list(map(len, scored))
  return Scores(
      np.array([s.log_prob for s in found]),
      np.array([unigram.log_prob(ids) for ids in scored]),
      np.array([s.num_tokens for s in found], np.int64),
  )


def _check(tokenizer, unigram, texts, prefixes, over, with_end) -> None:
  if over not in OVER:
    raise errors.UserError(f"over={over!r}. {errors.nearest(over, OVER)}")
  if unigram.tokenizer_hash != tokenizer.hash:
    raise errors.UserError(
        "The unigram probabilities are of another tokenizer than the scorer's:"
        " count them on the data set that the scorer was trained on."
    )
  if prefixes is not None and len(prefixes) != len(texts):
    raise errors.UserError(
        f"{len(prefixes)} prefixes for {len(texts)} texts: give one a text."
    )
  if over == "continuation" and prefixes is None:
    raise errors.UserError("over='continuation' needs the prefixes.")
  if with_end and tokenizer.end_id is None:
    raise errors.UserError(
        "with_end: the scorer's tokenizer has no symbol for the end of a"
        " document."
    )


def _common(a: Sequence[int], b: Sequence[int]) -> int:
  """Returns how many tokens at the start are alike.

  A token may reach over the end of the prefix: it belongs to the text.
  """
  for i, (x, y) in enumerate(zip(a, b)):
    if x != y:
      return i
  return min(len(a), len(b))


def measure(
    scorer: Any,
    unigram: Unigram,
    texts: Sequence[str],
    prefixes: Sequence[str] | None = None,
    *,
    under_test: Sequence[Any],
    **options,
) -> dict[str, Any]:
  """Returns the mean SLOR of samples.

  Args:
    scorer: see `score`.
    unigram: see `score`.
    texts: see `score`.
    prefixes: see `score`.
    under_test: the models that made the samples, see `check_scorer`; empty
      for text that no model made.
    **options: `code`, `over`, `with_end` and `progress` of `score`.

  Returns:
    value, low, high: mean over samples with its 95 % bootstrap interval;
    log_prob_per_token, unigram_log_prob_per_token: means over tokens, in nats;
    samples: those counted; empty: those without a token, left out;
    tokens, over, code, with_end, alpha.

  Raises:
    errors.UserError: see `score` and `check_scorer`; no sample has a token.

  Example:

  >>> counted = unigram.count(Manifest.load("data/scorer"))  # doctest: +SKIP
  >>> measure(ctrl_jax.load("runs/scorer"), counted, samples,
  ...         under_test=[model])["value"]  # doctest: +SKIP
  1.93
  """
  check_scorer(scorer, under_test)
  found = score(scorer, unigram, texts, prefixes, **options)
  tokens = int(found.num_tokens.sum())
  if not tokens:
    raise errors.UserError(
        f"None of {len(texts)} samples has a token to score."
    )
  return dict(
      intervals.bootstrap_mean(found.slor)._asdict(),
      log_prob_per_token=float(found.log_prob.sum() / tokens),
      unigram_log_prob_per_token=float(found.unigram_log_prob.sum() / tokens),
      samples=len(found.slor),
      empty=len(texts) - len(found.slor),
      tokens=tokens,
      over=options.get("over", "sample"),
      code=options.get("code"),
      with_end=options.get("with_end", False),
      alpha=unigram.alpha,
  )
