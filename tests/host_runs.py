"""Starts programs as several processes on this machine, for tests."""

import contextlib
import os
import socket
import subprocess
import sys

# The machine's own name need not be known to any name server.
_START = """
import functools, sys
import jax  # First: it sets how much jaxlib logs.
from jaxlib import _jax
_jax.make_gloo_tcp_collectives = functools.partial(
    _jax.make_gloo_tcp_collectives, hostname="127.0.0.1")
"""
# `python -m ctrl_jax.train` with the arguments that follow.
TRAIN = """
from ctrl_jax import command, train
command.run(train.main, train.FLAGS, train.__doc__, sys.argv)
"""


def free_port() -> int:
  with socket.create_server(("127.0.0.1", 0)) as server:
    return server.getsockname()[1]


def environment(count, index, port, devices):
  """The variables of one of `count` processes; of one alone without them."""
  flags = os.environ["XLA_FLAGS"]
  env = os.environ | {
      "JAX_PLATFORMS": "cpu",
      "XLA_FLAGS": f"{flags} --xla_force_host_platform_device_count={devices}",
      "PYTHONPATH": os.pathsep.join([os.getcwd(), f"{os.getcwd()}/tests"]),
  }
  if count > 1:
    env |= {
        "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}",
        "JAX_NUM_PROCESSES": str(count),
        "JAX_PROCESS_ID": str(index),
    }
  return env


@contextlib.contextmanager
def started(count, program, *arguments, devices=4, indices=None):
  """Starts a program once for each of `count` processes, or of `indices`.

  Args:
    count: of the processes that each is told of.
    program: Python, as `TRAIN`.
    *arguments: its `sys.argv[1:]`.
    devices: virtual CPU devices of each.
    indices: which processes come; all when None.

  Yields:
    The `subprocess.Popen` of each; those that are left are killed.
  """
  port = free_port()
  processes = [
      subprocess.Popen(
          [sys.executable, "-c", _START + program, *map(str, arguments)],
          env=environment(count, index, port, devices), text=True,
          # Where gloo writes, in the middle of lines.
          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
      )
      for index in (range(count) if indices is None else indices)
  ]
  try:
    yield processes
  finally:
    for process in processes:
      process.kill()
      process.wait()


def ended(processes, timeout=900):
  """Waits; returns (exit code, stderr) of each."""
  results = []
  for process in processes:
    _, err = process.communicate(timeout=timeout)
    results.append((process.returncode, err))
  return results
