"""Runs a notebook's code cells in turn in this process, as one program.

  python run_notebook.py NOTEBOOK SETTINGS.json

SETTINGS replace what the cell with the tag "parameters" assigns. There is no
Colab: its Drive is any folder, and installing is left out.
"""

import json
import sys
import types

import jax  # Before there is a google.colab: it would expect more of it.

jax.devices()


def main(notebook, settings):
  drive = types.ModuleType("google.colab")
  mounted = []
  drive.drive = types.SimpleNamespace(mount=mounted.append)
  sys.modules["google.colab"] = drive
  names = {"__name__": "__main__"}
  for i, cell in enumerate(notebook["cells"]):
    if cell["cell_type"] != "code":
      continue
    source = "".join(cell["source"])
    source = source.replace("ROOT = install(PROJECT)", "")
    exec(compile(source, f"cell {i}", "exec"), names)
    if "parameters" in cell["metadata"].get("tags", ()):
      unknown = settings.keys() - names.keys()
      assert not unknown, f"the notebook has no setting {unknown}"
      names |= settings
  assert mounted == ["/content/drive"] * settings["ON_DRIVE"]


if __name__ == "__main__":
  with open(sys.argv[1]) as n, open(sys.argv[2]) as s:
    main(json.load(n), json.load(s))
