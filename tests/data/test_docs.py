"""Documentation strings: found in order, and nothing is imported for them."""

import sys

import pytest

from ctrl_jax import errors
from ctrl_jax.data import docs


def test_docs_never_imports(tmp_path, monkeypatch):
  package = tmp_path / "bomb"
  (package / "_inner").mkdir(parents=True)
  (package / "tests").mkdir()
  long = "A text that is long enough to be kept as documentation."
  (package / "__init__.py").write_text(f'"""{long}"""\nraise RuntimeError\n')
  (package / "_inner" / "code.py").write_text(
      f'class C:\n  def m(self):\n    """{long}\n\n      indented"""\n'
      f'    def hidden():\n      """{long} hidden"""\n'
      f'if 1:\n  async def f():\n    """{long} f"""\n  def g():\n    "Short."\n'
      '  x = "\\d"\n'
  )
  (package / "broken.py").write_text("def (:\n")
  (package / "tests" / "a.py").write_text(f'"""{long}"""')
  monkeypatch.syspath_prepend(str(tmp_path))
  found = list(docs.docstrings("bomb"))
  assert found == [
      ("bomb", long),
      ("bomb.code.C.m", f"{long}\n\nindented"),
      ("bomb.code.f", f"{long} f"),
  ]
  assert list(docs.docstrings("bomb._inner")) == found[1:]
  assert "bomb" not in sys.modules
  for name in ("no_such_package", "bomb.nothing", ""):
    with pytest.raises(errors.UserError, match="is not installed"):
      list(docs.docstrings(name))


def test_docs_of_a_namespace_package_and_of_the_standard_library():
  names = [n for n, _ in docs.docstrings("orbax.checkpoint.checkpoint_utils")]
  assert names and all(n.startswith("orbax.checkpoint.") for n in names)
  first = next(docs.docstrings("stdlib"))
  assert len(first[1]) >= docs.MIN_CHARS
