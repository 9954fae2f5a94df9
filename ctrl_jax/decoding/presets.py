"""Whole sets of generation options: as papers, the release, Hugging Face.

| | paper | release | huggingface |
|---|---|---|---|
| penalty divides negative logits | yes | yes | multiplies them |
| line end without penalty | no | yes (TensorFlow script) | no |
| unknown token banned | yes | yes | no |
| `Sco@@` banned | no | yes | no |
| URLs banned | no | after the cuts | no |
| top-k beside a nucleus | both cut | the nucleus alone | both cut |
| nucleus keeps the token that crosses p | yes | no | yes |
| window | the model's | 256 at most | the model's |
| past it | slides by strides | at every token; one step repeats | by strides |

(transformers itself fails past the window.)

"cvae" samples as the Transformer CVAE's paper does: temperature 0.9, the 100
most probable tokens, of these a nucleus of 0.9, no penalty; in all else it is
"paper", CTRL's.

Sources: the paper, sections 4.1 and 5; arXiv 2101.00828, "Implementation
Details"; salesforce/ctrl a089a0c, generation.py
(pytorch_generation.py penalises the line end, too: penalty_exempt=());
transformers 5.24, generation/logits_process.py.
"""

from typing import Any

from ctrl_jax import errors

RULES = ("paper", "release", "huggingface", "cvae")


def options(rules: str, tokenizer: Any) -> dict[str, Any]:
  """Returns the fields in which a set differs from the defaults.

  Args:
    rules: one of `RULES`.
    tokenizer: says which of the release's tokens there are.

  Raises:
    errors.UserError: an unknown name.
  """
  if rules == "paper":
    return {}
  if rules == "huggingface":
    return dict(penalty_rule="sign_aware", ban_unknown=False)
  if rules == "cvae":
    return dict(temperature=0.9, top_k=100, top_p=0.9, penalty=1.0)
  if rules != "release":
    raise errors.UserError(
        f"rules={rules!r} is unknown. {errors.nearest(str(rules), RULES)}"
    )
  texts = [tokenizer.decode([i]) for i in range(tokenizer.vocab_size)]
  pieces = getattr(tokenizer, "tokens", texts)
  return dict(
      penalty_exempt=tuple(i for i, t in enumerate(texts) if t == "\n"),
      ban=tuple(i for i, p in enumerate(pieces) if p == "Sco@@"),
      ban_after=("http",) if any("http" in t for t in texts) else (),
      top_k_with_top_p=False,
      top_p_crossing=False,
      window=256,  # Of the model of 512, too.
      stride=1,
      window_rule="release",
      stop_at_end=False,
  )
