import io
import tarfile

import pytest

from ctrl_jax import errors
from ctrl_jax.data.readers import new_york_times

ARTICLE = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE nitf SYSTEM "http://www.nitf.org/IPTC/NITF/3.3/specification/nitf.dtd">
<nitf change.date="June 10, 2005" version="-//IPTC//DTD NITF 3.3//EN">
  <head><title>Rain</title></head>
  <body>
    <body.head><hedline><hl1>Rain in the  City</hl1></hedline></body.head>
    <body.content>
      <block class="lead_paragraph"><p>It rained.</p></block>
      <block class="full_text">
        <p>It rained.</p>
        <p>It rained &amp; <em>poured</em>
           again.</p>
      </block>
    </body.content>
  </body>
</nitf>
"""


def write(path, *articles):
  with tarfile.open(path, "w:gz") as tar:
    for i, article in enumerate(articles):
      info = tarfile.TarInfo(f"01/0{i}/000{i}.xml")
      info.size = len(article.encode())
      tar.addfile(info, io.BytesIO(article.encode()))
  return str(path)


def test_full_text_alone(tmp_path):
  path = write(
      tmp_path / "01.tgz", ARTICLE, ARTICLE.replace("full_text", "other")
  )
  assert list(new_york_times.read([path])) == [(
      {
          "headline": "Rain in the City",
          "text": "It rained.\nIt rained & poured again.",
      },
      f"{path}, 01/00/0000.xml",
  )]
  (tmp_path / "1.xml").write_text(ARTICLE)
  assert len(list(new_york_times.read([f"{tmp_path}/*.xml"]))) == 1


def test_damage(tmp_path):
  path = write(tmp_path / "01.tgz", ARTICLE[:-20])
  with pytest.raises(errors.UserError, match=r"0000\.xml: not XML"):
    list(new_york_times.read([path]))
