"""A folder that stands in for the bucket `gs://bucket`."""

import fsspec.implementations.local
from etils.epath import backend


def make(tmp_path, monkeypatch):
  """Returns the folder that `gs://bucket` names from now on."""
  folder = tmp_path / "gs" / "bucket"
  folder.mkdir(parents=True)

  class Bucket(fsspec.implementations.local.LocalFileSystem):

    @classmethod
    def _strip_protocol(cls, path):
      path = str(path).removeprefix(str(tmp_path / "gs") + "/")
      return str(tmp_path / "gs" / path.removeprefix("gs://"))

    def _open(self, path, mode="rb", **kwargs):
      # As gcsfs does: objects do not grow.
      return super()._open(path, mode.replace("a", "w"), **kwargs)

  files = Bucket()
  monkeypatch.setattr(
      type(backend.fsspec_backend), "fs", lambda self, path: files
  )
  return folder
