"""The model card that lies beside exported weights."""

from collections.abc import Mapping
from typing import Any

import ctrl_jax
from ctrl_jax.interop import layouts
from ctrl_jax.models import transformer
from ctrl_jax.models.config import TransformerConfig


def text(
    config: TransformerConfig,
    extra: Mapping[str, Any],
    needs_latent: bool = False,
) -> str:
  """Returns Markdown that says what the model is, and no more than is known.

  Args:
    config: the model's.
    extra: content of `ctrl_jax.json`: codes, prior, sequence_length.
    needs_latent: whether it is a CVAE's decoder, trained with its latent.
  """
  kind = layouts.kind(config)
  lines = [
      "---",
      "library_name: transformers",
      "pipeline_tag: text-generation",
      f"tags: [{kind}, ctrl_jax]",
      "---",
      "",
      f"# A {layouts.NAMES[kind].title} of"
      f" {transformer.num_parameters(config):,} parameters",
      "",
      f"{config.num_layers} layers, width {config.d_model}, {config.num_heads}"
      f" heads, feed-forward {config.d_ff}, vocabulary {config.vocab_size:,},"
      f" window {extra.get('sequence_length') or config.max_length} tokens."
      f" Exported by ctrl_jax {ctrl_jax.__version__}.",
      "",
      "```python",
      "import ctrl_jax",
      "",
      'model = ctrl_jax.load("THIS_FOLDER")',
  ]
  codes = extra.get("codes") or ()
  latent = ', latent="prior"' if needs_latent else ""
  if codes:
    lines.append(
        f'print(model.generate([""], code={codes[0]!r}{latent})[0][0].text)'
    )
  lines += ["```", ""]
  if needs_latent:
    lines += [
        "It is the decoder of a CVAE, whose latent lies in `cvae`: what it says"
        " without one, in another program, means nothing.",
        "",
    ]
  if codes:
    prior = extra.get("prior") or {}
    lines += ["| control code | share of the training tokens |", "|---|---|"]
    lines += [
        f"| `{code}` | {f'{prior[code]:.4f}' if code in prior else ''} |"
        for code in codes
    ]
    lines.append("")
  lines += [
      "The model repeats what its training text holds, its errors and biases"
      " too. What that text was is for whoever trained it to say here.",
      "",
  ]
  return "\n".join(lines)
