"""Token ids from token ids, with any rules and for text of any length."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ctrl_jax import errors, programs
from ctrl_jax.decoding import latents, side_term, steps, terms, window
from ctrl_jax.decoding import rules as rules_lib
from ctrl_jax.decoding.options import GenerationOptions
from ctrl_jax.models import transformer
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.models.side import SideConfig

# Lengths are rounded up to a multiple of this, so that prompts of similar
# length share a compiled function.
_BUCKET = 16


@dataclasses.dataclass
class Row:
  """One result in the making.

  Attributes:
    prompt: ids read, control code included.
    num_code: how many of them are the control code.
    number: (prompt's place in the call, sample's number).
    ids: ids generated, without the end symbol.
    finished: "" while going on, else "end", "stop" or "length".
    attributes: the ids of an attribute for each term of the call.
    latent: of a CVAE, Z numbers (of one without a latent, ids: see
      `latents.inject`); () for none. All rows of a call or none.
  """

  prompt: list[int]
  num_code: int
  number: tuple[int, int]
  ids: list[int] = dataclasses.field(default_factory=list)
  finished: str = ""
  attributes: tuple[tuple[int, ...], ...] = ()
  latent: tuple[float, ...] = ()

  @property
  def all_ids(self) -> list[int]:
    return self.prompt + self.ids


class Generator:
  """A model ready to generate: parameters laid out once, functions compiled.

  Compiled functions are kept by JAX, one for each bucket of shapes and each
  set of rules; temperatures, p and theta are not part of it. Heads are laid
  out beside the one copy of the model's parameters.

  Attributes:
    calls: `programs.Calls`, what the last `run` called; it tells the memory.
  """

  def __init__(self, config: TransformerConfig, params: transformer.Params):
    self.config = config
    self._params = steps.prepare(config, params)
    self.calls = programs.Calls()
    self._heads = {}
    self._latent = self._latent_term = None

  def set_latent(self, config: Any, params: Any) -> None:
    """Makes rows with a `latent` possible.

    Args:
      config: a `CVAEConfig` over this model.
      params: the CVAE's.
    """
    self._latent = latents.Latent(params, config)
    if config.auxiliary is not None:
      self._latent_term = terms.prepare(config.auxiliary, params["auxiliary"])
      self._add_mean()

  def add_head(self, name: str, config: Any, params: Any) -> None:
    """Makes an auxiliary known.

    Args:
      name: how calls refer to it.
      config: an `AuxiliaryConfig` over this model, a `LinenAuxiliary`, or a
        `SideConfig`.
      params: the auxiliary's.
    """
    prepare = (
        side_term.prepare if isinstance(config, SideConfig) else terms.prepare
    )
    self._heads[name] = prepare(config, params)
    self._add_mean()

  def _add_mean(self) -> None:
    """Puts the head's mean beside it, which terms are centred by."""
    head = self._params["head"]
    if "mean" not in head:
      table = head["kernel"].T if "kernel" in head else transformer.head_table(
          self.config, self._params
      )
      mean = table.astype(jnp.float32).mean(0)
      self._params = self._params | {"head": head | {"mean": mean}}

  @property
  def params(self) -> transformer.Params:
    """The model's parameters as `steps.prepare` laid them out."""
    return self._params

  def next_logits(self, prompts: Sequence[Sequence[int]]) -> np.ndarray:
    """The model's own logits after each prompt, float32 [B, V], no rules.

    A prompt longer than the window counts with its last tokens.
    """
    size = self.config.max_length
    session = self._read([list(p[-size:]) for p in prompts], 0)
    return np.asarray(_next_logits(self.config, self._params, session))

  def run(
      self,
      rows: Sequence[Row],
      options: GenerationOptions,
      *,
      banned: np.ndarray | None = None,
      banned_after: np.ndarray | None = None,
      exempt: np.ndarray | None = None,
      end_id: int | None = None,
      on_block: Callable[[Row], None] | None = None,
      weighted: Sequence[tuple[str, float]] = (),
  ) -> None:
    """Continues `rows` in place until each is finished.

    Args:
      rows: consecutive ones with the same prompt share its prefill.
      options: what names texts and tokens is for the caller: see `on_block`
        and the next three.
      banned: bool [V], True for what is never generated.
      banned_after: the same, banned after top-k and top-p.
      exempt: bool [V], True for what has no penalty.
      end_id: the id that ends a row; None for none.
      on_block: called with each row that got new tokens, after every block; may
        cut `row.ids` short and set `row.finished`.
      weighted: the terms that are added, (a head's name, weight) each;
        `row.attributes` are theirs.
    """
    if not options.stop_at_end:
      end_id = None
    if banned is None:
      banned = np.zeros(self.config.vocab_size, bool)
    masks = dict(banned=banned, banned_after=banned_after, exempt=exempt)
    for row in rows:
      if not row.prompt:
        raise errors.UserError(
            "The prompt is empty and there is no control code: give one of"
            " them."
        )
    self.calls.clear()
    for batch in _batches(rows, options.batch_size):
      self._run_batch(batch, options, masks, end_id, on_block, weighted)

  def _run_batch(self, rows, options, masks, end_id, on_block, weighted):
    size = min(options.window or self.config.max_length, self.config.max_length)
    strides = [
        window.check_stride(options.stride, row.num_code, size) for row in rows
    ]

    def visible():
      return [
          window.visible(
              row.all_ids, row.num_code, size, stride, options.window_rule
          )
          for row, stride in zip(rows, strides)
      ]

    longest = max(len(row.prompt) for row in rows)
    if longest + options.max_new_tokens <= size:
      cache_length = round_up(round_up(longest) + options.max_new_tokens)
    else:  # Even a full window can have up to a bucket of padding before it.
      cache_length = round_up(size) + _BUCKET
    values, rules = self.values(options, masks, end_id)
    progress = self.progress(rows, options)
    latent = [row.latent for row in rows] if rows[0].latent else ()
    params = self._with_terms(weighted, latent)
    session = None
    while not all(row.finished for row in rows):
      is_new = session is None
      if is_new:
        shown = visible()
        attributes = [row.attributes for row in rows]
        session = self._read(
            shown, cache_length, attributes, weighted, latent
        )
        room = size + 1 - max(
            len(ids) for ids, row in zip(shown, rows) if not row.finished
        )
        room = min(room, cache_length + 1 - int(session.index))
      done = len(next(row.ids for row in rows if not row.finished))
      num_steps = min(options.block_size, room, options.max_new_tokens - done)
      progress = progress._replace(
          done=np.array([bool(row.finished) for row in rows])
      )
      block = (
          self.config, params, session, progress, np.int32(num_steps),
          values, rules, options.block_size,
      )
      if is_new:
        self.calls.note(steps.generate_block, *block)
      session, progress, tokens, finite = steps.generate_block(*block)
      if not np.asarray(finite).all():
        raise errors.UserError(
            "The model's logits are not finite: its parameters are broken, use"
            " an earlier checkpoint."
        )
      for row, new in zip(rows, np.asarray(tokens)[:, :num_steps].tolist()):
        if not row.finished:
          append(row, new, end_id, options.max_new_tokens)
          if on_block is not None:
            on_block(row)
      room -= num_steps
      if room == 0:
        session = None

  def _with_terms(self, weighted, latent=()):
    params = self._params
    own = tuple(self._heads[name] for name, _ in weighted)
    if latent and self._latent_term is not None:
      own += (self._latent_term,)
    if own:
      params = params | {"terms": own}
    return params | {"latent": self._latent} if latent else params

  def _read(
      self,
      prompts: Sequence[Sequence[int]],
      cache_length: int,
      attributes: Sequence[tuple[tuple[int, ...], ...]] = (),
      weighted: Sequence[tuple[str, float]] = (),
      latent: Sequence[tuple[float, ...]] = (),
  ) -> steps.Session:
    """Prefills; equal neighbours once."""
    attributes = attributes or [()] * len(prompts)
    given = latent or [()] * len(prompts)
    all_ = list(zip(map(tuple, prompts), attributes, given))
    counts = {len(list(group)) for _, group in itertools.groupby(all_)}
    times = counts.pop() if len(counts) == 1 else 1
    prompts, attributes, given = (
        x[::times] for x in (prompts, attributes, given)
    )
    ids, padding = pad_left(prompts)
    own = self._attributes_of(attributes, weighted)
    rows = None
    if latent:
      is_latent = self._latent.config.has_latent
      rows = np.array(given, np.float32 if is_latent else np.int32)
      if self._latent_term is not None:
        own += ((rows, np.ones(len(rows), np.int32), np.float32(1)),)
    prefill = (
        self.config, self._with_terms(weighted, latent), ids, padding,
        max(cache_length, ids.shape[1]), own, rows,
    )
    self.calls.note(steps.prefill, *prefill)
    session = steps.prefill(*prefill)
    if times > 1:
      session = steps.repeat(self.config, session, times)
    return session

  def _attributes_of(self, attributes, weighted):
    """What `steps.prefill` wants to know of each term."""
    found = []
    for i, (name, weight) in enumerate(weighted):
      size = self._heads[name].config.attribute_length
      padded = np.zeros((len(attributes), size), np.int32)
      for row, own in zip(padded, attributes):
        row[: len(own[i])] = own[i]
      lengths = np.array([len(own[i]) for own in attributes], np.int32)
      found.append((padded, lengths, np.float32(weight)))
    return tuple(found)

  def values(
      self,
      options: GenerationOptions,
      masks: dict[str, np.ndarray | None],
      end_id: int | None,
  ) -> tuple[dict[str, Any], rules_lib.Rules]:
    """What the rules read, and which apply; `masks` are those of `run`.

    Raises:
      errors.UserError: no token may come.
    """
    rules_lib.check_some_token(
        masks["banned"], masks["banned_after"], end_id, options.min_new_tokens
    )
    # NumPy's scalars, here and below: a scalar of jnp is a call to the device.
    values = dict(
        penalty=np.float32(options.penalty),
        temperature=np.float32(options.temperature),
        top_p=np.float32(options.top_p),
        **{k: jnp.asarray(x) for k, x in masks.items() if x is not None},
        end=np.int32(-1 if end_id is None else end_id),
        min_steps=np.int32(options.min_new_tokens),
    )
    sample = options.temperature > 0
    top_p = sample and options.top_p < 1
    top_k = sample and (options.top_k_with_top_p or not top_p)
    rules = rules_lib.Rules(
        sample=sample,
        penalty="" if options.penalty == 1 else options.penalty_rule,
        top_k=min(options.top_k, self.config.vocab_size) if top_k else 0,
        top_p=top_p,
        top_p_crossing=options.top_p_crossing,
        exempt=masks["exempt"] is not None,
        ban_after=masks["banned_after"] is not None,
    )
    return values, rules

  def progress(
      self, rows: Sequence[Row], options: GenerationOptions
  ) -> steps.Progress:
    """Before the first token of `rows`."""
    seen = np.zeros((len(rows), self.config.vocab_size), bool)
    if options.penalty_covers == "all":
      for i, row in enumerate(rows):
        seen[i, row.prompt] = True
    return steps.Progress(
        seen,
        np.int32(0),
        np.zeros(len(rows), bool),
        _keys(np.uint32(options.seed), np.array([r.number for r in rows])),
    )


