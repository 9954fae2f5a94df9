"""Generation, tokens/s: ours beside Hugging Face's CTRLLMHeadModel in PyTorch.

  python benchmarks/generation.py --torch_python=OTHER_ENV/bin/python

The same configuration with random weights (V=8192, d=256, f=1024, 4 layers, 8
heads, T=256), prompts of 16 tokens, 128 new tokens, greedy with penalty 1.2
(the sign-aware rule, which is theirs), float32, key-value caches on. The two
take turns, a round each; the ratio is the median over neighbouring rounds, and
the exit code 1 where one is below its target. Needs a quiet machine: PyTorch's
threads wait for each other in a busy loop, and drop to a few tokens/s where a
core is taken. `taskset -c 0` before the command gives both one core, which is
steadier.

PyTorch and transformers need not be installed where this project is:
--torch_python names the Python that has them.
"""

import json
import pathlib
import random
import statistics
import sys
import time

import side_by_side

PROMPT_TOKENS = 16
NEW_TOKENS = 128
PENALTY = 1.2
BATCH_SIZES = (1, 8)
TARGETS = {1: 5.0, 8: 3.0}


def prompts(batch_size: int) -> list[list[int]]:
  draw = random.Random(batch_size)
  vocab_size = side_by_side.CONFIG["vocab_size"]
  return [
      [draw.randrange(vocab_size) for _ in range(PROMPT_TOKENS)]
      for _ in range(batch_size)
  ]


def ours():
  """Returns (seconds of one call for a batch size, versions)."""
  side_by_side.import_ours()
  import jax

  from ctrl_jax.decoding.generator import Generator, Row
  from ctrl_jax.decoding.options import GenerationOptions
  from ctrl_jax.models import transformer
  from ctrl_jax.models.config import TransformerConfig

  config = TransformerConfig(**side_by_side.CONFIG, dtype="float32")
  generator = Generator(config, transformer.init(config, jax.random.key(0)))
  options = GenerationOptions(
      max_new_tokens=NEW_TOKENS, penalty=PENALTY, penalty_rule="sign_aware"
  )

  def seconds(batch_size: int) -> float:
    rows = [Row(p, 1, (i, 0)) for i, p in enumerate(prompts(batch_size))]
    start = time.perf_counter()
    generator.run(rows, options)
    taken = time.perf_counter() - start
    assert all(len(row.ids) == NEW_TOKENS for row in rows)
    return taken

  return seconds, f"jax {jax.__version__}"


def torch_worker() -> None:
  """Answers every batch size read with the seconds of one call."""
  import torch

  model, versions = side_by_side.their_model()
  model.eval()

  def seconds(batch_size: int) -> float:
    ids = torch.tensor(prompts(batch_size))
    start = time.perf_counter()
    with torch.no_grad():
      out = model.generate(
          ids, attention_mask=torch.ones_like(ids), do_sample=False,
          max_new_tokens=NEW_TOKENS, min_new_tokens=NEW_TOKENS,
          repetition_penalty=PENALTY, pad_token_id=0,
      )
    taken = time.perf_counter() - start
    assert out.shape == (len(ids), PROMPT_TOKENS + NEW_TOKENS)
    return taken

  side_by_side.serve(seconds, versions)


def main() -> None:
  arguments = side_by_side.arguments(__doc__, rounds=15)
  if arguments.torch_worker:
    return torch_worker()

  their_seconds, their_versions = side_by_side.ask(
      __file__, arguments.torch_python
  )
  our_seconds, our_versions = ours()
  report = dict(
      ours=our_versions, theirs=their_versions, config=side_by_side.CONFIG,
      prompt_tokens=PROMPT_TOKENS, new_tokens=NEW_TOKENS, penalty=PENALTY,
      rounds=arguments.rounds, batch_sizes={},
  )
  print(f"{our_versions} beside {their_versions}; medians of"
        f" {arguments.rounds} rounds")
  for batch_size in BATCH_SIZES:
    for seconds in (our_seconds, their_seconds) * 2:  # Compiles, warms up.
      seconds(batch_size)
    rounds = [
        (our_seconds(batch_size), their_seconds(batch_size))
        for _ in range(arguments.rounds)
    ]
    tokens = batch_size * NEW_TOKENS
    row = dict(
        our_tokens_per_s=statistics.median(tokens / a for a, _ in rounds),
        their_tokens_per_s=statistics.median(tokens / b for _, b in rounds),
        ratio=statistics.median(b / a for a, b in rounds),
        target=TARGETS[batch_size],
    )
    report["batch_sizes"][batch_size] = row
    print(f"batch {batch_size}: ours {row['our_tokens_per_s']:.0f} tokens/s,"
          f" theirs {row['their_tokens_per_s']:.0f}, ratio {row['ratio']:.2f}"
          f" (to reach: {row['target']:.0f})", flush=True)
  if arguments.output:
    pathlib.Path(arguments.output).write_text(json.dumps(report, indent=2))
  rows = report["batch_sizes"].values()
  sys.exit(int(any(row["ratio"] < row["target"] for row in rows)))


if __name__ == "__main__":
  main()
