"""Fine-tuning: a run that begins with the parameters of another model."""

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from ctrl_jax import errors, saved_cvae, saved_head, saved_model
from ctrl_jax import text as text_lib
from ctrl_jax.data import files
from ctrl_jax.models.config import TransformerConfig
from ctrl_jax.training import weights

_LOG = logging.getLogger("ctrl_jax.train")

# What makes a model compute what it computes.
_SAME = ("d_model", "d_ff", "num_layers", "num_heads", "positions",
         "activation", "residual", "scale_embedding", "head_bias",
         "layer_norm_epsilon", "norm", "num_kv_heads", "biases", "tied_head",
         "rotary_theta", "rotary_order")
# Leaves with a row for each token.
_ROWS = ("embedding/table", "head/bias", "head/table")


@dataclasses.dataclass(frozen=True)
class Initial:
  """Parameters to begin with.

  Attributes:
    params: shaped as the new model's, float32, NumPy.
    accumulators: Adagrad's, likewise; None where the checkpoint has none.
    hash: `saved_head.base_hash` of the parameters as they were read.
  """

  params: Any
  accumulators: Any
  hash: str


def read(
    config: Mapping[str, Any],
    model: TransformerConfig,
    tokenizer: text_lib.Tokenizer,
    initial_accumulator: float,
    frozen: bool = False,
) -> Initial:
  """Reads `train.init_from` and fits it to a new model's vocabulary.

  The data set's tokenizer may have tokens behind the old model's: new control
  codes. Their rows begin as the mean of all rows, or as the row of a word that
  `train.init_codes` names.

  Args:
    config: the section `train`: `init_from`, `init_num_heads`, `init_codes`,
      `init_accumulators`.
    model: the new model.
    tokenizer: the data set's.
    initial_accumulator: what Adagrad's accumulators of new rows begin with.
    frozen: whether the model stays as it is: then there can be no new tokens.

  Raises:
    errors.UserError: a model of another shape, another tokenizer, an unknown
      word in `init_codes`, accumulators that are not there, or a CVAE's decoder
      without its latent.
  """
  found = saved_model.read(
      config["init_from"],
      num_heads=config["init_num_heads"] or None,
      with_accumulators=config["init_accumulators"],
  )
  if found.needs_latent:
    saved_cvae.check_is_there(config["init_from"])
    _LOG.warning(
        "%s was trained along with a latent: this run begins with its decoder"
        " alone.", config["init_from"],
    )
  _check(found.config, model, config["init_from"])
  _check_tokenizer(found, tokenizer, config["init_from"])
  if frozen and found.config.vocab_size < model.vocab_size:
    raise errors.UserError(
        f"train.init_from={config['init_from']!r} has {found.config.vocab_size}"
        f" tokens, the data set {model.vocab_size}; a frozen model learns no"
        " new ones. Prepare with that model's tokenizer and control codes."
    )
  old_size = found.config.vocab_size
  rows = _rows_of_new_tokens(config["init_codes"], tokenizer, old_size)
  if config["init_accumulators"] and found.accumulators is None:
    raise errors.UserError(
        f"{files.expand(config['init_from'])!r} has no accumulators of Adagrad:"
        " set train.init_accumulators to False."
    )
  new = model.vocab_size - old_size
  _LOG.info(
      "Beginning with the parameters of %s%s.", config["init_from"],
      f" and {new} new tokens" if new else "",
  )

  def row(x, i):
    return x[rows[i]] if i in rows else x.mean(0)

  accumulators = None
  if found.accumulators is not None:
    accumulators = _grow(
        found.accumulators, old_size, model, lambda x, i: initial_accumulator,
        padding=initial_accumulator,
    )
  params = _grow(found.params, old_size, model, row)
  found_hash = saved_head.base_hash(found.config, found.params)
  return Initial(params, accumulators, found_hash)


def _grow(
    tree: Any,
    old_size: int,
    model: TransformerConfig,
    row: Callable[[np.ndarray, int], Any],
    padding: float = 0.0,
) -> Any:
  """Returns `tree` with `row(x, i)` for each new token i, and padding rows."""

  def grow(path, x):
    name = jax.tree_util.keystr(path, simple=True, separator="/")
    x = np.asarray(x)
    if name == "positions/table":
      return x[: model.max_length]
    if name not in _ROWS:
      return x
    x = x[:old_size]
    larger = np.full((model.padded_vocab_size, *x.shape[1:]), padding, x.dtype)
    larger[:old_size] = x
    for i in range(old_size, model.vocab_size):
      larger[i] = row(x, i)
    return larger

  return jax.tree_util.tree_map_with_path(grow, tree)


