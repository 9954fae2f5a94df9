"""A folder that stands in for the bucket `gs://bucket`.

As in one, folders need not be made, objects do not grow, and what is listed is
named `bucket/...`.
"""

import fsspec.implementations.local
from etils.epath import backend


def make(tmp_path, monkeypatch):
  """Returns the folder that `gs://bucket` names from now on."""
  folder = tmp_path / "gs" / "bucket"
  folder.mkdir(parents=True)

  root = str(tmp_path / "gs") + "/"

  class Bucket(fsspec.implementations.local.LocalFileSystem):

    @classmethod
    def _strip_protocol(cls, path):
      path = str(path).removeprefix(root)
      return str(tmp_path / "gs" / path.removeprefix("gs://"))

    def glob(self, path, **kwargs):
      return [p.removeprefix(root) for p in super().glob(path, **kwargs)]

    def _open(self, path, mode="rb", **kwargs):
      return super()._open(path, mode.replace("a", "w"), **kwargs)

  files = Bucket(auto_mkdir=True, skip_instance_cache=True)
  monkeypatch.setattr(
      type(backend.fsspec_backend), "fs", lambda self, path: files
  )
  return folder
