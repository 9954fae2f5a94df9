import math

import numpy as np
import pytest

from ctrl_jax.evaluation import latent_summary
from ctrl_jax.evaluation.latent import Encoded, Likelihoods

# Two samples (rows) of three texts.
NLL = np.array([[2.0, 4.0, 6.0], [4.0, 4.0, 8.0]])
ASKED = Likelihoods(
    tokens=np.array([1.0, 2.0, 3.0]), kl=np.array([1.0, 2.0, 0.0]), nll=NLL,
    log_prior=np.zeros((2, 3)), log_posterior=np.full((2, 3), 1.0),
    prior_nll=NLL + 2, prior_log_prior=np.full((2, 3), -1.0),
    prior_log_posterior=np.full((2, 3), -2.0), other_nll=NLL[0] + 3,
    zero_nll=NLL[0] + 1,
)


def test_bounds_by_hand():
  found = latent_summary.bounds_of(ASKED, np.array([1.0, 1.0, 2.0]))
  assert (found["tokens"], found["words"], found["samples"]) == (6, 4, 2)
  assert found["reconstruction"]["value"] == 14 / 3
  assert found["negative_elbo"]["value"] == 17 / 3
  perplexity = {k: v["value"] for k, v in found["perplexity"].items()}
  # log(1/2 (e^-2 + e^-4)), ...; the weights of prior and posterior are e^-1.
  of = lambda pairs: sum(
      -math.log((math.exp(-a) + math.exp(-b)) / 2) for a, b in pairs
  )
  pairs = [(2, 4), (4, 4), (6, 8)]
  np.testing.assert_allclose(perplexity["elbo"], math.exp(17 / 6))
  np.testing.assert_allclose(
      perplexity["importance_weighted"], math.exp((of(pairs) + 3) / 6)
  )
  np.testing.assert_allclose(
      perplexity["prior_samples"], math.exp((of(pairs) + 6) / 6)
  )
  # Weights of both against the mean of both densities.
  own, prior = 2 / (1 + math.e), 2 / (1 + math.exp(-1))
  balanced = [
      -math.log(sum(
          own * math.exp(-x) + prior * math.exp(-x - 2) for x in pair
      ) / 4)
      for pair in pairs
  ]
  np.testing.assert_allclose(
      perplexity["balanced"], math.exp(sum(balanced) / 6)
  )
  np.testing.assert_allclose(
      perplexity["one_prior_sample"], math.exp(18 / 6)
  )
  np.testing.assert_allclose(
      found["word_perplexity"]["elbo"]["value"], math.exp(17 / 4)
  )
  cost = {k: v["value"] for k, v in found["ablation"].items()}
  np.testing.assert_allclose(
      [cost["prior_sample"], cost["another"], cost["zeros"]], [2, 7 / 3, 1 / 3]
  )
  np.testing.assert_allclose(
      math.exp(sum(found["text_nll"]) / 6),
      perplexity["balanced"], rtol=1e-4,
  )


def test_information_and_the_table():
  rng = np.random.default_rng(0)
  mean = rng.normal(size=(20, 3)) * [5, 5, 0]
  small = np.full((20, 3), -4.0)
  encoded = Encoded(
      mean, small, 0 * mean, small, np.tile([2.0, 1.0, 0.0], (20, 1)), mean,
      0 * mean,
  )
  found = latent_summary.information_of(encoded, conditional=True)
  assert found["kl"] == dict(value=3, low=3, high=3)
  assert found["kl_by_dimension"] == [2, 1, 0]
  assert found["active_units"]["value"] == 2
  assert found["mutual_information"]["value"] > 2.5
  # One prior for all: prompts say nothing.
  assert found["prior_mutual_information"]["value"] == pytest.approx(0)
  text = latent_summary.table(dict(
      information=found,
      bounds=latent_summary.bounds_of(ASKED, np.ones(3)),
      labels=dict(prior=dict.fromkeys(
          ("knn", "linear", "most_frequent"), dict(value=0.5, low=0.4, high=0.6)
      )),
  ))
  assert "active units of 3" in text and "at most 3.00" in text
  assert "10 nearest" in text and "0.5 [0.4, 0.6]" in text


def test_a_ratio_of_perplexities_is_of_pairs():
  tokens = np.array([1.0, 3.0])
  found = latent_summary.perplexity_ratio([5, 9], [4, 6], tokens)
  assert found.value == pytest.approx(math.exp(4 / 4))
  # Each text's ratio is e: how much texts differ does not matter.
  assert found.low == pytest.approx(math.e) == pytest.approx(found.high)


def test_a_model_gone_wild_has_a_finite_perplexity():
  found = latent_summary.perplexity(np.full(3, 1e6), np.ones(3))
  assert math.isfinite(found.high)
