"""The model card that lies beside exported weights."""

from collections.abc import Mapping, Sequence
from typing import Any

import ctrl_jax
from ctrl_jax.interop import layouts
from ctrl_jax.models import transformer
from ctrl_jax.models.config import TransformerConfig


def text(
    config: TransformerConfig,
    extra: Mapping[str, Any],
    needs_latent: bool = False,
    code_ids: Mapping[str, Sequence[int]] | None = None,
    heads: Sequence[str] = (),
) -> str:
  """Returns Markdown that says what the model is, and no more than is known.

  Args:
    config: the model's.
    extra: content of `ctrl_jax.json`: codes, prior, sequence_length.
    needs_latent: whether it is a CVAE's decoder, trained with its latent.
    code_ids: control code -> the ids in front of its texts; None for no codes.
    heads: names of the auxiliaries beside it.
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
  latent = ', latent="prior", rules="cvae"' if needs_latent else ""
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
  if heads:
    lines += [
        f"Beside it, in `heads`, lie auxiliaries that steer it:"
        f" {', '.join(heads)}. ctrl_jax alone reads them.",
        "",
    ]
  if codes:
    lines += _codes(codes, extra.get("prior") or {}, code_ids or {})
  lines += [
      "The model repeats what its training text holds, its errors and biases"
      " too. What that text was is for whoever trained it to say here.",
      "",
  ]
  return "\n".join(lines)


def _codes(codes, prior, code_ids) -> list[str]:
  """A table of the codes, and how another program puts one in front."""
  lines = [
      "| control code | ids | share of the training tokens |", "|---|---|---|"
  ]
  for code in codes:
    ids = " ".join(map(str, code_ids.get(code, ())))
    share = f"{prior[code]:.4f}" if code in prior else ""
    lines.append(f"| `{code}` | {ids} | {share} |")
  lines.append("")
  if codes[0] in code_ids:
    lines += [
        "A code is no word of a text: its ids stand in front of the text's."
        " With transformers:",
        "",
        "```python",
        "import torch",
        "from transformers import AutoModelForCausalLM, AutoTokenizer",
        "",
        'model = AutoModelForCausalLM.from_pretrained("THIS_FOLDER")',
        'tokenizer = AutoTokenizer.from_pretrained("THIS_FOLDER")',
        'ids = tokenizer("It was", add_special_tokens=False,'
        ' return_tensors="pt").input_ids',
        f"code = ids.new_tensor([{list(code_ids[codes[0]])}])  # {codes[0]}",
        "model.generate(torch.cat([code, ids], dim=1))",
        "```",
        "",
    ]
  return lines
