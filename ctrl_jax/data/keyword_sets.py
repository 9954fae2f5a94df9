"""Sets of keyword triples on disk: made whole, read back checked."""

import collections
import dataclasses
import gzip
import hashlib
import itertools
import json
import math
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

from ctrl_jax import errors
from ctrl_jax.data import (
    documents,
    files,
    keyword_candidates,
    manifest,
    replace,
    sources,
)
from ctrl_jax.data import keywords as keywords_lib

SPLITS = sources.SPLITS
FILE = manifest.FILE
VERSION = 1
_KIND = "keywords"


@dataclasses.dataclass(frozen=True)
class Limits:
  """How many triples a set holds.

  Attributes:
    max_per_keyword: at most so many a keyword and split, 0 for all of them; it
      bounds memory too.
    test_per_keyword: if not 0, the test set holds exactly so many of each
      keyword, and none of those that have fewer: every keyword weighs the
      same.
    min_train: keywords with fewer training triples are left out everywhere.
  """

  max_per_keyword: int = 5000
  test_per_keyword: int = 0
  min_train: int = 1

  def __post_init__(self):
    if min(self.max_per_keyword, self.test_per_keyword) < 0 or (
        self.min_train < 1
    ):
      raise errors.UserError(
          "max_per_keyword and test_per_keyword must be 0 or more, and"
          " min_train 1 or more."
      )
    if 0 < self.max_per_keyword < max(self.test_per_keyword, self.min_train):
      raise errors.UserError(
          f"max_per_keyword={self.max_per_keyword} is below"
          f" test_per_keyword={self.test_per_keyword} or"
          f" min_train={self.min_train}: no keyword would be left."
      )


def write(
    folder,
    found: Iterable[keyword_candidates.Candidate],
    limits: Limits,
    settings: Mapping[str, Any],
) -> "KeywordSet":
  """Writes a set; the folder appears complete or not at all.

  A sentence that comes twice counts once, the first time; no sentence is in
  two splits. Which ones a limit keeps depends on hashes of them alone.

  Args:
    folder: what to make or to replace.
    found: candidates; memory holds those that are kept.
    limits: how many of them.
    settings: what the set is made of, stored in its manifest.

  Raises:
    errors.UserError: nothing is left to train on, or no test triples of which
      there must be some.
  """
  with (
      replace.replacing(folder, KIND) as partial,
      documents.Seen(partial / "seen.db") as seen,
  ):
    samples, dropped = _collect(found, seen, limits)
    _apply_limits(samples, dropped, limits)
    counts = {
        keyword: {s: len(samples[s].get(keyword, ())) for s in SPLITS}
        for keyword in sorted(samples["train"])
    }
    infos = {}
    for split in SPLITS:
      file = partial / f"{split}.jsonl.gz"
      lines = itertools.chain.from_iterable(samples[split].values())
      file.write_bytes(_compressed(sorted(lines, key=_order)))
      infos[file.name] = dataclasses.asdict(manifest.file_info(file))
    fields = dict(
        kind=_KIND, version=VERSION, settings=settings, keywords=counts,
        dropped={reason: n for reason, n in sorted(dropped.items()) if n},
        files=infos,
    )
    text = json.dumps(fields, indent=1, ensure_ascii=False)
    (partial / FILE).write_text(text + "\n", encoding="utf-8")
  return KeywordSet.load(folder)


def _collect(found, seen, limits: Limits):
  """Returns {split: {keyword: lines}} and how many were dropped and why."""
  samples = {split: {} for split in SPLITS}
  dropped = collections.Counter()
  offered = 0
  for candidate in found:
    triple = candidate.triple
    if triple is None:
      dropped[candidate.reason] += 1
    elif not seen.add(candidate.digest):
      dropped["duplicate sentence"] += 1
    else:
      of_split = samples[candidate.split]
      if triple.keyword not in of_split:
        of_split[triple.keyword] = documents.Sample(
            limits.max_per_keyword or math.inf, lambda line: 1
        )
      line = json.dumps(triple._asdict(), ensure_ascii=False)
      of_split[triple.keyword].add(candidate.digest, line)
      offered += 1
  lines = {
      split: {keyword: sample.texts() for keyword, sample in of_split.items()}
      for split, of_split in samples.items()
  }
  dropped["over max_per_keyword"] = offered - sum(
      len(kept) for of_split in lines.values() for kept in of_split.values()
  )
  return lines, dropped


