"""README's sections on TPUs: commands, code, and the plans in the tables."""

import json
import re
import shlex
import subprocess
import sys
import types

import pytest
import readme_section

SECTION = readme_section.Section("### On TPUs")
ONE_DEVICE = readme_section.Section("### CTRL on one device of 16 GB")
LAUNCHED = [
    line for name in ("tpu_vm", "xpk")
    for line in SECTION.commands(f"bash launch/{name}.sh")
]
PLANS = [
    json.loads(file.read_text())
    for file in sorted((readme_section.ROOT / "docs" / "plan").glob("*.json"))
]
GIB = 2**30


@pytest.mark.parametrize(
    "line", SECTION.commands("python -m") + ONE_DEVICE.commands("python -m")
)
def test_commands(line, monkeypatch):
  if "--config=..." in line:
    line = line.replace("--config=...", "--config=configs/demo.py")
  readme_section.check_command(line, monkeypatch)


@pytest.mark.parametrize("line", LAUNCHED)
def test_slices_and_clusters(line):
  """As typed, with --dry-run: every step is printed, and the training's.

  A bucket's name goes where README says BUCKET, which is none.
  """
  bash, script, *arguments = shlex.split(line.replace("BUCKET", "my-bucket"))
  done = subprocess.run(
      [bash, script, *arguments[:1], "--dry-run", *arguments[1:]],
      cwd=readme_section.ROOT, capture_output=True, text=True, timeout=60,
  )
  assert done.returncode == 0, done.stderr
  assert "python -m ctrl_jax.train --config=" in done.stdout


def test_there_are_some():
  assert len(LAUNCHED) == 2 and len(SECTION.commands("python -m")) >= 2


def test_text_of_ones_own(monkeypatch):
  """`configs/mine_1b.py`: the model of ctrl_1b, the data of `mine`."""
  (code,) = (c for language, c in SECTION.blocks if language == "python")
  (mine,) = (
      c for language, c in
      readme_section.Section("## Train on your own text").blocks
      if language == "python" and c.startswith("# configs/mine.py")
  )
  module = types.ModuleType("configs.mine")
  exec(mine, module.__dict__)
  monkeypatch.setitem(sys.modules, "configs.mine", module)
  names = {}
  exec(code, names)
  c = names["get_config"]()
  assert (c.data.folder, c.data.sequence_length) == ("data/mine", 256)
  assert (c.tokenizer.kind, c.tokenizer.learn_from) == ("sentencepiece", ())
  assert (c.model.num_layers, c.train.batch_size) == (48, 1024)


def rows(section, first):
  """The rows of the table whose head begins with `first`, as lists."""
  table = re.search(rf"^\| {first} \|.*?\n\n", section.text + "\n\n",
                    re.M | re.S)[0]
  return [
      [cell.strip() for cell in line.strip("|").split("|")]
      for line in table.strip().splitlines()[2:]
  ]


def find(**wanted):
  (found,) = (p for p in PLANS if wanted.items() <= p.items())
  return found


def percent(mfu):
  return f"{100 * mfu:.1f} %"


def span(plan, field, text):
  """`a to b`, the least and the most of what is expected."""
  values = [
      figures[field] for name, figures in plan["training"].items()
      if name.startswith("expected")
  ]
  return f"{text(min(values))} to {text(max(values))}"


@pytest.mark.parametrize("row", rows(SECTION, "slice"), ids=" ".join)
def test_table_of_slices(row):
  slice_, length, batch, remat, memory, bound, expected, days = row
  plan = find(
      topology=slice_, sequence_length=int(length), batch_size=int(batch),
      remat=remat.strip("`"),
  )
  train = plan["training"]
  assert plan["parameters"] == 1_637_964_550 and train["memory"]["fits"]
  peak, available = (
      train["memory"][k] / GIB for k in ("peak", "available")
  )
  assert memory == f"{peak:.1f}, {available:.0f}"
  speed = train["no_overlap"]
  assert bound == f"{percent(speed['mfu'])}, {speed['tokens_per_second']:,}"
  assert expected == span(plan, "mfu", lambda x: f"{100 * x:.0f}") + " %"
  assert float(days) == round(train["expected"]["days"], 1)


@pytest.mark.parametrize("length", [256, 512])
def test_the_papers_slice_is_as_fast_as_it_should_be(length):
  plan = find(
      topology="v3:8x16", sequence_length=length, batch_size=1024, remat="dots",
  )
  assert plan["training"]["no_overlap"]["mfu"] >= 0.5
  assert plan["training"]["expected"]["mfu"] >= 0.45


@pytest.mark.parametrize("row", rows(ONE_DEVICE, "configuration"), ids=" ".join)
def test_table_of_one_device(row):
  config, length, batch, memory, bound, expected = row
  name = re.match(r"`(ctrl_\w+\.py)`", config)
  plan = find(
      topology="v5e:1x1", sequence_length=int(length), batch_size=int(batch),
      config=f"configs/{name[1] if name else 'ctrl_1b_16gb.py'}",
  )
  train = plan["training"]
  assert memory == f"{train['memory']['peak'] / GIB:.1f}"
  speed = train["no_overlap"]
  assert bound == f"{percent(speed['mfu'])}, {speed['tokens_per_second']:,}"
  assert expected == span(plan, "tokens_per_second", "{:,}".format)


@pytest.mark.parametrize("row", rows(SECTION, "device"), ids=" ".join)
def test_table_of_decoding(row):
  device, *cells = row
  chip = re.search(r"v\d\w?", device)[0]
  plans = [
      p["decoding"] for p in PLANS
      if p["parameters"] == 1_637_964_550 and p["decoding"]
      and p["topology"].startswith(f"{chip}:")
  ]
  assert plans
  for decoding in plans:
    assert [d["batch"] for d in decoding] == [1, 8, 32, 128]
    assert cells == [
        f"{d['tokens_per_second']:,}" if d["memory"]["fits"]
        else "does not fit" for d in decoding
    ]


def test_the_cvae():
  plan = find(config="configs/cvae_gpt2.py", topology="v5e:2x4")
  train = plan["training"]
  text = " ".join(SECTION.prose.split())
  assert plan["trained"] == plan["parameters"]
  assert (
      f"takes {train['memory']['peak'] / GIB:.1f} GiB a chip of v5e:2x4, with"
      f" {train['no_overlap']['tokens_per_second']:,} tokens/s by the bound and"
      f" {span(plan, 'tokens_per_second', '{:,}'.format)} expected"
  ) in text