def put(
    state: dict[str, Any], initial: Initial, task: Any
) -> dict[str, Any]:
  """Returns a training state with `initial` in the place of what it had.

  Accumulators go where the optimizer is Adagrad.

  Args:
    state: as `TrainStep.init` makes it, or some of its entries; its arrays may
      be abstract where `initial` has them.
    initial: what to begin with.
    task: its `begin(params)` says where the parameters go.
  """

  def place(new, old):
    # Every process has read all of it, and takes its own parts.
    x = weights.stored(np.asarray(new, np.float32), old.dtype)
    return jax.make_array_from_callback(x.shape, old.sharding, x.__getitem__)

  def like(new, old):
    return jax.tree.map(place, new, old)

  start = task.begin(initial.params)
  for part in ("params", "low_bits", "frozen"):
    if part in state:
      state = state | {part: _replace(state[part], start, like)}
  if initial.accumulators is None or "opt_state" not in state:
    return state
  is_adagrad = lambda s: hasattr(s, "sum_of_squares")
  states, tree = jax.tree.flatten(state["opt_state"], is_leaf=is_adagrad)
  states = [
      s._replace(sum_of_squares=like(initial.accumulators, s.sum_of_squares))
      if is_adagrad(s) else s
      for s in states
  ]
  return state | {"opt_state": jax.tree.unflatten(tree, states)}


def _replace(old: Any, new: Any, like: Callable[[Any, Any], Any]) -> Any:
  """Returns `old` with the leaves of `new` that it has a place for."""
  if not isinstance(old, Mapping):
    return like(new, old)
  return {
      name: _replace(part, new[name], like) if name in new else part
      for name, part in old.items()
  }


def _check(old: TransformerConfig, new: TransformerConfig, where: str) -> None:
  wrong = [
      f"model.{field}={getattr(old, field)!r} (is {getattr(new, field)!r})"
      for field in _SAME if getattr(old, field) != getattr(new, field)
  ]
  if new.positions == "learned" and new.max_length > old.max_length:
    wrong.append(f"model.max_length={old.max_length} at most")
  if wrong:
    raise errors.UserError(
        f"train.init_from={where!r} is another model. Set {', '.join(wrong)}."
    )
  if new.vocab_size < old.vocab_size:
    raise errors.UserError(
        f"train.init_from={where!r} has {old.vocab_size} tokens, the data set"
        f" only {new.vocab_size}: prepare it with that model's tokenizer"
        " (tokenizer.path)."
    )


def _check_tokenizer(found, tokenizer, where: str) -> None:
  """Compares what ids mean, where the model brings its tokenizer along."""
  if not text_lib.has_tokenizer(found.tokenizer_folder):
    _LOG.warning(
        "%s has no tokenizer beside it: whether its ids mean what the data"
        " set's do was not checked.", where,
    )
    return
  old = text_lib.load_tokenizer(found.tokenizer_folder)
  size = min(old.vocab_size, found.config.vocab_size)
  # The pieces, not what they decode to: all words of codes decode to "".
  pairs = zip(tokenizer.tokens[:size], old.tokens[:size])
  for i, (new_piece, old_piece) in enumerate(pairs):
    if new_piece != old_piece:
      raise errors.UserError(
          f"The data set's tokenizer is not that of train.init_from={where!r}:"
          f" token {i} is {new_piece!r} and {old_piece!r}. Prepare with"
          f" tokenizer.path={where!r}, and --force if there is one."
      )


def _rows_of_new_tokens(
    synonyms: Sequence[str], tokenizer: text_lib.Tokenizer, old_size: int
) -> dict[int, int]:
  """Maps new ids to the ids of the words they begin as."""
  rows = {}
  for item in synonyms:
    new, equals, word = str(item).partition("=")
    new_id = tokenizer.code_words.get(new)
    if not equals or new_id is None or new_id < old_size:
      raise errors.UserError(
          f"train.init_codes: {item!r} must be NEW=WORD, NEW a word of a"
          " control code that the old model does not know."
      )
    if new_id in rows:
      raise errors.UserError(
          f"train.init_codes names {new!r} twice: leave one of them out."
      )
    ids = [tokenizer.code_words[word]] if word in tokenizer.code_words else (
        tokenizer.encode(word)
    )
    if len(ids) != 1 or ids[0] == tokenizer.unknown_id or (
        not 0 <= ids[0] < old_size
    ):
      raise errors.UserError(
          f"train.init_codes: {word!r} in {item!r} is not one token of the old"
          " model: choose a shorter or more common word."
      )
    rows[new_id] = ids[0]
  return rows
