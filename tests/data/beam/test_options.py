"""Beam's options as a user gives them."""

import socket

import pytest

pytest.importorskip("apache_beam", reason="needs the extra `beam`")

from ctrl_jax import errors  # noqa: E402
from ctrl_jax.data.beam import options  # noqa: E402


def test_options_as_tensorflow_datasets_takes_them():
  found = options.parse("runner=DirectRunner, direct_num_workers=3,streaming")
  values = found.get_all_options()
  # As DirectRunner runs it when it does not fetch a program to run it.
  assert options.runner(found) == "FnApiRunner"
  assert options.runner(options.parse("runner=FlinkRunner,")) == "FlinkRunner"
  assert options.runner(options.parse("runner=direct")) == "FnApiRunner"
  assert values["direct_num_workers"] == 3 and values["streaming"]


@pytest.mark.parametrize("text, message", [
    ("direct_num_workers=2", "must name a runner"),
    ("runner=DirectRunner,direct_num_worker=2", "Did you mean 'direct_num_w"),
    ("runner=DirectRunner,direct_num_workers=two", "invalid int value"),
    ("runner=NoSuch", "Unexpected pipeline runner"),
    ("runner=os.path", "'module' object is not callable"),
    ("runner=builtins.dict", "no runner of Beam's"),
    ("runner=DirectRunner,direct_num_workers=-1", "must be 0 .one a core. or"),
    ("runner=apache_beam.runners.runner.PipelineRunner", "no runner of Beam's"),
    ("runner=dataflow,region=r",
     "DataflowRunner needs project, temp_location=gs://"),
    ("runner=DataflowRunner,project=p,region=r,temp_location=/tmp/a",
     r"needs temp_location=gs://\.\.\.\.$"),
])
def test_mistakes(text, message):
  with pytest.raises(errors.UserError, match=message):
    options.parse(text)


def test_dataflow_by_another_name_and_without_asking_it(monkeypatch):
  monkeypatch.setattr(socket, "socket", None)
  found = options.parse(
      "runner=dataflow,project=p,region=r,temp_location=gs://b/t"
  )
  assert options.runner(found) == options.DATAFLOW


def test_what_beam_refuses_is_one_line():
  with pytest.raises(errors.UserError) as found:
    with options.naming_errors():
      raise ValueError("Pipeline has validations errors: \nInvalid job name")
  assert errors.one_line(found.value) == f"{options.FLAG}: Invalid job name"


@pytest.mark.parametrize("raised, told", [
    (
        PermissionError("[Errno 13] Permission denied: '/a/b' [while running"),
        "Permission denied '/a/b'. Choose a folder you may write to, or",
    ),
    (
        RuntimeError(
            "Traceback:\n  File ...\nOSError: [Errno 28] No space left on"
            " device\n\nDuring handling\n"
        ),
        "No space left on device. Free some space",
    ),
])
def test_a_workers_error_of_the_system_is_one_line(raised, told):
  with pytest.raises(OSError) as found:
    with options.naming_errors():
      raise raised
  assert told in errors.one_line(found.value)
  assert errors.exit_code(found.value) == 2


@pytest.mark.parametrize("kind", [errors.UserError, errors.Passing])
def test_a_workers_error_is_one_line(kind):
  class RunnersError(RuntimeError):
    pass

  trace = (
      "Traceback (most recent call last):\n  File ...\n"
      f"ctrl_jax.errors.{kind.__name__}: a.txt:3: not JSON: Expecting value.\n"
      "During handling ...\n"
      f"{kind.__name__}: a.txt:3: not JSON. [while running 'Read']\n"
  )
  for e in (
      kind("a.txt:3: not JSON. [while running 'Read-ptransform-3']"),
      RunnersError(trace),
  ):
    with pytest.raises(kind, match=r"^a.txt:3: not JSON") as found:
      with options.naming_errors():
        raise e
    assert "while" not in str(found.value) and "\n" not in str(found.value)
  with pytest.raises(RunnersError, match="no quota"):
    with options.naming_errors():
      raise RunnersError("no quota")
