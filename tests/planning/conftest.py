"""The TPU compiler, where launch/test.sh has put it."""

import os
import sys

# Beside the environment, not inside: there every command would look for TPUs.
if folder := os.environ.get("CTRL_JAX_TPU_COMPILER"):
  sys.path.append(folder)
