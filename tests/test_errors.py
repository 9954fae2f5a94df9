import errno
import socket
import types

import pytest

from ctrl_jax import errors


def test_nearest_suggests_or_lists():
  assert "Did you mean 'Legal'?" in errors.nearest("legl", ["Books", "Legal"])
  text = errors.nearest("zzz", ["Books", "Legal"])
  assert "Did you mean" not in text and "Books, Legal" in text
  many = errors.nearest("x", [f"c{i}" for i in range(100)])
  assert many.endswith("..., ...") or ", ..." in many


def test_naming_adds_a_file_where_there_is_none():
  with pytest.raises(OSError) as e, errors.naming("/a/b"):
    raise OSError(28, "No space left on device")
  assert e.value.filename == "/a/b"
  with pytest.raises(OSError) as e, errors.naming("/a/b"):
    raise OSError(28, "No space left on device", "/c")
  assert e.value.filename == "/c"


def test_choices():
  values = types.SimpleNamespace(a="x", b=2)
  errors.check_choices("part", values, a=("x", "y"), b=(1, 2))
  with pytest.raises(errors.UserError, match="part.b=2 is not one of 1, 3"):
    errors.check_choices("part", values, a=("x",), b=(1, 3))


def test_one_line_and_exit_code():
  assert errors.one_line(errors.UserError("a\n  b")) == "a b"
  line = errors.one_line(OSError(28, "No space left on device", "/c"))
  assert line.startswith("No space left on device '/c'. Free some space")
  assert errors.exit_code(errors.UserError()) == 2
  assert errors.exit_code(OSError(28, "No space")) == 2
  assert errors.exit_code(errors.MissingProcess()) == 1
  assert errors.exit_code(AssertionError()) == 1
  assert errors.exit_code(KeyboardInterrupt()) == 130
  assert errors.exit_code(SystemExit(143)) == 143


def kind(module, name, **fields):
  """An error of a library that may not be installed."""
  made = type(name, (Exception,), {"__module__": module} | fields)
  return made("says")


def because(cause):
  e = ValueError("not read")
  e.__cause__ = cause
  return e


@pytest.mark.parametrize("e", [
    ConnectionResetError(errno.ECONNRESET, "reset"), TimeoutError(),
    OSError(errno.EIO, "Input/output error", "/bucket/x"),
    OSError(errno.ENETUNREACH, "Network is unreachable"),
    socket.gaierror(-3, "Temporary failure in name resolution"),
    kind("requests.exceptions", "ProxyError"),
    kind("aiohttp.client_exceptions", "ClientPayloadError"),
    kind("google.auth.exceptions", "RefreshError"),
    kind("gcsfs.retry", "ChecksumError"),
    kind("gcsfs.retry", "HttpError", code=503),
    kind("gcsfs.retry", "HttpError", code="429"),
    ValueError("UNAVAILABLE: Error reading \"gs://b/x\""),
    because(because(TimeoutError())), errors.MissingProcess("gone"),
])
def test_what_the_next_start_may_not_meet(e):
  assert errors.is_passing(e)
  assert errors.exit_code(e) == 1


@pytest.mark.parametrize("e", [
    FileNotFoundError("gs://b/x"), OSError("Forbidden: gs://b/x"),
    OSError(errno.ENOSPC, "No space"), PermissionError(errno.EACCES, "no"),
    kind("google.auth.exceptions", "DefaultCredentialsError"),
    kind("gcsfs.retry", "HttpError", code=401),
    ValueError("DATA_LOSS: INTERNAL: checksum"), SystemExit(2),
    because(ValueError()),
])
def test_mistakes_and_damage_stay(e):
  assert not errors.is_passing(e)
  if isinstance(e, OSError):
    assert errors.exit_code(e) == 2
