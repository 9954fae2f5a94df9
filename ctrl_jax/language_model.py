"""What `ctrl_jax.load` returns: a model with its tokenizer, ready to use."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ctrl_jax import errors, latent_rows, latents, saved_cvae, saved_head
from ctrl_jax.evaluation import attribution
from ctrl_jax.evaluation import score as score_lib
from ctrl_jax.evaluation.score import Score
from ctrl_jax.models import transformer
from ctrl_jax.models.config import TransformerConfig


class LanguageModel:
  """A model, its parameters and its tokenizer.

  Attributes:
    config: sizes and variants, a `TransformerConfig`.
    params: the parameter tree, float32.
    prior: control code -> share of the training tokens, None if not known.
    window: tokens the model was trained to read at a time, control code
      included; longer texts are scored in windows.
    heads: name -> `saved_head.Head`, auxiliaries that `generate` can add; what
      scores texts is the model without them.
    cvae: a `saved_cvae.SavedCVAE`, whose decoder this model is; or None.
  """

  def __init__(
      self,
      config: TransformerConfig,
      params: Any,
      *,
      tokenizer: Any = None,
      tokenizer_folder: pathlib.Path | None = None,
      prior: Mapping[str, float] | None = None,
      codes: Sequence[str] | None = None,
      window: int | None = None,
  ):
    """Puts a model together; `load` does so from a folder.

    Args:
      config: see the class.
      params: see the class.
      tokenizer: a `ctrl_jax.text.Tokenizer`.
      tokenizer_folder: folder or file to load it from when it is first
        needed.
      prior: see the class.
      codes: the control codes; the tokenizer's when None.
      window: see the class; `config.max_length` when None.
    """
    self.config = config
    self.params = jax.tree.map(jnp.asarray, params)
    self.prior = prior
    self.window = min(window or config.max_length, config.max_length)
    self._tokenizer = tokenizer
    self._tokenizer_folder = tokenizer_folder
    self._codes = codes
    self.heads = {}
    self.cvae = None

  @property
  def has_tokenizer(self) -> bool:
    """Whether there is one, or files of one."""
    if self._tokenizer is not None:
      return True
    from ctrl_jax import text

    folder = self._tokenizer_folder
    return folder is not None and text.has_tokenizer(folder)

  @property
  def tokenizer(self) -> Any:
    """The tokenizer, loaded when first asked for.

    Raises:
      UserError: the folder has none, or one of another model.
    """
    if self._tokenizer is None:
      from ctrl_jax import text

      if self._tokenizer_folder is None:
        raise errors.UserError(
            "This model was made without a tokenizer: it takes token ids only."
        )
      tokenizer = text.load_tokenizer(self._tokenizer_folder)
      # Of others' models the table may be larger than the tokenizer (resized
      # for new tokens, or padded); such ids are never generated.
      others = not self._codes and self.prior is None
      if tokenizer.vocab_size > self.config.vocab_size or (
          tokenizer.vocab_size < self.config.vocab_size and not others
      ):
        # fastBPE's file reads well where it was cut at a line's end.
        cut = pathlib.Path(self._tokenizer_folder, "vocab").is_file() and (
            tokenizer.vocab_size < self.config.vocab_size
        )
        raise errors.UserError(
            f"The tokenizer in {str(self._tokenizer_folder)!r} has"
            f" {tokenizer.vocab_size} tokens, the model"
            f" {self.config.vocab_size}: it belongs to another model"
            + (", or its file `vocab` was cut short: copy it again." if cut
               else ".")
        )
      self._tokenizer = tokenizer
    return self._tokenizer

  @property
  def codes(self) -> tuple[str, ...]:
    """The control codes the model was trained with."""
    return tuple(self._codes or self.tokenizer.codes)

  @functools.cached_property
  def generator(self) -> Any:
    """The `ctrl_jax.decoding.Generator` of this model, kept for its caches."""
    from ctrl_jax import decoding

    made = decoding.Generator(self.config, self.params)
    for name, head in self.heads.items():
      made.add_head(name, head.config, head.params)
    if self.cvae is not None:
      made.set_latent(self.cvae.config, self.cvae.params)
    return made

  def add_head(self, name: str, head: saved_head.Head) -> None:
    """Adds an auxiliary that was tuned beside this model.

    Args:
      name: what `generate` calls it.
      head: from `saved_head.read`.

    Raises:
      UserError: it belongs to another model, or the name is taken.
    """
    if name in self.heads:
      raise errors.UserError(
          f"There is a head {name!r} already: give the new one another name."
      )
    head.check(self.config, self.params, f"The head {name!r}")
    # It is computed as this model is, whatever it was trained with.
    config = dataclasses.replace(head.config, base=self.config)
    head = dataclasses.replace(head, config=config)
    self.heads[name] = head
    if "generator" in self.__dict__:
      self.generator.add_head(name, head.config, head.params)

  def set_cvae(
      self, found: saved_cvae.SavedCVAE, *, is_own: bool = False
  ) -> None:
    """Makes latents known: those of a CVAE whose decoder this model is.

    Args:
      found: from `saved_cvae.read`.
      is_own: whether this model is `found.model`.

    Raises:
      UserError: its decoder is another model, or there is one already.
    """
    if self.cvae is not None:
      raise errors.UserError("This model has a CVAE already: load one.")
    if found.model is None:
      found.check(self.config, self.params, "The CVAE")
    elif not is_own:
      raise errors.UserError(
          "This CVAE was trained together with its decoder: load its workdir"
          " itself, not as a head of another model."
      )
    config = dataclasses.replace(found.config, base=self.config)
    params = jax.tree.map(jnp.asarray, found.params)
    model = found.model and found.model._replace(params=None)  # Held here.
    self.cvae = dataclasses.replace(
        found, config=config, params=params, model=model
    )
    if "generator" in self.__dict__:
      self.generator.set_latent(config, params)

  def encode(
      self,
      texts: Any,
      code: str | None | Sequence[str | None] = None,
  ) -> tuple[np.ndarray, np.ndarray]:
    """Returns means and log-variances of latents, float32 [N, Z] each.

    Args:
      texts: one or several. A string is a prompt, with the separator that the
        training's template wrote behind it: p(z | prompt). A pair (prompt,
        text) has q(z | prompt, text). Of a VAE, a string is a text.
      code: one control code for all, or one each.

    Raises:
      UserError: the model has no CVAE; else see `latents.encode`.
    """
    if isinstance(texts, str) or isinstance(texts, tuple):
      texts = [texts]
    self.check_has_latent()
    own = self.cvae
    return tuple(latents.encode(
        own.config, own.params, self.params, self.tokenizer, list(texts),
        _as_codes(code, len(texts)), own.window or self.window,
    ))

  def check_has_latent(self) -> None:
    """Raises a `UserError` for a model without a latent."""
    if self.cvae is None or not self.cvae.config.has_latent:
      raise errors.UserError(
          "This model has no latent: load the workdir of a run with"
          " task.name='cvae' and a prior, or its export."
      )

  def _check_no_latent(self) -> None:
    """Refuses to ask a decoder without the encoder that it was trained with."""
    if self.cvae is not None and self.cvae.trained_along:
      raise errors.UserError(
          "This model's decoder was trained with an encoder, and its"
          " likelihoods without it mean nothing: use python -m"
          " ctrl_jax.evaluate_latent, or in Python"
          " ctrl_jax.evaluation.likelihood."
      )

  def logits(self, ids) -> jax.Array:
    """Returns the logits after each position, float32 [B, T, vocab_size].

    Args:
      ids: token ids, integers [B, T], T at most `config.max_length`. A control
        code's ids stand in front (`tokenizer.code_ids`).

    Raises:
      UserError: another shape or dtype, an id outside the vocabulary, or too
        many positions.
    """
    self._check_no_latent()
    try:
      ids = np.asarray(ids)
    except ValueError as e:
      raise errors.UserError(
          "Token ids must be rows of one length: pad them at the end."
      ) from e
    if ids.ndim != 2 or not ids.size or ids.dtype.kind not in "iu":
      raise errors.UserError(
          "Token ids must be integers of shape [batch, length], neither of them"
          f" 0; got {ids.dtype} {list(ids.shape)}."
      )
    if ids.shape[1] > self.config.max_length:
      raise errors.UserError(
          f"{ids.shape[1]} positions are more than the model's"
          f" {self.config.max_length}: cut the text, or use score()."
      )
    bad = ids[(ids < 0) | (ids >= self.config.vocab_size)]
    if bad.size:
      raise errors.UserError(
          f"Token id {bad[0]} is outside the vocabulary of"
          f" {self.config.vocab_size}."
      )
    return _logits(self.config, self.params, ids.astype(np.int32))

  def score(
      self,
      texts: str | Sequence[str],
      code: str | None | Sequence[str | None] = None,
      *,
      progress: str = "",
  ) -> list[Score]:
    """Returns how likely each text is under its control code.

    A text longer than the window is scored in windows, the code in front of
    each: every token is scored once and, past the first window, with at least
    half a window of text before it.

    Args:
      texts: one text or several.
      code: one control code for all texts, or one a text. None scores without
        a code: then nothing predicts the text's first token, and it is not
        counted (unless the tokenizer begins every text with a token).
      progress: what a progress bar is called; "" for none.

    Returns:
      A `Score` a text: `.log_prob` (sum over its tokens, in nats),
      `.num_tokens` and `.perplexity`. An empty text has 0 tokens.

    Raises:
      UserError: an unknown control code, or not as many codes as texts.
    """
    texts = _as_list(texts)
    prefixes = [
        self.tokenizer.begin_ids if c is None else self.tokenizer.code_ids(c)
        for c in _as_codes(code, len(texts))
    ]
    tokens = [self.tokenizer.encode(t) for t in texts]
    return self.score_ids(list(zip(prefixes, tokens)), progress=progress)

  def score_ids(
      self,
      sequences: Sequence[tuple[Sequence[int], Sequence[int]]],
      *,
      progress: str = "",
  ) -> list[Score]:
    """Like `score`, of pairs (ids of the control code, ids of the text)."""
    self._check_no_latent()
    return score_lib.score(
        self.config, self.params, sequences, window=self.window,
        progress=progress,
    )

  def attribute(
      self,
      texts: str | Sequence[str],
      codes: Sequence[str] | None = None,
      prior: Mapping[str, float] | str | None = None,
      *,
      progress: str = "",
  ) -> list[list[attribution.Attribution]]:
    """Ranks the control codes by p(code | text).

    Args:
      texts: one text or several.
      codes: the codes to compare, all when None.
      prior: p(code): None or "uniform" (the paper's choice), "data" for the
        codes' shares of the training data, or a weight a code.
      progress: what a progress bar is called; "" for none.

    Returns:
      A ranking a text, best first, of `.code`, `.perplexity`, `.posterior`.

    Raises:
      UserError: an empty text, an unknown code or prior.
    """
    texts = _as_list(texts)
    # A code named twice would count twice in the posterior.
    codes = _as_list(self.codes if codes is None else codes)
    codes = list(dict.fromkeys(codes))
    if not codes:
      raise errors.UserError("There are no control codes to compare.")
    log_prior = attribution.log_prior(codes, self._prior(prior))
    prefixes = [self.tokenizer.code_ids(c) for c in codes]
    tokens = [self.tokenizer.encode(t) for t in texts]
    for i, ids in enumerate(tokens):
      if not ids:
        raise errors.UserError(f"Text {i + 1} of {len(texts)} is empty.")
    scores = self.score_ids(
        [(prefix, ids) for ids in tokens for prefix in prefixes],
        progress=progress,
    )
    rows = [
        scores[i : i + len(codes)] for i in range(0, len(scores), len(codes))
    ]
    return [attribution.rank(codes, row, log_prior) for row in rows]

  def generate(
      self,
      prompts: str | Sequence[str],
      code: str | None | Sequence[str | None] = None,
      *,
      on_text: Callable[..., None] | None = None,
      rules: str = "paper",
      attribute: Any = None,
      weight: float | Mapping[str, float] = 1.0,
      guidance: float = 1.0,
      latent: Any = None,
      **options,
  ) -> list[list[Any]]:
    """Continues each prompt.

    Args:
      prompts: one prompt or several; "" with a code starts from the code.
      code: one control code for all prompts, or one a prompt.
      on_text: called with text as it comes, see `decoding.generate`.
      rules: "paper", "release" (as generation.py of 2019), "huggingface" (as
        transformers' `generate`) or "cvae" (as that paper samples): what the
        options below are unless given; see `decoding.presets`.
      attribute: what the text is to obey, for a model with one head: a string,
        or one a prompt. With several heads, a mapping from their names; those
        that are not named are not used. None: the model alone. Side networks
        (Side-tuning) take no attribute: they are always on.
      weight: how much a head's logits count, for all or by name; 1 is what it
        was trained with, 0 the model alone.
      guidance: classifier-free guidance over the attribute (Sanchez et al.
        2023): aux(none) + guidance * (aux(attribute) - aux(none)). 1 is off.
      latent: of a CVAE: "prior", a sample of p(z | prompt) for every result, as
        the paper generates; "mean", its mean; an array, [Z] or [prompts, Z]; or
        a list of what `encode` takes, one for all or one a prompt, whose means
        are taken: latent=["Another prompt."] is the paper's control experiment
        p(y | x1, z2). None: the decoder alone, if it was frozen.
      **options: fields of `decoding.GenerationOptions`: max_new_tokens,
        temperature, top_k, top_p, penalty, num_samples, seed, ...

    Returns:
      A list a prompt of `num_samples` results with `.text` and `.token_ids`.

    Raises:
      UserError: an unknown code or option, a value out of range, or an empty
        prompt without a code.
    """
    from ctrl_jax import decoding
    from ctrl_jax.decoding import attributes as terms
    from ctrl_jax.decoding import presets

    prompts = _as_list(prompts)
    known = decoding.GenerationOptions.__dataclass_fields__
    for name in options:
      if name not in known:
        raise errors.UserError(
            f"Unknown option {name!r}. {errors.nearest(name, known)}"
        )
    codes = _as_codes(code, len(prompts))
    chosen = decoding.GenerationOptions(
        **presets.options(rules, self.tokenizer) | options
    )
    return decoding.generate(
        self.generator,
        self.tokenizer,
        prompts,
        codes,
        chosen,
        on_text=on_text,
        latents=latent_rows.make(
            self, latent, prompts, codes, chosen.num_samples, chosen.seed
        ),
        **terms.weighted(
            self.heads, self.tokenizer, len(prompts), attribute, weight,
            guidance,
        ),
    )

  def _prior(self, prior) -> Mapping[str, float] | None:
    if prior is None or isinstance(prior, Mapping):
      return prior
    if prior == "uniform":
      return None
    if prior != "data":
      raise errors.UserError(
          f"Unknown prior {prior!r}. {errors.nearest(str(prior), _PRIORS)}"
      )
    if self.prior is None:
      raise errors.UserError(
          "This model's folder does not say how large each code's share of the"
          " training data was: give the prior as weights, or use 'uniform'."
      )
    return self.prior


_PRIORS = ("uniform", "data")


@functools.partial(jax.jit, static_argnums=0)
def _logits(config: TransformerConfig, params: Any, ids: jax.Array):
  hidden_BTD = transformer.hidden_states(config, params, ids)
  return transformer.head(config, params, hidden_BTD)


def _as_list(texts: str | Sequence[str]) -> list[str]:
  texts = [texts] if isinstance(texts, str) else list(texts)
  for i, text in enumerate(texts):
    if not isinstance(text, str):
      raise errors.UserError(
          f"Text {i + 1} of {len(texts)} is {text!r}, not a string."
      )
  return texts


def _as_codes(code, num_texts: int) -> list[str | None]:
  if code is None or isinstance(code, str):
    return [code] * num_texts
  codes = list(code)
  if len(codes) != num_texts:
    raise errors.UserError(
        f"{len(codes)} control codes for {num_texts} texts: give one for all"
        " or one a text."
    )
  return codes
