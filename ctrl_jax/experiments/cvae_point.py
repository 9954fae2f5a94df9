"""One model on stories, measured as the CVAE's Table 3 does, and further."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ctrl_jax.data.manifest import Manifest
from ctrl_jax.evaluation import (
    diversity,
    held_out,
    latent,
    latent_summary,
    likelihood,
    prompt_rank,
    rouge,
    two_prompts,
)
from ctrl_jax.evaluation.held_out import Texts
from ctrl_jax.evaluation.latent import Encoded

# A prompt with its separator, and its true text.
Pair = tuple[str, str]


def has_latent(model: Any) -> bool:
  """Whether a `LanguageModel` has a latent."""
  return model.cvae is not None and model.cvae.config.has_latent


def perplexities(
    model: Any, texts: Texts, num_samples: int, seed: int
) -> dict[str, Any]:
  """Returns perplexity a token and a word; with a latent, all its bounds.

  Args:
    model: a `LanguageModel` of any method.
    texts: held-out ones.
    num_samples: S, of importance weighting, even: half of the posterior, half
      of the prior.
    seed: of the samples.

  Returns:
    perplexity and word_perplexity, with intervals; bound: "exact", or
    "importance-weighted, S=50, half of the prior"; text_nll and text_tokens,
    nats and tokens of each text; and for a latent bounds, see
    `latent_summary.bounds_of`.
  """
  words = held_out.num_words(texts, model.tokenizer)
  tokens = np.array([len(target) for target in texts.targets()])
  if not has_latent(model):
    nll = likelihood.nll(model, texts)
    return dict(
        perplexity=latent_summary.perplexity(nll, tokens)._asdict(),
        word_perplexity=latent_summary.perplexity(nll, words)._asdict(),
        bound="exact",
        text_nll=nll.astype(np.float64).round(4).tolist(),
        text_tokens=tokens.tolist(),
    )
  task, params = latent.of_model(model)
  asked = latent.ask(
      task, params, held_out.batches(texts, 16), num_samples // 2, seed
  )
  bounds = latent_summary.bounds_of(asked, words)
  text_nll = bounds.pop("text_nll")
  return dict(
      perplexity=bounds["perplexity"]["balanced"],
      word_perplexity=bounds["word_perplexity"]["balanced"],
      bound=f"importance-weighted, S={num_samples}, half of the prior",
      bounds=bounds,
      text_nll=text_nll,
      text_tokens=tokens.tolist(),
  )


def encode(model: Any, texts: Texts, seed: int) -> tuple[Encoded, dict]:
  """Returns what the encoder says of texts, and `information_of` that."""
  task, params = latent.of_model(model)
  found = latent.encode(task, params, held_out.batches(texts, 16), seed)
  conditional = task.cvae.prior == "learned"
  return found, latent_summary.information_of(found, conditional)


def samples(
    model: Any,
    pairs: Sequence[Pair],
    code: str | None,
    *,
    attribute: bool,
    **options,
) -> dict[str, Any]:
  """Writes a story a prompt and compares it with the true one.

  A latent is a sample of the prior, as the paper generates. The true story
  counts with as many tokens as a sample has at most.

  Args:
    model: a `LanguageModel` of any method.
    pairs: held-out ones.
    code: the control code of all.
    attribute: whether prompts are the attribute of the model's head, too.
    **options: of `LanguageModel.generate`.

  Returns:
    rouge and diversity, see their modules; examples: the first stories.
  """
  if has_latent(model):
    options["latent"] = "prior"
  if attribute:
    options["attribute"] = [prompt.strip() for prompt, _ in pairs]
  found = model.generate([prompt for prompt, _ in pairs], code, **options)
  texts = [results[0].text for results in found]
  tokenizer, size = model.tokenizer, options["max_new_tokens"]
  references = [
      tokenizer.decode(tokenizer.encode(text)[:size]) for _, text in pairs
  ]
  return dict(
      rouge=rouge.measure(texts, references),
      diversity=diversity.measure(texts),
      examples=[
          dict(prompt=prompt.strip(), text=text)
          for (prompt, _), text in list(zip(pairs, texts))[:10]
      ],
  )


def rank(
    model: Any,
    pairs: Sequence[Pair],
    code: str | None,
    data: Manifest,
    *,
    pool: Sequence[str],
    count: int,
    num_samples: int,
    seed: int,
) -> dict[str, Any]:
  """Returns the true prompt's rank among `count` of a pool's.

  Args:
    model: a `LanguageModel` of any method.
    pairs: the stories.
    code: the control code of all.
    data: what the model was trained on.
    pool: prompts, see `prompt_rank`.
    count: of candidates.
    num_samples: S, of a latent's prior.
    seed: of candidates and samples.
  """
  prompts = [prompt for prompt, _ in pairs]
  rows = prompt_rank.rows(
      model.tokenizer, prompt_rank.candidates(prompts, pool, count, seed),
      [text for _, text in pairs], code, data.sequence_length + 1,
      data.attribute_length,
  )
  # A batch a story.
  nll = likelihood.nll(
      model, rows, batch_size=count, num_samples=num_samples, seed=seed
  )
  return prompt_rank.measure(nll.reshape(len(pairs), count))


def control(
    model: Any, pairs: Sequence[Pair], code: str | None, **options
) -> dict[str, Any]:
  """Returns the control experiment p(y | x1, z2), by z2's source.

  Args:
    model: a `LanguageModel` with a latent.
    pairs: held-out ones.
    code: the control code of all.
    **options: of `LanguageModel.generate`.
  """
  texts = [text for _, text in pairs]
  found = {}
  for source in two_prompts.SOURCES:
    controlled, own = (
        two_prompts.sample(
            model, pairs, code, shift=shift, source=source, **options
        )
        for shift in (1, 0)
    )
    found[source] = two_prompts.measure(controlled, own, texts, texts) | dict(
        examples=[
            dict(first=pairs[i][0].strip(), second=second.strip(), text=text)
            for i, (text, (second, _)) in enumerate(
                zip(controlled[:5], [*pairs[1:], pairs[0]])
            )
        ]
    )
  return found


def measure(
    model: Any,
    data: Manifest,
    settings: Mapping[str, Any],
    *,
    attribute: bool,
    seed: int,
) -> tuple[dict[str, Any], Encoded | None]:
  """Measures everything that a model on stories has.

  Args:
    model: a `LanguageModel` of any method.
    data: what it was trained on.
    settings: code, bound_texts, texts, latents, num_prompts, num_tokens,
      batch_size, rank_stories, rank_prompts, rank_latents, control_pairs: see
      configs/cvae_experiment.py.
    attribute: see `samples`.
    seed: of everything random.

  Returns:
    The numbers, JSON types; and what was encoded, None without a latent.
  """
  s = settings
  texts = held_out.of_records(data, "test", s["bound_texts"])
  found = perplexities(model, texts, s["latents"], seed)
  encoded = None
  if has_latent(model):
    texts = held_out.unseen(data, s["texts"])
    encoded, found["information"] = encode(model, texts, seed)
  pairs = [
      (document.prompt, document.text)
      for _, document in held_out.read(
          held_out.sources_of(data), data, "test", max_texts=s["num_prompts"]
      )
  ]
  options = dict(
      max_new_tokens=s["num_tokens"], temperature=0.9, top_k=100, top_p=0.9,
      penalty=1.0, batch_size=s["batch_size"], seed=seed,
  )
  found |= samples(model, pairs, s["code"], attribute=attribute, **options)
  found["prompt_rank"] = rank(
      model, pairs[: s["rank_stories"]], s["code"], data,
      pool=[prompt for prompt, _ in pairs], count=s["rank_prompts"],
      num_samples=s["rank_latents"], seed=seed,
  )
  if encoded is not None:
    found["control"] = control(
        model, pairs[: s["control_pairs"]], s["code"], **options
    )
  return found, encoded
