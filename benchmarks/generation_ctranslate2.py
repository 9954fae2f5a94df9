"""Generation, tokens/s: our export in CTranslate2 beside ours in JAX.

  pip install ctranslate2
  python benchmarks/generation_ctranslate2.py

The model of `generation.py` (random weights, 16 tokens of prompt, 128 new ones,
greedy, no penalty), exported as `convert --format=ctranslate2` does, with
float32 and with 8-bit weights. The programs take turns; medians.
"""

import json
import pathlib
import statistics
import tempfile
import time

import side_by_side
from generation import BATCH_SIZES, NEW_TOKENS, prompts


def main() -> None:
  arguments = side_by_side.arguments(__doc__, rounds=9)
  import ctranslate2

  side_by_side.import_ours()
  import jax

  from ctrl_jax.decoding.generator import Generator, Row
  from ctrl_jax.decoding.options import GenerationOptions
  from ctrl_jax.interop import ctranslate2 as export
  from ctrl_jax.models import transformer
  from ctrl_jax.models.config import TransformerConfig

  config = TransformerConfig(**side_by_side.CONFIG, dtype="float32")
  params = transformer.init(config, jax.random.key(0))
  generator = Generator(config, params)
  options = GenerationOptions(max_new_tokens=NEW_TOKENS, penalty=1.0)

  def ours(batch_size):
    rows = [Row(p, 1, (i, 0)) for i, p in enumerate(prompts(batch_size))]
    generator.run(rows, options)
    return [row.ids for row in rows]

  def theirs(quantization):
    tokens = [str(i) for i in range(config.vocab_size)]
    with tempfile.TemporaryDirectory() as folder:
      export.write(folder, config, params, tokens, end=None, unknown=None,
                   quantization=quantization)
      program = ctranslate2.Generator(folder)

    def run(batch_size):
      results = program.generate_batch(
          [[str(i) for i in p] for p in prompts(batch_size)],
          max_length=NEW_TOKENS, min_length=NEW_TOKENS, end_token=[],
          include_prompt_in_result=False,
      )
      return [[int(t) for t in r.sequences[0]] for r in results]

    return run

  programs = {"jax": ours, "float32": theirs("float32"), "int8": theirs("int8")}
  report = {"new_tokens": NEW_TOKENS, "rounds": arguments.rounds}
  for batch_size in BATCH_SIZES:
    taken = {name: [] for name in programs}
    for _ in range(arguments.rounds + 1):  # The first warms up.
      for name, run in programs.items():
        start = time.perf_counter()
        run(batch_size)
        taken[name].append(time.perf_counter() - start)
    rates = {
        name: batch_size * NEW_TOKENS / statistics.median(seconds[1:])
        for name, seconds in taken.items()
    }
    same = ours(batch_size) == programs["float32"](batch_size)
    report[f"batch_{batch_size}"] = rates | {"same_tokens_in_float32": same}
    print(f"batch {batch_size}: "
          + ", ".join(f"{k} {v:.0f} tokens/s" for k, v in rates.items())
          + f"; the same tokens in float32: {same}")
  if arguments.output:
    pathlib.Path(arguments.output).write_text(
        json.dumps(report, indent=1) + "\n"
    )


if __name__ == "__main__":
  main()
