"""The thread, with a link that the test writes to."""

import threading
import time

import jax
import pytest

from ctrl_jax.hosts import watcher


class Link:
  index, count = 0, 2

  def __init__(self):
    self.texts = {}
    self.broken = False

  def leave(self):
    self.texts["left"] = ""

  def put(self, name, text):
    self._check()
    self.texts[name] = text

  def remove(self, name):
    del self.texts[name]

  def read(self, folder):
    self._check()
    return {
        name.partition("/")[2]: text for name, text in list(self.texts.items())
        if name.startswith(f"{folder}/")
    }

  def _check(self):
    if self.broken:
      raise jax.errors.JaxRuntimeError("UNAVAILABLE")


@pytest.fixture
def link(monkeypatch):
  """Process 0's; the other one has left already."""
  link = Link()
  link.texts["leaving/1"] = ""
  monkeypatch.setattr(watcher, "_SECONDS_BETWEEN_LOOKS", 0.01)
  monkeypatch.setattr(watcher, "_SECONDS_TO_SAY", 0.3)
  return link


def test_a_preemption_here_is_told_and_one_there_is_heard(link):
  watch, heard = watcher.Watcher(link), threading.Event()
  watch.open(heard.set)
  watch.notice()
  while "board/preempted-1" not in link.texts:
    pass
  # Its own notice is no news.
  assert not heard.wait(0.1)
  watch.close()
  # That of an earlier training of this process is none of the next one's.
  watch.open(heard.set)
  assert not heard.wait(0.1)
  link.texts["board/preempted-2"] = ""
  assert heard.wait(60)
  watch.close()
  watch.stop()


def test_an_error_there_ends_this_process(link, monkeypatch, capsys):
  ended = threading.Event()
  codes = []

  def leave(code):
    codes.append(code)
    ended.set()
    threading.Event().wait()  # It does not come back from there.

  monkeypatch.setattr(watcher.os, "_exit", leave)
  watcher.Watcher(link)
  link.texts["board/error-1"] = '["The disk is full.", 2]'
  assert ended.wait(60) and codes == [2]
  assert capsys.readouterr().err == "Error: Process 1: The disk is full.\n"
  assert "leaving/0" in link.texts and "left" in link.texts


@pytest.mark.parametrize("broken, missing", [(False, []), (True, [0])])
def test_an_error_here_is_told(link, broken, missing):
  watch = watcher.Watcher(link)
  link.broken = broken
  assert watch.fail("Nothing is there.", 2) == missing
  assert ("left" in link.texts) == (not broken)
  if not broken:
    assert link.texts["board/error-0"] == '["Nothing is there.", 2]'


def test_an_error_here_that_not_all_hear(link):
  del link.texts["leaving/1"]
  assert watcher.Watcher(link).fail("Nothing is there.", 2) == [1]
  assert "leaving/0" not in link.texts and "left" not in link.texts


def test_a_link_that_is_gone_is_left_to_jax(link):
  watch = watcher.Watcher(link)
  link.broken = True
  watch.open(lambda: None)
  watch.notice()
  watch.close()
  watch.stop()


def test_what_could_not_be_told_is_told_again(link):
  watch = watcher.Watcher(link)
  link.broken = True
  watch.open(lambda: None)
  watch.notice()
  time.sleep(0.1)  # Ten looks.
  assert "board/preempted-1" not in link.texts
  link.broken = False
  end = time.monotonic() + 60
  while "board/preempted-1" not in link.texts:
    assert time.monotonic() < end
    time.sleep(0.01)
  watch.stop()