@jax.jit
def _keys(seed, numbers):
  """A key a row from its numbers, int32 [B, 2], whatever the batch."""
  key = jax.random.key(seed)
  return jax.vmap(
      lambda n: jax.random.fold_in(jax.random.fold_in(key, n[0]), n[1])
  )(numbers)


_next_logits = jax.jit(steps.next_logits, static_argnums=0)


def append(
    row: Row, tokens: list[int], end_id: int | None, max_new_tokens: int
) -> None:
  """Gives a row new tokens; notes when they end it."""
  if end_id in tokens:
    row.ids += tokens[: tokens.index(end_id)]
    row.finished = "end"
    return
  row.ids += tokens
  if len(row.ids) == max_new_tokens:
    row.finished = "length"


def pad_left(
    prompts: Sequence[Sequence[int]],
) -> tuple[np.ndarray, np.ndarray]:
  """Prompts in one array, int32 [B, T], and each one's padding, int32 [B]."""
  length = round_up(max(map(len, prompts)))
  ids = np.zeros((len(prompts), length), np.int32)
  padding = np.array([length - len(p) for p in prompts], np.int32)
  for row, prompt, start in zip(ids, prompts, padding):
    row[start:] = prompt
  return ids, padding


def _batches(rows: Sequence[Row], size: int) -> Iterator[list[Row]]:
  for start in range(0, len(rows), size):
    yield list(rows[start:start + size])


def round_up(n: int) -> int:
  """The next length that functions are compiled for."""
  return -(-n // _BUCKET) * _BUCKET
