"""The numbers of a latent's table, from what a CVAE said of texts.

Everything is in nats and has a 95 % interval over texts (`intervals`).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ctrl_jax.evaluation import bounds, information, intervals
from ctrl_jax.evaluation.intervals import Interval
from ctrl_jax.evaluation.latent import Encoded, Likelihoods


def information_of(encoded: Encoded, conditional: bool) -> dict[str, Any]:
  """Returns how much the latents know.

  Args:
    encoded: see `latent.encode`.
    conditional: whether the prior reads prompts, see
      `information.active_units`.

  Returns:
    sequences; kl, nats a sequence; kl_by_dimension, of the latent_size
    dimensions; mutual_information with its bound log N, which nothing can
    exceed, and prior_mutual_information, how much of it the prompts alone
    give; active_units.
  """
  kl = encoded.kl.astype(np.float64)
  found = information.mutual_information(
      encoded.mean, encoded.log_variance, encoded.z
  )
  of_prior = information.mutual_information(
      encoded.prior_mean, encoded.prior_log_variance, encoded.prior_z
  )
  prior_mean = encoded.prior_mean if conditional else None
  return dict(
      sequences=len(kl),
      kl=intervals.bootstrap_mean(kl.sum(1))._asdict(),
      kl_by_dimension=kl.mean(0).tolist(),
      mutual_information=found.nats._asdict(),
      mutual_information_bound=found.bound,
      prior_mutual_information=of_prior.nats._asdict(),
      active_units=information.active_units(
          encoded.mean, prior_mean
      )._asdict(),
      latent_size=kl.shape[1],
  )


def bounds_of(asked: Likelihoods, words: np.ndarray) -> dict[str, Any]:
  """Returns bounds of the perplexity, and what another z costs.

  Args:
    asked: see `latent.ask`.
    words: [N], of the same targets.

  Returns:
    sequences, tokens, words, samples; reconstruction and negative_elbo, nats a
    sequence; perplexity and word_perplexity, by bound; and ablation, nats a
    sequence that another z costs against the posterior's own: a prior_sample,
    that of another text, zeros; and text_nll, the balanced bound of each text,
    of twice as many samples.
  """
  nll = asked.nll.astype(np.float64)
  elbo = bounds.negative_elbo(nll, asked.kl)
  found = dict(
      elbo=elbo,
      importance_weighted=bounds.importance_weighted_nll(
          nll, asked.log_prior, asked.log_posterior
      ),
      balanced=bounds.balanced_nll(
          np.concatenate([nll, asked.prior_nll]),
          np.concatenate([asked.log_prior, asked.prior_log_prior]),
          np.concatenate([asked.log_posterior, asked.prior_log_posterior]),
      ),
      prior_samples=bounds.prior_sample_nll(asked.prior_nll),
      one_prior_sample=bounds.prior_sample_nll(asked.prior_nll[:1]),
  )
  own = nll.mean(0)
  others = dict(
      prior_sample=asked.prior_nll.mean(0), another=asked.other_nll,
      zeros=asked.zero_nll,
  )
  mean = lambda x: intervals.bootstrap_mean(x)._asdict()
  return dict(
      sequences=len(own),
      tokens=int(asked.tokens.sum()),
      words=int(words.sum()),
      samples=len(nll),
      reconstruction=mean(own),
      negative_elbo=mean(elbo),
      perplexity={
          name: perplexity(x, asked.tokens)._asdict()
          for name, x in found.items()
      },
      word_perplexity={
          name: perplexity(x, words)._asdict() for name, x in found.items()
      },
      ablation={name: mean(x - own) for name, x in others.items()},
      text_nll=found["balanced"].round(4).tolist(),
  )


def perplexity(nll: np.ndarray, units: np.ndarray) -> Interval:
  """Returns exp(sum of nll / sum of units) with its interval over texts.

  Args:
    nll: [N], of texts, in nats.
    units: [N], tokens or words of each.
  """
  ratio = intervals.bootstrap_ratio(nll, units)
  # Finite, not an overflow, for a model gone wild.
  return Interval(*(float(np.exp(min(x, 700.0))) for x in ratio))


def perplexity_ratio(
    nll: np.ndarray, other_nll: np.ndarray, units: np.ndarray
) -> Interval:
  """Returns the ratio of two perplexities of the same texts, and its interval.

  Args:
    nll: [N], of texts, in nats.
    other_nll: [N], of the same texts, below the line.
    units: [N], tokens or words of each.
  """
  difference = np.asarray(nll, np.float64) - np.asarray(other_nll, np.float64)
  return perplexity(difference, units)


def table(found: Mapping[str, Any]) -> str:
  """Returns the numbers for the terminal, with their intervals.

  Args:
    found: information and bounds, and labels if there are any.
  """
  know, bound = found["information"], found["bounds"]
  log_n = know["mutual_information_bound"]
  rows = [
      ("perplexity a token, a word", None),
      *(
          (f"  {name.replace('_', ' ')}", value, bound["word_perplexity"][name])
          for name, value in bound["perplexity"].items()
      ),
      ("nats a sequence", None),
      ("  reconstruction", bound["reconstruction"]),
      ("  KL", know["kl"]),
      (f"  mutual information (at most {log_n:.2f})",
       know["mutual_information"]),
      ("  of it, what prompts say", know["prior_mutual_information"]),
      *(
          (f"  {name.replace('_', ' ')} as z costs", value)
          for name, value in bound["ablation"].items()
      ),
      (f"active units of {know['latent_size']}", know["active_units"]),
  ]
  for name, accuracy in found.get("labels", {}).items():
    rows += [
        (f"labels of the {name} means", None),
        ("  10 nearest", accuracy["knn"]),
        ("  linear", accuracy["linear"]),
        ("  most frequent label", accuracy["most_frequent"]),
    ]
  width = max(len(row[0]) for row in rows)
  lines = [
      f"{bound['sequences']} texts, {bound['tokens']} tokens, S ="
      f" {bound['samples']}; {know['sequences']} texts encoded"
  ]
  for name, *values in rows:
    cells = "  ".join(_cell(value) for value in values if value is not None)
    lines.append(f"{name:{width}}  {cells}".rstrip())
  return "\n".join(lines)


def _cell(value: Mapping[str, float]) -> str:
  return f"{value['value']:.4g} [{value['low']:.4g}, {value['high']:.4g}]"
