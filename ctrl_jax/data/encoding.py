"""Tokenizing documents in worker processes, in order, memory bounded."""

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent import futures

import numpy as np

from ctrl_jax import errors
from ctrl_jax.data import documents
from ctrl_jax.text import tokenizer as tokenizer_lib

# Text a task: small enough to bound memory, large enough to pay for its trip.
_CHUNK_CHARS = 1 << 18
# Tasks on their way for each worker.
_TASKS_A_WORKER = 3

_tokenizer = None  # The worker's own.

Tokenized = tuple[np.ndarray, np.ndarray, np.ndarray]


def encode(
    tokenizer: tokenizer_lib.Tokenizer, document: documents.Document
) -> Tokenized:
  """Returns a document's ids and weights, the end included, and attribute.

  Returns:
    tokens int32 [n]; weights uint8 [n], 0 for the prompt of a pair; and the
    attribute's tokens, int32 [a].
  """
  prompt = tokenizer.encode(document.prompt) if document.prompt else []
  text = tokenizer.encode(document.text)
  if tokenizer.end_id is not None:
    text.append(tokenizer.end_id)
  weights = np.ones(len(prompt) + len(text), np.uint8)
  weights[: len(prompt)] = 0
  attribute = tokenizer.encode(document.attribute) if document.attribute else []
  tokens = np.array(prompt + text, np.int32)
  return tokens, weights, np.array(attribute, np.int32)


class Encoder:
  """Encodes documents in `workers` processes; a context manager.

  The result does not depend on the number of workers: 1 works in this process
  alone. As always with processes, a script that uses more must keep what it
  runs under `if __name__ == "__main__":`.
  """

  def __init__(self, tokenizer: tokenizer_lib.Tokenizer, workers: int):
    self._tokenizer = tokenizer
    self._workers = workers
    self._pool = None

  def __enter__(self) -> "Encoder":
    if self._workers > 1:
      # "spawn": a fork would copy the threads of jax and of array_record.
      self._pool = futures.ProcessPoolExecutor(
          self._workers,
          mp_context=multiprocessing.get_context("spawn"),
          initializer=_start,
          initargs=(self._tokenizer,),
      )
    return self

  def __exit__(self, *exc_info) -> None:
    if self._pool is not None:
      self._pool.shutdown(cancel_futures=True)

  def map(self, items: Iterable[tuple]) -> Iterator[tuple]:
    """Maps (key, document) to (key, tokens, weights, attribute), in order."""
    if self._pool is None:
      for key, document in items:
        yield key, *encode(self._tokenizer, document)
      return
    try:
      yield from self._map_in_pool(items)
    except futures.BrokenExecutor as e:
      raise errors.UserError(
          "A worker process died, most likely for lack of memory: set"
          " config.data.workers=1. A script that calls prepare() must do so"
          ' under `if __name__ == "__main__":`.'
      ) from e

  def _map_in_pool(self, items: Iterable[tuple]) -> Iterator[tuple]:
    pending = deque()
    for keys, chunk in _chunks(items):
      if len(pending) >= _TASKS_A_WORKER * self._workers:
        yield from _collect(*pending.popleft())
      pending.append((keys, self._pool.submit(_encode_chunk, chunk)))
    while pending:
      yield from _collect(*pending.popleft())


def _start(tokenizer: tokenizer_lib.Tokenizer) -> None:
  global _tokenizer
  _tokenizer = tokenizer
  threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
  """A pool's workers wait for ever when their parent was killed with -9."""
  multiprocessing.parent_process().join()
  os._exit(1)


def _encode_chunk(chunk: list[documents.Document]) -> list[Tokenized]:
  return [encode(_tokenizer, document) for document in chunk]


def _collect(keys: list, task: futures.Future) -> Iterator[tuple]:
  for key, encoded in zip(keys, task.result(), strict=True):
    yield key, *encoded


def _chunks(items: Iterable[tuple]) -> Iterator[tuple[list, list]]:
  keys, chunk, size = [], [], 0
  for key, document in items:
    keys.append(key)
    chunk.append(document)
    size += len(document.prompt) + len(document.text)
    if size >= _CHUNK_CHARS:
      yield keys, chunk
      keys, chunk, size = [], [], 0
  if chunk:
    yield keys, chunk
