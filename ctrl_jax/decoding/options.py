"""What a user may ask of generation, checked."""

import dataclasses
import math
import numbers
from collections.abc import Iterable

from ctrl_jax import errors

PENALTY_RULES = ("paper", "sign_aware")
PENALTY_COVERS = ("all", "generated")
WINDOW_RULES = ("paper", "release")
# Fields that name tokens.
_TOKENS = ("penalty_exempt", "ban", "ban_after")


@dataclasses.dataclass(frozen=True)
class GenerationOptions:
  """How to continue prompts. The defaults are the paper's: greedy, theta 1.2.

  Attributes:
    max_new_tokens: a result has at most so many tokens.
    min_new_tokens: the tokenizer's end symbol is banned before so many. Stop
      strings do not count: they end a result as soon as they appear.
    temperature: 0 takes the most probable token; above 0 samples from
      softmax(logits / temperature).
    top_k: sample among the k most probable tokens; 0 is off.
    top_p: sample among the fewest most probable tokens whose probabilities sum
      to at least p (the token that crosses p is kept); 1 is off. With `top_k`
      too, the probabilities are those among the k.
    top_k_with_top_p: False leaves `top_k` out where `top_p` is on: what the
      release does.
    top_p_crossing: False drops the token that crosses p, too, unless it is the
      only one: what the release does.
    penalty: theta of penalised sampling (CTRL, section 4.1); 1 is off. Covers
      every token of the prompt, control code included, and of the result so
      far, also what has left the window.
    penalty_rule: "paper" divides the logit of such a token by theta, as the
      formula says, which raises a negative logit. "sign_aware" multiplies
      negative logits instead, as Hugging Face does.
    penalty_covers: "all", or "generated": the tokens of the result alone (the
      paper's g, read narrowly).
    penalty_exempt: tokens without penalty: ids, or strings that are a token's
      whole text.
    ban: tokens never generated: ids, or strings, which ban every token whose
      text contains them (a string spread over several tokens can still
      appear). Words of control codes that are no words of text are always
      banned.
    ban_after: the same, but banned after top-k and top-p have cut: they may
      take others' places there. If they take all, the most probable token that
      is not banned comes (generation.py ends in an IndexError).
    ban_unknown: bans the unknown token.
    stop: strings that end a result; the text ends before the string.
    num_samples: results a prompt.
    seed: of the random choices; they depend on it, the prompt's place in the
      call, the sample's number and the step, not on how rows are batched.
    stop_at_end: the tokenizer's end symbol ends a result. False treats it as
      any other token.
    stride: for text longer than the window. When that is
      full, the oldest `stride` tokens after the control code leave it and the
      rest is read again. 1 does so at every token, as the release does; larger
      is faster. 0 stands for a quarter of the window.
    window: tokens that the model reads at most, its `max_length` at most, which
      0 stands for.
    window_rule: "paper", or "release": the first token always stays, and the
      step after the window is full repeats the one before, which
      generation.py does by mistake; with stride=1 its windows exactly.
    block_size: tokens between two looks at stop strings and streaming. Changes
      speed only.
    batch_size: results computed together. Changes speed and memory only.
  """

  max_new_tokens: int = 128
  min_new_tokens: int = 0
  temperature: float = 0.0
  top_k: int = 0
  top_p: float = 1.0
  penalty: float = 1.2
  penalty_rule: str = "paper"
  penalty_covers: str = "all"
  penalty_exempt: tuple[int | str, ...] = ()
  ban: tuple[int | str, ...] = ()
  ban_after: tuple[int | str, ...] = ()
  ban_unknown: bool = True
  top_k_with_top_p: bool = True
  top_p_crossing: bool = True
  stop: tuple[str, ...] = ()
  num_samples: int = 1
  seed: int = 0
  stop_at_end: bool = True
  stride: int = 0
  window: int = 0
  window_rule: str = "paper"
  block_size: int = 16
  batch_size: int = 32

  def __post_init__(self):
    for field in (*_TOKENS, "stop"):
      value = getattr(self, field)
      one = isinstance(value, (str, numbers.Number))
      self._check(
          field, one or isinstance(value, Iterable), "texts or token ids"
      )
      object.__setattr__(self, field, (value,) if one else tuple(value))
    for field in dataclasses.fields(self):
      value = getattr(self, field.name)
      if field.type is bool:
        self._check(field.name, isinstance(value, bool), "True or False")
      elif field.type is int:
        good = isinstance(value, numbers.Integral)
        good = good and not isinstance(value, bool)
        self._check(field.name, good, "an integer")
      elif field.type is float:
        self._check(field.name, isinstance(value, numbers.Real), "a number")
    self._check(
        "stop", all(isinstance(s, str) for s in self.stop), "a string or more"
    )
    for field in _TOKENS:
      items = getattr(self, field)
      good = all(
          isinstance(b, (str, numbers.Integral)) and not isinstance(b, bool)
          for b in items
      )
      self._check(field, good, "token ids or strings")
      self._check(
          field, "" not in items, "a token id or a string that is not empty"
      )
    for field in ("max_new_tokens", "num_samples", "block_size", "batch_size"):
      self._check(field, getattr(self, field) >= 1, "at least 1")
    for field in ("min_new_tokens", "top_k", "stride", "window"):
      self._check(field, getattr(self, field) >= 0, "0 or more")
    self._check(
        "min_new_tokens",
        self.min_new_tokens <= self.max_new_tokens,
        f"at most max_new_tokens={self.max_new_tokens}",
    )
    self._check(
        "temperature",
        math.isfinite(self.temperature) and self.temperature >= 0,
        "0 (greedy) or a finite number above 0",
    )
    self._check("top_p", 0 < self.top_p <= 1, "above 0 and at most 1")
    self._check(
        "penalty",
        math.isfinite(self.penalty) and self.penalty > 0,
        "a finite number above 0 (1 is off)",
    )
    for field, choices in (
        ("penalty_rule", PENALTY_RULES),
        ("penalty_covers", PENALTY_COVERS),
        ("window_rule", WINDOW_RULES),
    ):
      self._check(
          field, getattr(self, field) in choices, f"one of {', '.join(choices)}"
      )
    self._check("seed", 0 <= self.seed < 2**32, "in [0, 2^32)")
    self._check("stop", all(self.stop), "a string of one character or more")

  def _check(self, field: str, good: bool, expected: str) -> None:
    if not good:
      raise errors.UserError(
          f"{field}={getattr(self, field)!r} must be {expected}."
      )
