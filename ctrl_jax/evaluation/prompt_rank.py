"""The true prompt's rank among ten, by the likelihood of the story (Fan 2018).

A story is read under its own prompt and under others'; a model that listens to
prompts finds it likeliest under its own. Fan, Lewis and Dauphin (2018, "prompt
ranking accuracy") ask how often that is so.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ctrl_jax import errors
from ctrl_jax.evaluation import intervals
from ctrl_jax.evaluation.held_out import Texts


def candidates(
    prompts: Sequence[str],
    pool: Sequence[str],
    count: int = 10,
    seed: int = 0,
) -> list[list[str]]:
  """Returns for each prompt itself, then `count` - 1 different others.

  Args:
    prompts: N, of the stories.
    pool: where the others are from; at least `count` different ones.
    count: of candidates a story.
    seed: of the choice.

  Raises:
    errors.UserError: fewer different prompts than candidates.
  """
  different = list(dict.fromkeys(pool))
  if len(different) < count or count < 2:
    raise errors.UserError(
        f"{len(different)} different prompts, but {count} candidates, of which"
        " there are to be 2 or more: give more prompts, or fewer candidates."
    )
  rng = np.random.default_rng(seed)
  found = []
  for prompt in prompts:
    others = [p for p in different if p != prompt]
    chosen = rng.choice(len(others), count - 1, replace=False)
    found.append([prompt, *(others[i] for i in chosen)])
  return found


def rows(
    tokenizer: Any,
    prompts: Sequence[Sequence[str]],
    texts: Sequence[str],
    code: str | None,
    width: int,
    attribute_length: int = 0,
) -> Texts:
  """Returns each story under each of its candidates, a block a story.

  Of a story the same tokens are targets under all of them: as many as have room
  behind the longest.

  Args:
    tokenizer: of the model.
    prompts: from `candidates`, with their separator.
    texts: the stories.
    code: the control code of all.
    width: W, tokens a row.
    attribute_length: A, if prompts are attributes, too; else 0.

  Raises:
    errors.UserError: a prompt leaves no room, or is longer than attributes.
  """
  code_ids = list(
      tokenizer.begin_ids if code is None else tokenizer.code_ids(code)
  )
  tokens, weights, attributes = [], [], []
  for group, text in zip(prompts, texts, strict=True):
    encoded = [tokenizer.encode(prompt) for prompt in group]
    room = width - len(code_ids) - max(map(len, encoded))
    target = tokenizer.encode(text)[: max(room, 0)]
    if not target:
      raise errors.UserError(
          f"A prompt beside {group[0][:40]!r} leaves no room for a story in"
          f" {width - 1} tokens: shorten it."
      )
    for ids in encoded:
      front = [*code_ids, *ids]
      rest = width - len(front) - len(target)
      tokens.append([*front, *target, *[0] * rest])
      weights.append([0] * len(front) + [1] * len(target) + [0] * rest)
    # Attributes are prompts without their separator.
    attributes += [tokenizer.encode(p.strip()) for p in group]
  found = Texts(np.array(tokens, np.int32), np.array(weights, np.uint8))
  if not attribute_length:
    return found
  longest = max(attributes, key=len)
  if len(longest) > attribute_length:
    raise errors.UserError(
        f"The prompt {tokenizer.decode(longest)[:40]!r} has {len(longest)}"
        f" tokens; an attribute has at most {attribute_length}: shorten it."
    )
  return found._replace(
      attribute=np.array(
          [a + [0] * (attribute_length - len(a)) for a in attributes], np.int32
      ),
      attribute_length=np.array(list(map(len, attributes)), np.int32),
  )


def measure(nll: np.ndarray) -> dict[str, Any]:
  """Returns how high the true prompts rank.

  Args:
    nll: [N, K], of N stories under K candidates, the true prompt first.

  Returns:
    accuracy, the share of stories that are likeliest under their own prompt,
    with its 95 % interval, and chance; mean_rank, from 1 to K; stories and
    candidates. A tie counts against the true prompt.
  """
  nll = np.asarray(nll, np.float64)
  rank = 1 + (nll[:, 1:] <= nll[:, :1]).sum(1)
  return dict(
      accuracy=intervals.wilson(int((rank == 1).sum()), len(rank))._asdict(),
      chance=1 / nll.shape[1],
      mean_rank=intervals.bootstrap_mean(rank)._asdict(),
      stories=len(rank),
      candidates=nll.shape[1],
  )
