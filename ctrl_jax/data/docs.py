"""Documentation strings of installed Python packages, read without importing.

Real English that every machine with this project has: each package is a
domain, each string's qualified name its secondary code.
"""

import ast
import importlib.util
import inspect
import logging
import os
import pathlib
import sysconfig
import tokenize
import warnings
from collections.abc import Iterator

from ctrl_jax import errors

_log = logging.getLogger(__name__)

# Shorter strings ("See base class.") teach nothing.
MIN_CHARS = 40
# Folders without documentation of their own, or with other packages in them.
_SKIPPED = frozenset((
    "site-packages", "dist-packages", "__pycache__", "test", "tests", "_tests",
    "testdata", "idlelib", "lib2to3", "turtledemo", "ensurepip", "_vendor",
    "_vendored",
))


def docstrings(package: str) -> Iterator[tuple[str, str]]:
  """Yields (qualified name, text) of a package's documentation strings.

  Those of modules, classes, functions and methods, in the order of file names
  and lines. Module names that start with `_` are left out of the qualified
  name: `jax._src.numpy.linalg.norm` is `jax.numpy.linalg.norm`. A file that
  is no Python of this version is skipped, and the log says how many were.

  Args:
    package: import name, `jax` or `scipy.stats`; "stdlib" is the standard
      library.

  Raises:
    errors.UserError: there is no such package.
  """
  skipped = 0
  for file, module in _files(package):
    try:
      tree = _parse(file)
    except (SyntaxError, ValueError, RecursionError, OSError):
      skipped += 1
      continue
    for name, node in _documented(tree, _public(module)):
      text = inspect.cleandoc(node.body[0].value.value).strip()
      if len(text) >= MIN_CHARS:
        yield name, text
  if skipped:
    _log.info("docs: %d files of %s could not be read.", skipped, package)


def _files(package: str) -> Iterator[tuple[pathlib.Path, str]]:
  """Yields a package's Python files and their modules' names, sorted."""
  if package == "stdlib":
    yield from _walk(pathlib.Path(sysconfig.get_paths()["stdlib"]), "")
    return
  found = False
  for root in _roots(package):
    if root.is_dir():
      found = True
      yield from _walk(root, package)
    elif root.with_suffix(".py").is_file():
      found = True
      yield root.with_suffix(".py"), package
  if not found:
    raise errors.UserError(
        f"The package {package!r} is not installed here: pip install it, or"
        " leave it out of the sources of kind 'docs'."
    )


def _roots(package: str) -> list[pathlib.Path]:
  """Returns where a package's folder, or its module less `.py`, may be."""
  top, *rest = package.split(".")
  try:
    # Of a name without dots this runs the finders but not the package.
    spec = importlib.util.find_spec(top)
  except (ImportError, ValueError):
    spec = None
  if spec is None:
    return []
  if spec.submodule_search_locations is not None:
    folders = sorted(map(pathlib.Path, spec.submodule_search_locations))
    return [folder.joinpath(*rest) for folder in folders]
  if rest or not spec.origin or not spec.origin.endswith(".py"):
    return []
  return [pathlib.Path(spec.origin).with_suffix("")]


def _walk(root: pathlib.Path, package: str) -> Iterator[tuple]:
  for folder, subfolders, names in os.walk(root):
    subfolders[:] = sorted(
        f for f in subfolders if f not in _SKIPPED and f.isidentifier()
    )
    prefix = [package, *pathlib.Path(folder).relative_to(root).parts]
    for name in sorted(names):
      stem, extension = os.path.splitext(name)
      if extension == ".py" and not _is_test(stem):
        parts = prefix if stem == "__init__" else [*prefix, stem]
        yield pathlib.Path(folder, name), ".".join(filter(None, parts))


def _is_test(stem: str) -> bool:
  return (
      stem.startswith("test_") or stem.endswith("_test") or stem == "conftest"
  )


def _parse(file: pathlib.Path) -> ast.Module:
  with tokenize.open(file) as f, warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Other people's invalid escapes.
    return ast.parse(f.read())


def _public(module: str) -> str:
  return ".".join(p for p in module.split(".") if not p.startswith("_"))


def _documented(tree: ast.Module, module: str) -> Iterator[tuple[str, ast.AST]]:
  """Yields (qualified name, node) of all that has a documentation string."""
  if ast.get_docstring(tree, clean=False):
    yield module, tree
  pending = [(module, child) for child in reversed(tree.body)]
  while pending:
    prefix, node = pending.pop()
    inner = prefix
    if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
      inner = f"{prefix}.{node.name}" if prefix else node.name
      if ast.get_docstring(node, clean=False):
        yield inner, node
    # Into classes and `if`s, but not into what a function keeps to itself.
    if isinstance(node, (ast.ClassDef, ast.If, ast.Try, ast.With)):
      children = [*node.body, *getattr(node, "orelse", ())]
      for handler in getattr(node, "handlers", ()):
        children.extend(handler.body)
      pending.extend((inner, child) for child in reversed(children))
