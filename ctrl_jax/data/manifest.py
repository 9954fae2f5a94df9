"""The manifest of a prepared data set: what is in it, and checks that it is."""

import dataclasses
import hashlib
import json
import os
import pathlib
from collections.abc import Mapping

from etils import epath

from ctrl_jax import errors
from ctrl_jax.data import buckets, sequences

FILE = "manifest.json"
# How text without a control code is called where codes are listed.
NO_CODE = "(no code)"
VERSION = 1
# Files with checksums of their own, compared when a record or text is read.
_CHECKED_WHEN_READ = (".jsonl.gz", ".tfrecords")


@dataclasses.dataclass(frozen=True)
class SourceInfo:
  """A source in a data set.

  Attributes:
    name: how reports call it.
    kind: "text", "jsonl", ...
    code: its control code.
    code_ids: the code's token ids.
    weight: multiplies its natural share of the batches.
    documents_read: all documents, those dropped included.
    dropped_documents: reason ("duplicate", "empty", ...) -> number.
    splits: split -> counts of what it holds of this source.
    ranges: split -> (start, end), its records' place in the split.
  """

  name: str
  kind: str
  code: str
  code_ids: tuple[int, ...]
  weight: float
  documents_read: int
  dropped_documents: Mapping[str, int]
  splits: Mapping[str, sequences.Counts]
  ranges: Mapping[str, tuple[int, int]]


@dataclasses.dataclass(frozen=True)
class FileInfo:
  """A file of a data set: its size and SHA-256."""

  bytes: int
  sha256: str


@dataclasses.dataclass(frozen=True)
class Manifest:
  """What a data set holds.

  Attributes:
    folder: where it lies (not stored); of one in a bucket its copy here.
    sequence_length: inputs of a row; records hold one token more.
    vocab_size: of the tokenizer.
    tokenizer_hash: `Tokenizer.hash` of the tokenizer in `folder/tokenizer`.
    codes: the control codes, in the order of the configuration.
    prior: code -> share of the tokens trained on; sums to 1. "" is text without
      a code.
    sources: in the order of their records.
    hash: SHA-256 over the records' content, in order, and the tokenizer.
    seed: salt of the split.
    attribute_length: tokens of an attribute at most; 0 for no attributes.
    attributes: all of the training documents', sorted; empty if they are text
      rather than an inventory, see `inventory.Inventory`.
    config: the sections `data` and `tokenizer` it was made with.
    files: path inside the folder -> size and SHA-256, records first.
  """

  folder: pathlib.Path
  sequence_length: int
  vocab_size: int
  tokenizer_hash: str
  codes: tuple[str, ...]
  prior: Mapping[str, float]
  sources: tuple[SourceInfo, ...]
  hash: str
  seed: int
  config: Mapping
  files: Mapping[str, FileInfo]
  attribute_length: int = 0
  attributes: tuple[str, ...] = ()

  @classmethod
  def load(cls, folder, hint: str = "") -> "Manifest":
    """Reads a data set's manifest and checks that its files are whole.

    Of every file the size is compared; of what is small beside the records (the
    tokenizer, descriptions, an index of TFRecords) the SHA-256, too. Records
    and texts have checksums of their own, compared when they are read; `verify`
    reads everything. Of a data set in a bucket it is done with its copy, see
    `bucket_sets.load`.

    Args:
      folder: the data set, here or in a bucket.
      hint: what makes the data set, for the message when it is missing.

    Raises:
      errors.UserError: no data set there, one of another version, or a file
        is missing or is not as it was written.
    """
    if buckets.is_remote(str(folder)):
      from ctrl_jax.data import bucket_sets  # It imports this module.

      return bucket_sets.load(str(folder), hint)
    manifest = cls.read(folder, hint)
    manifest.check_sizes()
    for name in manifest.files:
      if not (
          name.endswith(_CHECKED_WHEN_READ) or ".array_record" in name
      ):
        manifest._check_hash(name)
    return manifest

  @classmethod
  def read(cls, folder, hint: str = "") -> "Manifest":
    """Reads the manifest alone, of a data set in a bucket, too.

    Raises:
      errors.UserError: see `load`.
    """
    return cls.parse(folder, read_bytes(folder, hint))

  @classmethod
  def parse(cls, folder, content: bytes) -> "Manifest":
    """Returns what the manifest of a data set says, from its bytes.

    Raises:
      errors.UserError: it is damaged, or of another version.
    """
    folder = _path(folder)
    file = folder / FILE
    try:
      fields = json.loads(content)
      version = fields.pop("version")
      if version == VERSION:
        return _from_json(folder, fields)
    except (ValueError, TypeError, KeyError, AttributeError) as e:
      raise errors.UserError(
          f"{str(file)!r} is damaged ({e}). Prepare the data set again with"
          " --force."
      ) from e
    raise errors.UserError(
        f"{str(file)!r} has version {version}; this program reads {VERSION}."
        " Prepare the data set again with --force."
    )

  def save(self) -> None:
    """Writes the manifest into its folder."""
    fields = dataclasses.asdict(self)
    del fields["folder"]
    text = json.dumps(
        {"version": VERSION, **fields}, indent=1, ensure_ascii=False
    )
    (self.folder / FILE).write_text(text + "\n", encoding="utf-8")

  def check_sizes(self) -> None:
    """Checks that every file is there and as long as it was written.

    Raises:
      errors.UserError: one is not.
    """
    for name, info in self.files.items():
      size = buckets.size(self.folder / name)
      if size != info.bytes:
        state = "is missing" if size is None else f"has {size} bytes"
        raise errors.UserError(
            f"Damaged data set: {str(self.folder / name)!r} {state} where"
            f" {info.bytes} bytes were written. Prepare it again with --force."
        )

  def verify(self) -> None:
    """Reads every file and compares its SHA-256.

    Raises:
      errors.UserError: a file is not as it was written.
    """
    self.check_sizes()
    for name in self.files:
      self._check_hash(name)

  def _check_hash(self, name: str) -> None:
    if file_info(self.folder / name) != self.files[name]:
      raise errors.UserError(
          f"Damaged data set: {str(self.folder / name)!r} is not what was"
          " written. Restore it from a copy, or prepare it again with --force"
          " (an index of TFRecords: delete its folder)."
      )

  def size(self, split: str) -> int:
    """Returns the number of records in a split."""
    return sum(s.splits[split].sequences for s in self.sources)

  @property
  def labels(self) -> list[str]:
    """The code of each source, `NO_CODE` for none."""
    return [s.code or NO_CODE for s in self.sources]

  @property
  def tokenizer_folder(self) -> pathlib.Path:
    """Where the tokenizer lies."""
    return self.folder / "tokenizer"

  def documents_file(self, split: str) -> pathlib.Path:
    """Returns the file with a split's text: JSON lines of `code`, `text`."""
    return self.folder / "documents" / f"{split}.jsonl.gz"