def _apply_limits(samples, dropped, limits: Limits) -> None:
  """Takes away what `min_train` and `test_per_keyword` exclude."""
  train, test = samples["train"], samples["test"]
  for split in SPLITS[::-1]:  # The training set last: it decides.
    for keyword in list(samples[split]):
      if len(train.get(keyword, ())) < limits.min_train:
        dropped["keyword too rare in train"] += len(samples[split].pop(keyword))
  if not train:
    raise errors.UserError(
        "No training triple is left"
        f" ({_shown(dropped) or 'there were no sentences'}). Check the"
        " inventory, the sources and the limits."
    )
  exact = limits.test_per_keyword
  if not exact:
    return
  most = max(map(len, test.values()), default=0)
  for keyword, lines in list(test.items()):
    kept = lines[:exact] if len(lines) >= exact else []
    dropped["to balance the test set"] += len(lines) - len(kept)
    test[keyword] = kept
    if not kept:
      del test[keyword]
  if not test:
    raise errors.UserError(
        f"No keyword has test_per_keyword={exact} test triples, the most"
        f" frequent {most}. Lower it, raise data.test_fraction, or add text."
    )


def _shown(dropped: Mapping[str, int]) -> str:
  """Returns what was dropped and why, on one line; "" for nothing."""
  return ", ".join(f"{n:,} {reason}" for reason, n in dropped.items() if n)


def _order(line: str) -> bytes:
  # Any fixed order that mixes keywords and sources.
  return hashlib.sha256(line.encode()).digest()


def _compressed(lines: Iterable[str]) -> bytes:
  # No time stamp: the same triples are the same file.
  return gzip.compress("".join(f"{x}\n" for x in lines).encode(), 6, mtime=0)


def is_set(folder) -> bool:
  """Returns whether a folder holds a set, damaged perhaps."""
  file = pathlib.Path(folder) / FILE
  mark = json.dumps(dict(kind=_KIND))[1:-1]
  return file.is_file() and mark in file.read_text("utf-8", "replace")


KIND = replace.Kind("keyword set", is_set, "Choose another --output.")


@dataclasses.dataclass(frozen=True)
class KeywordSet:
  """A set of triples in a folder.

  Attributes:
    folder: where it lies.
    settings: what it was made of.
    counts: keyword -> split -> triples, of the keywords that have any in train.
    dropped: reason -> sentences.
  """

  folder: pathlib.Path
  settings: Mapping[str, Any]
  counts: Mapping[str, Mapping[str, int]]
  dropped: Mapping[str, int]

  @classmethod
  def load(cls, folder) -> "KeywordSet":
    """Reads a set's manifest and checks that its files are whole.

    Raises:
      errors.UserError: no such set there, or a file is not as it was written.
    """
    folder = pathlib.Path(files.expand(str(folder)))
    try:
      text = (folder / FILE).read_text(encoding="utf-8")
      fields = json.loads(text)
      if (fields["kind"], fields["version"]) != (_KIND, VERSION):
        raise KeyError("kind")
      for name, info in fields["files"].items():
        path = folder / name
        if not path.is_file() or (
            dataclasses.asdict(manifest.file_info(path)) != info
        ):
          raise errors.UserError(
              f"Damaged keyword set: {str(path)!r} is missing or not what was"
              " written. Make it again with --force."
          )
      return cls(
          folder, fields["settings"], fields["keywords"], fields["dropped"]
      )
    except FileNotFoundError as e:
      raise errors.UserError(
          f"No keyword set in {str(folder)!r}: make it with python -m"
          " ctrl_jax.keywords."
      ) from e
    except (KeyError, TypeError, AttributeError, ValueError) as e:
      if isinstance(e, errors.UserError):
        raise
      raise errors.UserError(
          f"{str(folder / FILE)!r} is no manifest of a keyword set of this"
          " version: make the set again with --force."
      ) from e

  @property
  def keywords(self) -> tuple[str, ...]:
    """The inventory: keywords with training triples, sorted."""
    return tuple(self.counts)

  def size(self, split: str) -> int:
    """Returns the number of triples in a split."""
    return sum(counts[split] for counts in self.counts.values())

  def read(self, split: str) -> list[keywords_lib.Triple]:
    """Returns a split's triples, in a fixed order that mixes keywords."""
    assert split in SPLITS, split
    lines = files.lines(str(self.folder / f"{split}.jsonl.gz"))
    return [keywords_lib.Triple(**json.loads(line)) for line in lines]

  def report(self) -> str:
    """Returns the counts as a table for the terminal."""
    width = max(7, *map(len, self.keywords))
    rows = [
        ("keyword", *SPLITS),
        *(
            (keyword, *(f"{counts[s]:,}" for s in SPLITS))
            for keyword, counts in self.counts.items()
        ),
        ("all", *(f"{self.size(s):,}" for s in SPLITS)),
    ]
    lines = [
        row[0].ljust(width) + "".join(value.rjust(12) for value in row[1:])
        for row in rows
    ]
    lines.append(
        f"{len(self.keywords)} keywords in {self.folder}; dropped:"
        f" {_shown(self.dropped) or 'none'}"
    )
    lines += [
        f"The {split} split is EMPTY: raise data.{split}_fraction, or add text."
        for split in SPLITS if not self.size(split)
    ]
    return "\n".join(lines)
