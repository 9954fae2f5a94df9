"""Does the control code control? Samples judged by a text classifier."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ctrl_jax.evaluation.baseline import Baseline

# Openings that fit every domain; the same ones under every code.
NEUTRAL_PROMPTS = (
    "The ", "I ", "This is", "It ", "When", "In the", "There is", "If you",
    "A ", "What",
)


def measure(
    model: Any,
    judge: Baseline,
    codes: Sequence[str],
    *,
    num_samples: int,
    options: dict[str, Any],
    prompts: Sequence[str] = NEUTRAL_PROMPTS,
    on_code: Callable[[str], None] | None = None,
) -> dict[str, Any]:
  """Samples under each code and without one, and asks the judge.

  The judge sees the continuation alone, not the prompt.

  Args:
    model: a `LanguageModel`.
    judge: a classifier trained on real text of the codes.
    codes: what to sample under.
    num_samples: samples a code, rounded up to a multiple of the prompts.
    options: of `LanguageModel.generate`; `seed` is the first code's, the next
      code's is one more, so that no two share their random numbers.
    prompts: what each sample continues.
    on_code: called with each code when its samples are there.

  Returns:
    right_code: share of samples judged to be of the code they were generated
      under, mean over codes;
    wrong_code: share of samples generated under another code that are judged
      to be of a code, mean over pairs;
    no_code: the same of samples without a code, mean over codes. It is
      1 / num_codes whatever the model, as each is judged to be something;
      `no_code_most` is the share of the most frequent judgement;
    chance, by_code, confusion (rows: generated under, the last one without a
      code; columns: judged to be), an example a code, and what was asked.
  """
  each = -(-num_samples // len(prompts))
  seed = options.get("seed", 0)
  confusion, examples = [], {}
  for i, code in enumerate([*codes, None]):
    results = model.generate(
        list(prompts), code=code,
        **options | dict(num_samples=each, seed=seed + i),
    )
    texts = [sample.text for samples in results for sample in samples]
    judged = judge.probabilities(texts, codes).argmax(-1)
    confusion.append(np.bincount(judged, minlength=len(codes)) / len(texts))
    examples[code or ""] = prompts[0] + results[0][0].text
    if on_code is not None:
      on_code(code or "no code")
  shares = np.stack(confusion)
  under, without = shares[:-1], shares[-1]
  right = np.diag(under)
  return dict(
      right_code=float(right.mean()),
      wrong_code=float(
          (under.sum() - right.sum()) / (len(codes) * max(len(codes) - 1, 1))
      ),
      no_code=float(without.mean()),
      no_code_most=float(without.max()),
      chance=1 / len(codes),
      by_code={
          code: dict(
              right_code=float(right[i]),
              wrong_code=float(
                  (under[:, i].sum() - right[i]) / max(len(codes) - 1, 1)
              ),
              no_code=float(without[i]),
          )
          for i, code in enumerate(codes)
      },
      codes=list(codes),
      confusion=shares.tolist(),
      samples_a_code=each * len(prompts),
      prompts=list(prompts),
      options=dict(options),
      examples=examples,
  )


def table(found: dict[str, Any]) -> str:
  """Returns a measurement as a table for the terminal."""
  width = max(6, *map(len, found["by_code"]))
  lines = [
      f"{'judged':{width}}  share of samples generated under",
      f"{'to be':{width}}  this code  another code  no code",
  ]
  rows = [*found["by_code"].items(), ("mean", found)]
  lines += [
      f"{code:{width}} {row['right_code']:10.1%} {row['wrong_code']:13.1%}"
      f" {row['no_code']:8.1%}"
      for code, row in rows
  ]
  if "judge" in found:
    lines.append(
        "The judge is right on"
        f" {found['judge']['accuracy']:.1%} of real held-out texts of the same"
        " length."
    )
  return "\n".join(lines)