def exists(folder) -> bool:
  """Whether a folder, here or in a bucket, holds a manifest."""
  return buckets.size(_path(folder) / FILE) is not None


def read_bytes(folder, hint: str = "") -> bytes:
  """Returns a manifest as it is stored, here or in a bucket.

  Raises:
    errors.UserError: there is none, or the bucket cannot be read.
  """
  if not exists(folder):
    where = "" if buckets.is_remote(str(folder)) else " on this machine"
    raise errors.UserError(
        f"No prepared data set in {str(folder)!r}{where}."
        f" {hint or 'Make it with: python -m ctrl_jax.prepare --config=...'}"
    )
  with buckets.open_file(_path(folder) / FILE) as f:
    return f.read()


def is_inside(name: str) -> bool:
  """Whether a name, in a manifest say, is of a file within its folder."""
  path = pathlib.PurePosixPath(name)
  return not path.is_absolute() and ".." not in path.parts


def file_info(path: pathlib.Path) -> FileInfo:
  """Returns a file's size and SHA-256."""
  with buckets.open_file(path) as f:
    digest = hashlib.file_digest(f, "sha256").hexdigest()
  return FileInfo(buckets.size(path), digest)


def file_infos(folder: pathlib.Path) -> dict[str, FileInfo]:
  """Returns what a manifest says of all files in a folder."""
  paths = sorted(p for p in folder.rglob("*") if p.is_file())
  return {p.relative_to(folder).as_posix(): file_info(p) for p in paths}


def _path(folder):
  folder = os.fspath(folder)
  is_remote = buckets.is_remote(folder)
  return epath.Path(folder) if is_remote else pathlib.Path(folder)


def _from_json(folder: pathlib.Path, fields: dict) -> Manifest:
  fields["codes"] = tuple(fields["codes"])
  fields["attributes"] = tuple(fields.get("attributes", ()))
  fields["sources"] = tuple(map(_source, fields["sources"]))
  fields["files"] = {k: FileInfo(**v) for k, v in fields["files"].items()}
  for name in fields["files"]:
    if not is_inside(name):
      raise ValueError(f"it names {name!r}, outside of the data set")
  return Manifest(folder=folder, **fields)


def _source(fields: dict) -> SourceInfo:
  fields["code_ids"] = tuple(fields["code_ids"])
  fields["ranges"] = {k: tuple(v) for k, v in fields["ranges"].items()}
  fields["splits"] = {
      k: sequences.Counts(**v) for k, v in fields["splits"].items()
  }
  return SourceInfo(**fields)
