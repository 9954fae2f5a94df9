import io
import json
import tarfile

import pytest

from ctrl_jax import errors
from ctrl_jax.data.readers import openwebtext

PAGES = {
    "0000000-aa": ("https://www.cnn.com/2018/09/20/style", "A hat.\n\nOr two."),
    "0000003-bb": ("http://example.org/x?y=1", "\u00dcber alles."),
}


def write_tar(path, members, packed="xz"):
  with tarfile.open(path, f"w:{packed}") as tar:
    for name, text in members.items():
      info = tarfile.TarInfo(name)
      info.size = len(text.encode())
      tar.addfile(info, io.BytesIO(text.encode()))


def write_pair(folder, metas=None, packed="xz"):
  write_tar(
      folder / f"2017-04-1_data.{packed}",
      {f"{k}.txt": text for k, (_, text) in PAGES.items()}, packed,
  )
  metas = metas or {
      f"{k}.json": json.dumps({"url": url, "word_count": 2})
      for k, (url, _) in PAGES.items()
  }
  write_tar(folder / f"2017-04-1_meta.{packed}", metas, packed)


@pytest.mark.parametrize("packed", ["xz", "bz2", "gz"])
def test_pages_with_their_urls(tmp_path, packed):
  write_pair(tmp_path, packed=packed)
  found = list(openwebtext.read([f"{tmp_path}/*_data.{packed}"]))
  assert [(f["url"], f["text"]) for f, _ in found] == list(PAGES.values())
  assert found[1][1].endswith(f"_data.{packed}, 0000003-bb.txt")


def test_pages_without_urls(tmp_path):
  write_pair(tmp_path)
  (tmp_path / "2017-04-1_meta.xz").unlink()
  path = [f"{tmp_path}/2017-04-1_data.xz"]
  with pytest.raises(errors.UserError, match=r"_meta\.xz.*urls=False"):
    list(openwebtext.read(path))
  found = openwebtext.read(path, urls=False)
  assert [f["text"] for f, _ in found] == [t for _, t in PAGES.values()]


@pytest.mark.parametrize(
    "metas, says",
    [
        ({"0000000-aa.json": '{"url": "u"}'}, "do not hold the same pages"),
        ({"0000003-bb.json": '{"url": "u"}'}, "do not hold the same pages"),
        ({"0000000-aa.json": "[]"}, r"0000000-aa\.json: no JSON object"),
    ],
)
def test_a_pair_that_does_not_fit(tmp_path, metas, says):
  write_pair(tmp_path, metas)
  with pytest.raises(errors.UserError, match=says):
    list(openwebtext.read([f"{tmp_path}/2017-04-1_data.xz"]))
