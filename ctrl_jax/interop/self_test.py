"""Whether loaded weights are the released CTRL's: known answers of others.

Sources: huggingface/transformers tests/models/ctrl/test_modeling_ctrl.py and
modeling_ctrl.py 4.40 (loss of the example in its documentation);
salesforce/ctrl README, source attribution with the 256 model.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

_SIZES = 1280, 8192, 16, 246_534
_PROMPT = "Legal the president is"
_PROMPT_IDS = [11859, 0, 1611, 8]
# Greedy, no penalty: " a good guy and I don't want to lose my job. \n \n I ..."
_GREEDY = [5, 150, 26449, 2, 19, 348, 469, 3, 2595, 48, 20740, 246533, 246533,
           19, 30, 5]
_LOSS_TEXT, _LOSS = "Wikipedia The llama is", 9.21
_PERPLEXITIES = {
    "I lost 10 lbs! Feeling great!": dict(
        Diet=28.960714, Weight=29.223865, Fitness=36.162671
    ),
    "My landlord is suing me for unpaid rent": dict(
        Legal=21.210965, Finance=24.619064, Saving=27.923208
    ),
    "And then I saw him, the man in the mirror.": dict(
        Horror=17.919299, Scary=18.587843, Writing=23.154564
    ),
    "Anarchism is an anti-authoritarian political philosophy that rejects"
    " hierarchies deemed unjust and advocates their replacement with"
    " self-managed, self-governed societies based on voluntary, cooperative"
    " institutions.": dict(
        Wikipedia=34.446701, News=34.484165, Links=35.460126
    ),
    "I love God": dict(
        Christianity=55.653985, Atheism=116.811038, Confessions=133.619834
    ),
}
# The originals print what float32 on another machine gave.
_RELATIVE = 1e-3


class Check(NamedTuple):
  """One known answer beside what was found."""

  name: str
  passed: bool
  expected: str
  found: str


def run(model: Any) -> Iterator[Check]:
  """Yields the checks one by one; a whole run takes minutes.

  There are no known answers for a model of other sizes: the first check fails,
  and is the only one.

  Args:
    model: a `LanguageModel`.

  Raises:
    errors.UserError: the model has no tokenizer.
  """
  config = model.config
  sizes = (config.d_model, config.d_ff, config.num_heads, config.vocab_size)
  yield Check(
      "d_model, d_ff, heads, vocabulary", sizes == _SIZES, str(_SIZES),
      str(sizes),
  )
  if sizes == _SIZES:
    yield from checks(model)


def checks(model: Any) -> Iterator[Check]:
  """As `run`, of a model of any size."""
  ids = model.tokenizer.encode(_PROMPT)
  yield Check("token ids", ids == _PROMPT_IDS, str(_PROMPT_IDS), str(ids))
  (found,), = model.generate(
      [_PROMPT], max_new_tokens=len(_GREEDY), penalty=1.0
  )
  yield Check(
      "greedy tokens", found.token_ids == _GREEDY, str(_GREEDY),
      str(found.token_ids),
  )
  score = model.score([_LOSS_TEXT])[0]
  loss = -score.log_prob / score.num_tokens
  yield Check(
      f"loss of {_LOSS_TEXT!r}", abs(loss - _LOSS) < 0.005 + 1e-9, f"{_LOSS}",
      f"{loss:.2f}",
  )
  for text, expected in _PERPLEXITIES.items():
    ranking = model.attribute([text])[0]
    found = {r.code: r.perplexity for r in ranking}
    close = all(
        np.isclose(found.get(code, np.inf), value, rtol=_RELATIVE)
        for code, value in expected.items()
    )
    best = [r.code for r in ranking[:3]]
    yield Check(
        f"sources of {text!r}", close and best == list(expected),
        ", ".join(f"{c} {v:.3f}" for c, v in expected.items()),
        ", ".join(f"{r.code} {r.perplexity:.3f}" for r in ranking[:3]),
    )


def table(found: list[Check]) -> str:
  """Returns the checks as lines of text."""
  lines = []
  for check in found:
    lines.append(f"{'ok    ' if check.passed else 'FAILED'} {check.name}")
    if not check.passed:
      lines += [f"         expected {check.expected}",
                f"         found    {check.found}"]
  passed = sum(check.passed for check in found)
  return "\n".join([*lines, f"{passed} of {len(found)} known answers hold."])
