import matplotlib.figure
import pytest

from ctrl_jax.evaluation import plots
from ctrl_jax.experiments import panels


def line(accuracy, slor):
  of = lambda x: dict(value=x, low=0.9 * x, high=1.5 * x)
  return dict(accuracy=of(accuracy), slor=of(slor))


@pytest.fixture
def figure(monkeypatch):
  """What would be saved."""
  found = []
  monkeypatch.setattr(plots, "save", lambda figure, file: found.append(figure))
  return found


def test_means_over_seeds_and_their_intervals(figure):
  series = {
      "trained": {10: [line(0.2, 1.0), line(0.4, 3.0)], 1: [line(0.1, 0.5)]},
      "base": {None: [line(0.05, 1.5)]},
  }
  panels.draw("unused.png", series, "steps", log=True)
  (drawn,) = figure
  assert isinstance(drawn, matplotlib.figure.Figure)
  slor, accuracy = drawn.axes
  trained, base = slor.lines
  assert list(trained.get_xdata()) == [1, 10]
  assert list(trained.get_ydata()) == [0.5, 2.0]
  assert list(base.get_ydata()) == [1.5, 1.5]
  assert list(accuracy.lines[0].get_ydata()) == pytest.approx([10, 30])
  (shaded,) = slor.collections
  y = shaded.get_paths()[0].vertices[:, 1]
  assert (y.min(), y.max()) == (pytest.approx(0.45), pytest.approx(3.0))
  assert slor.get_xscale() == "log" and slor.get_xlabel() == "steps"
  names = [text.get_text() for text in accuracy.get_legend().get_texts()]
  assert names == ["trained", "base"]


def test_no_two_of_many_lines_look_alike(figure):
  series = {str(i): {1: [line(0.2, i)], 2: [line(0.2, i)]} for i in range(16)}
  panels.draw("unused.png", series, "steps")
  drawn = figure[0].axes[0].lines
  assert len({(x.get_color(), x.get_linestyle()) for x in drawn}) == 16


def test_a_file(tmp_path):
  panels.draw(tmp_path / "a.png", {"a": {1: [line(0.5, 1.0)]}}, "steps")
  assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
