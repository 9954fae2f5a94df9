"""Resuming, time and seeds, with methods that cost nothing."""

import dataclasses
import types

import ml_collections
import pytest

import ctrl_jax
from ctrl_jax import errors, saved_model
from ctrl_jax.experiments import lines, models, stages
from ctrl_jax.text import sentencepiece


@dataclasses.dataclass(frozen=True)
class Method(stages.Method):
  colour: str = "red"


class Counting(stages.Experiment):
  """Counts its measurements, of methods that are trained nowhere."""

  method = Method
  measured = ()

  def measure(self, method, trained, seed):
    self.measured += ((method.name, trained.model, seed),)
    return dict(colour=method.colour)


FIELDS = dict(
    base="the base", code="", workdirs="none", steps=0, fractions=(1.0,)
)


def make(folder, *methods, minutes=0.0, fields=FIELDS):
  c = ml_collections.ConfigDict(fields)
  c.methods = methods
  return Counting(c, folder, minutes)


@pytest.fixture(autouse=True)
def load(monkeypatch):
  monkeypatch.setattr(ctrl_jax, "load", lambda path: f"model of {path}")
  monkeypatch.setattr(saved_model, "read_config", lambda path: path)


def test_every_method_and_seed_is_a_line(tmp_path):
  run = make(tmp_path, dict(name="a"), dict(name="b", seeds=[0, 3]))
  assert run.run()
  assert run.measured == tuple(
      (name, "model of the base", seed)
      for name, seed in (("a", 0), ("b", 0), ("b", 3))
  )
  found = lines.collect(tmp_path)
  assert [x["seed"] for x in found["b"]] == [0, 3]
  assert found["a"][0]["colour"] == "red" and found["a"][0]["step"] == 0


def test_the_same_call_goes_on(tmp_path):
  methods = dict(name="a"), dict(name="b", colour="blue")
  assert make(tmp_path, *methods).run("b")
  again = make(tmp_path, *methods)
  assert again.run()
  assert [name for name, _, _ in again.measured] == ["a"]
  assert lines.collect(tmp_path)["b"][0]["colour"] == "blue"


def test_it_ends_when_time_is_up(tmp_path):
  assert not make(tmp_path, dict(name="a"), minutes=1e-9).run()
  assert not list(tmp_path.iterdir())


def test_what_is_shared_is_read_first(tmp_path, monkeypatch):
  class Judged(Counting):
    shared = ("judge",)

    @property
    def judge(self):
      raise errors.UserError("There is no judge.")

  run = Judged(make(tmp_path, dict(name="a")).config, tmp_path)
  with pytest.raises(errors.UserError, match="no judge"):
    run.run()
  assert not run.measured
  monkeypatch.undo()
  with pytest.raises(errors.UserError, match="'the base' is no folder"):
    run.run()


def test_a_method_may_have_a_model_of_its_own(tmp_path):
  class Own(Counting):
    def untrained(self, method):
      return f"{method.colour} model"

  run = Own(make(tmp_path, dict(name="a", colour="blue")).config, tmp_path)
  assert run.run() and run.measured == (("a", "blue model", 0),)


def test_bad_input(tmp_path):
  with pytest.raises(errors.UserError, match="no method 'c'"):
    make(tmp_path, dict(name="a")).run("c")
  with pytest.raises(errors.UserError, match="one name"):
    make(tmp_path, dict(name="a"), dict(name="a"))
  with pytest.raises(errors.UserError, match="Did you mean 'colour'"):
    make(tmp_path, dict(name="a", color="red"))


@pytest.mark.parametrize("method, says", [
    (dict(name="a", seeds=3), r"'a' has seeds=3: give a tuple"),
    (dict(name="a", seeds="01"), "has seeds='01'"),
    (dict(name="a", seeds=(0, -1)), "from 0 on"),
    (dict(name="a", seeds=(0.5,)), "from 0 on"),
    (dict(name="a", seeds=()), r"has seeds=\(\): give a tuple"),
    (dict(), "name=None"),
    (dict(name=""), "name=''"),
    (dict(name="../a"), r"name='\.\./a': give it one without slashes"),
])
def test_a_bad_method(tmp_path, method, says):
  with pytest.raises(errors.UserError, match=says):
    make(tmp_path, dict(name="b"), method)


def test_what_is_missing_is_found_before_anything_is_measured(tmp_path):
  fields = {k: FIELDS[k] for k in ("base", "code", "steps")}
  run = make(tmp_path, dict(name="a"), fields=fields)
  with pytest.raises(
      errors.UserError, match=r"no workdirs, fractions: start from configs/\*_"
  ):
    run.run()
  with pytest.raises(errors.UserError, match="has no methods"):
    Counting(ml_collections.ConfigDict(FIELDS), tmp_path)
  run = make(tmp_path, dict(name="a"), dict(name="b", config="gone.py:x"))
  with pytest.raises(errors.UserError, match="no configuration 'gone.py'"):
    run.run()
  assert not run.measured
  assert run.run("a")  # Which does without.


def test_the_base_knows_the_code_before_anything_is_measured(
    tmp_path, monkeypatch
):
  tokenizer = sentencepiece.train(["some words"] * 5, ["Text"], vocab_size=105)
  model = types.SimpleNamespace(tokenizer=tokenizer)
  monkeypatch.setattr(ctrl_jax, "load", lambda _: model)
  run = make(tmp_path, dict(name="a"), fields=FIELDS | dict(code="Txt"))
  with pytest.raises(errors.UserError, match="code 'Txt'. Did you mean 'Text'"):
    run.run()
  assert not run.measured
  assert make(tmp_path, dict(name="a"), fields=FIELDS | dict(code="Text")).run()


def test_models_come_first_and_only_when_the_rest_is_right(
    tmp_path, monkeypatch
):
  made = []
  file = tmp_path / "base.py"
  file.write_text("")
  monkeypatch.setattr(
      models, "make", lambda of, is_time_up: made.append(of) or not is_time_up()
  )
  fields = FIELDS | dict(models=(dict(workdir="the base", config=str(file)),))
  run = make(tmp_path, dict(name="a", config="gone.py"), fields=fields)
  with pytest.raises(errors.UserError, match="no configuration 'gone.py'"):
    run.run()
  assert not made
  assert not make(tmp_path, dict(name="a"), minutes=1e-9, fields=fields).run()
  run = make(tmp_path, dict(name="a"), fields=fields)
  assert run.run() and run.measured and len(made) == 2
  fields["models"] += (dict(workdir="b", config="lost.py"),)
  with pytest.raises(errors.UserError, match="no configuration 'lost.py'"):
    make(tmp_path, dict(name="b"), fields=fields).run()
