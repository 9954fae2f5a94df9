"""Peak memory."""

import subprocess
import sys

PROGRAM = """
from ctrl_jax.evaluation import memory
before = memory.peak_bytes()
block = b"x" * 200_000_000
after = memory.peak_bytes()
del block
print(after - before, memory.peak_bytes() - after)
"""


def test_a_block_of_known_size():
  found = subprocess.run(
      [sys.executable, "-c", PROGRAM], capture_output=True, text=True,
      check=True,
  )
  grown, later = map(int, found.stdout.split())
  assert abs(grown - 200e6) < 5e6
  assert abs(later) < 5e6  # A peak stays; the kernel counts roughly.
