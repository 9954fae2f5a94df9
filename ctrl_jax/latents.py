"""From texts to latents, and from what a call says to latents.

Prompts come with their separator, as the template of the training data wrote
them ("{prompt}\\n" there is "A prompt.\\n" here). Z latent.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ctrl_jax import errors
from ctrl_jax.decoding.continuation import encode_prompt
from ctrl_jax.models import cvae, gaussian
from ctrl_jax.models.cvae_config import CVAEConfig
from ctrl_jax.models.gaussian import Gaussian

NAMES = ("prior", "mean")
# Texts encoded together, and what their lengths are rounded up to.
_BATCH, _BUCKET = 16, 16
# Keeps these random numbers apart from those that choose tokens.
_STREAM = 2**32 - 1

Item = str | tuple[str, str]


def encode(
    config: CVAEConfig,
    params: Any,
    base_params: Any,
    tokenizer: Any,
    items: Sequence[Item],
    codes: Sequence[str | None],
    window: int,
) -> Gaussian:
  """Returns what the encoder says of texts, NumPy float32 [N, Z] each.

  Args:
    config: the CVAE's.
    params: the CVAE's.
    base_params: the decoder's.
    tokenizer: of the decoder.
    items: a string is a prompt, whose prior p(z|x) it is; a pair (prompt, text)
      has the posterior q(z|x, y). With a standard prior a string is a text
      without prompt, and has a posterior.
    codes: a control code (or None) for each.
    window: tokens that the decoder was trained to read at a time. A record of
      training holds one more, the last target, and the encoder read that, too,
      where the decoder has a position for it.

  Raises:
    errors.UserError: a prompt that is empty or longer than those of training,
      an empty text, an unknown code, or something that is no text. (Of a long
      pair the end is left out, as in training.)
  """
  limit = min(window + 1, config.base.max_length)
  found = {"prior": [], "posterior": []}
  for place, (item, code) in enumerate(zip(items, codes, strict=True)):
    prompt, text = _parts(item, config.prior == "standard")
    if text is not None and not text.strip():
      raise errors.UserError(
          f"The text behind the prompt {prompt[:40]!r} is empty, which training"
          " leaves out: give one, or the prompt alone for its prior."
          if prompt else "A text to encode is empty: give one."
      )
    if prompt or text is None:
      ids, _ = encode_prompt(tokenizer, prompt, code)
    else:
      ids = _code_ids(tokenizer, code)
    if len(ids) > window:
      raise errors.UserError(
          f"The prompt {prompt[:40]!r} has {len(ids)} tokens, its control code"
          f" included, more than the {window} that the encoder was trained to"
          " read (data.sequence_length): shorten it."
      )
    if text is not None:
      end = [] if tokenizer.end_id is None else [tokenizer.end_id]
      ids = [*ids, *tokenizer.encode(text), *end][:limit]
    name = "prior" if text is None else "posterior"
    found[name].append((place, ids))
  mean = np.zeros((len(items), config.latent_size), np.float32)
  result = Gaussian(mean, mean.copy())
  for name, rows in found.items():
    for start in range(0, len(rows), _BATCH):
      batch = rows[start:start + _BATCH]
      places = [place for place, _ in batch]
      part = encode_ids(
          config, params, base_params, name, [ids for _, ids in batch]
      )
      result.mean[places], result.log_variance[places] = part
  return result


def _code_ids(tokenizer, code):
  return list(tokenizer.begin_ids if code is None else tokenizer.code_ids(code))


def _parts(item: Any, is_text: bool) -> tuple[str, str | None]:
  if isinstance(item, str):
    return ("", item) if is_text else (item, None)
  if isinstance(item, tuple | list) and len(item) == 2 and all(
      isinstance(part, str) for part in item
  ):
    return item[0], item[1]
  raise errors.UserError(
      f"{item!r} cannot be encoded: give a text, or a pair (prompt, text)."
  )


def encode_ids(
    config: CVAEConfig,
    params: Any,
    base_params: Any,
    name: str,
    sequences: Sequence[Sequence[int]],
) -> Gaussian:
  """`encode` for token ids, all of which have the heads `name`."""
  longest = max(map(len, sequences))
  width = min(-(-longest // _BUCKET) * _BUCKET, config.base.max_length)
  ids = np.zeros((len(sequences), width), np.int32)
  for row, sequence in zip(ids, sequences):
    row[: len(sequence)] = sequence
  lengths = np.array(list(map(len, sequences)), np.int32)
  found = _encode(config, params, base_params, name, ids, lengths)
  return Gaussian(*map(np.asarray, found))


@functools.partial(jax.jit, static_argnums=(0, 3))
def _encode(config, params, base_params, name, ids, lengths):
  return cvae.encode(config, params, base_params, name, ids, lengths)


def of_call(
    latent: Any,
    shape: tuple[int, int, int],
    seed: int,
    prior: Any,
    encode_items: Any,
) -> np.ndarray:
  """Returns latents, float32 [prompts, samples, Z].

  Args:
    latent: "prior", a sample for every result; "mean", the prior's mean; an
      array [Z] or [prompts, Z]; or a list of texts or pairs, one for all
      prompts or one each, whose means are taken.
    shape: of the result.
    seed: of the samples, which depend on it and on the result's place alone.
    prior: a function without arguments: the prompts' `Gaussian` [prompts, Z].
    encode_items: a function from items to their `Gaussian`.

  Raises:
    errors.UserError: something else, or an array of another shape.
  """
  num_prompts, num_samples, size = shape
  if isinstance(latent, str):
    if latent not in NAMES:
      raise errors.UserError(
          f"latent={latent!r} is neither 'prior' nor 'mean'. Texts to encode"
          " stand in a list: latent=['A text.']."
      )
    given = prior()
    if latent == "prior":
      return _sample(given, num_samples, seed)
    rows = given.mean
  elif _is_texts(latent):
    rows = encode_items(list(latent)).mean
    if len(rows) == 1:
      rows = np.repeat(rows, num_prompts, 0)
  else:
    rows = _array(latent, num_prompts, size)
  if len(rows) != num_prompts:
    raise errors.UserError(
        f"{len(rows)} latents for {num_prompts} prompts: give one for all or"
        " one a prompt."
    )
  return np.repeat(rows[:, None], num_samples, 1).astype(np.float32)


def _is_texts(latent: Any) -> bool:
  is_text = lambda x: isinstance(x, str) or (
      isinstance(x, tuple | list) and any(isinstance(y, str) for y in x)
  )
  return isinstance(latent, list | tuple) and bool(latent) and all(
      map(is_text, latent)
  )


def _array(latent: Any, num_prompts: int, size: int) -> np.ndarray:
  try:
    rows = np.asarray(latent, np.float32)
  except (TypeError, ValueError) as e:
    raise errors.UserError(
        "latent must be 'prior', 'mean', an array of numbers or a list of"
        f" texts; got {type(latent).__name__}."
    ) from e
  if rows.ndim == 1:
    rows = np.repeat(rows[None], num_prompts, 0)
  if rows.ndim != 2 or rows.shape[1] != size:
    raise errors.UserError(
        f"Latents of shape {list(np.shape(latent))}: this model's are"
        f" [{num_prompts}, {size}], one a prompt."
    )
  if not np.isfinite(rows).all():
    raise errors.UserError("A latent has values that are not finite.")
  return rows


def _sample(given: Gaussian, num_samples: int, seed: int) -> np.ndarray:
  base = jax.random.fold_in(jax.random.key(np.uint32(seed)), _STREAM)

  def one(place, sample):
    key = jax.random.fold_in(jax.random.fold_in(base, place), sample)
    row = Gaussian(*(jnp.asarray(x)[place] for x in given))
    return gaussian.sample(row, key)

  samples = jnp.arange(num_samples)
  over_samples = lambda place: jax.vmap(lambda s: one(place, s))(samples)
  return np.asarray(jax.vmap(over_samples)(jnp.arange(len(given.mean))))


def interpolate(
    a: np.ndarray, b: np.ndarray, steps: int, spherical: bool = False
) -> np.ndarray:
  """Returns latents from `a` to `b`, both included, float32 [steps, Z].

  Args:
    a: [Z].
    b: [Z].
    steps: at least 2.
    spherical: along the arc between their directions, which keeps their length,
      instead of along the line.
  """
  a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
  t = np.linspace(0, 1, steps)[:, None]
  path = (1 - t) * a + t * b
  if spherical:
    norms = np.linalg.norm(a), np.linalg.norm(b)
    u, v = a / norms[0], b / norms[1]
    angle = np.arccos(np.clip(u @ v, -1, 1))
    if np.sin(angle) > 1e-6:
      arc = np.sin((1 - t) * angle) * u + np.sin(t * angle) * v
      path = arc / np.sin(angle) * ((1 - t) * norms[0] + t * norms[1])
  return path.astype(np.float32)


def analogy(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
  """Returns b - a + c: what is to c as b is to a."""
  return np.asarray(b) - np.asarray(a) + np.asarray(c)
